"""Random Unicode strings that are likely to break things."""

from __future__ import annotations

import random

POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "的一是在不了有和人这中大为上个国我以要他時來們說國對發會後過龍乾著",
    "0123456789０１２３４５６７８９.,%．，％‰",
    " \t  \u3000\u00a0\u2009\u2028",
    "，。、！？「」《》;:'\"()[]{}-_#@/\\*&^$+=<>|~`…—·“”",
    "éèêëāïöüßçñøåÉÀÇŐŚžİıǅΐΆЙйЁё",
    "\u0301\u0300\u0308\u0327\u0323\u0302\u0345\u0338\u20dd\u20d0\u0315\u035c\u0489",
    "ＡＢＺａｂｚ！＂＃（）：；＠［］￥",
    "ﬁﬂﬀ㎏㏒①②⑩Ⅳⅷ½¼²³™℃№㈱㍿ﷺ…㋿⁇",
    "ｱｲｶﾞﾊﾟｯかがきぎパはば゛゜ー々〇",
    "가각힣ᄀ까ᅢᆨᆩㄱㅏ한글",
    "مرحباًٌٍَُِّْﻻٱلله",
    "नमस्तेक्षिज्ञ্কোৌาำเแไम่க்ஷ",
    "שלוםּׁבְּרֵאשִׁית",
    "😀😃👍🏽👨\u200d👩\u200d👧❤\ufe0f🇨🇳🏳\ufe0f\u200d🌈1\ufe0f\u20e3",
    "\x01\x07\x0b\x0c\x1f\x7f\x85\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufffd\u00ad\ue000",
    "𠀀𠮷𪜀𫝀𬺰𰀀𝐀𝓐𝟘𝟗𝕬𐍈𒀀",
    "\u0344\u0958\u0b94\u1e9b\u2126\u212b\u0374\u037e\u0387\u1fbe\u1fef\u00b4\u00a8\u2011",
]
WHOLE = [
    "[MASK]",
    "[SEP]",
    "#NUM#",
    "12.5%",
    "3,000",
    "１，２３４．５",
    "mp3",
    "v2.0",
    "don't",
    "cafe\u0301",
    "naïve",
    "unbelievable",
    "the ",
    "今天天气",
    "繁體中文",
    "각",
    "e\u0327\u0301",
    "\u1100\u1161\u11a8",
    "\r\n",
    "  ",
]


def random_text(rng: random.Random) -> str:
    """Some characters out of a few pools, whole snippets, now and then any code point."""
    pools = rng.sample(POOLS, rng.randint(1, 4))
    parts = []
    for _ in range(rng.randint(1, 8)):
        draw = rng.random()
        if draw < 0.12:
            parts.append(rng.choice(WHOLE))
        elif draw < 0.17:
            parts.append(_any_character(rng))
        else:
            parts.append("".join(rng.choices(rng.choice(pools), k=rng.randint(1, 4))))
        if rng.random() < 0.2:
            parts.append(" ")
    return "".join(parts)


def _any_character(rng: random.Random) -> str:
    while True:
        code = rng.choice((rng.randrange(0x3000), rng.randrange(0x20000), rng.randrange(0x110000)))
        if not 0xD800 <= code < 0xE000:
            return chr(code)
