"""Free paragraphs to sentences, for Chinese, English and both mixed.

One pass finds the places where a sentence may end; only the doubtful ones (a full stop, a bracket
that is still open) are looked at again. A sentence keeps its closing quotes and brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A run of ends, what closes with it, and the space behind: 。” is one end, and so is ?!)
_END = re.compile(r"""([.!?。！？｡…；‼⁇⁈⁉]+)(["'”’»›」』》〉）】〕］}\])]*)(\s*)""")
_CHINESE_END = frozenset("。！？｡…；‼⁇⁈⁉")
_TITLE = (("《", "》"), ("（", "）"), ("(", ")"))
_BRACKET_REACH = 120  # a bracket that closes later than this was never meant to close

# The word in front of a full stop, its inner stops included: Mr, U.S, e.g, J
_BEFORE = re.compile(r"[^\W_][\w.'’-]*$")
_NEVER = _words("""
    mr mrs ms dr prof rev hon st mt gen col capt cmdr lt sgt maj adm gov sen rep pres messrs mme
    mlle vs cf viz eg ie al fig figs eq eqs sec ch vol vols pp ed eds trans ca approx e.g i.e
    jan feb mar apr jun jul aug sep sept oct nov dec
""")
# These may end a sentence or stand in the middle: the next word decides.
_MAYBE = _words("etc inc ltd co corp bros jr sr dept est ph.d m.d b.a m.a a.m p.m u.s u.k u.n d.c")
_BEFORE_NUMBER = _words("no nos p art para")  # No. 5, p. 12, but "He said no. Then"
_STARTERS = _words("""
    The A An It He She They We You I This That These Those There Here In On At By For From With
    After Before When While As If But And So Then However His Her Its Their Our My Your What Who
    How Why Although Since During Both Some Many Most Each Another Later Today Now
""")
_WORD = re.compile(r"[A-Za-z]+")
_ACRONYM = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_OPENING = "\"'“‘«([{（「『《【"


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, without the white space around them."""
    return list(_split(text))


def _split(text: str) -> Iterator[str]:
    start = 0
    for found in _END.finditer(text):
        at = found.start()
        if at < start:
            continue
        end = _close(text, start, found)
        if end is None or not _ends(text, start, at, end, found):
            continue
        if sentence := text[start:end].strip():
            yield sentence
        start = found.end() if end == found.end(2) else end
    if rest := text[start:].strip():
        yield rest


def _close(text: str, start: int, found: re.Match[str]) -> int | None:
    """Where the sentence ends: behind its closing marks, but before a quote that opens."""
    end = found.end(2)
    quote = text.find('"', found.end(1), end)
    if quote >= 0 and text.count('"', start, quote) % 2 == 0 and not found[3]:
        return quote
    return end


def _ends(text: str, start: int, at: int, end: int, found: re.Match[str]) -> bool:
    if end >= len(text):
        return True
    if any(_inside(text, start, at, *pair) for pair in _TITLE):
        return False
    if not _CHINESE_END.isdisjoint(found[1]):
        # 他说：“好！”——he is still speaking, and a lone … may stand in the middle of a sentence
        return text[end] not in "，、：,:—）)" and not (
            set(found[1]) <= {"…", "."} and found[3] and text[found.end()].islower()
        )
    return _ends_western(text, start, at, found)


def _inside(text: str, start: int, at: int, opening: str, closing: str) -> bool:
    """Whether a bracket opened in this sentence closes soon, but later."""
    opened = text.rfind(opening, start, at)
    if opened < 0 or text.find(closing, opened, at) >= 0:
        return False
    closes = text.find(closing, at, at + _BRACKET_REACH)
    # (He left.) ends a sentence although the bracket closes behind the stop; (e.g. here) does not
    return closes >= 0 and text[at:closes].strip(".!?。！？｡…；\"'”’」』") != ""


def _ends_western(text: str, start: int, at: int, found: re.Match[str]) -> bool:
    marks, space, after = found[1], found[3], text[found.end() : found.end() + 1]
    han_before = at > 0 and text[at - 1] > "\u2e7f"
    han_after = bool(after) and after > "\u2e7f" and after not in "，、：）"
    if not space:
        # 真的吗?是的! has no space; 3.14, a.b and 约翰.史密斯 do not end
        return han_before and han_after and marks[-1] != "."
    opens = after in _OPENING
    head = text[found.end() + 1 : found.end() + 2] if opens else after
    if head.islower() or after in ",;:-":
        return False
    if marks != ".":
        return True
    if found[2] and found[2][0] in ")]":
        return True
    return _stop_ends(text, start, at, found.end() + opens)


def _stop_ends(text: str, start: int, at: int, next_at: int) -> bool:
    """Whether a single full stop before white space ends the sentence, or only an abbreviation."""
    before = _BEFORE.search(text, max(start, at - 20), at)
    if before is None:
        return True
    word = before[0]
    low = word.lower()
    following = _WORD.match(text, next_at)
    starts = following is not None and following[0] in _STARTERS
    if low in _NEVER:
        return False
    if low in _BEFORE_NUMBER:
        return not text[next_at : next_at + 1].isdigit()
    if low in _MAYBE or ("." in word and _ACRONYM.fullmatch(word)):
        return starts
    if len(word) == 1 and word.isupper():
        # an initial, but "So do I." ends where a small word stands in front
        return word == "I" and text[max(start, at - 3) : at - 1].strip().islower() and starts
    return not (word.isdigit() and before.start() == start)  # "1. Introduction"
