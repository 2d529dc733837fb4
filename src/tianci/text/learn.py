"""Learning a vocabulary: exactly as many entries as asked for, the same for the same text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from tianci.errors import UserError
from tianci.settings import setting
from tianci.text.clean import NUMBER_TOKEN, Cleaning
from tianci.text.count import APART, BYTES, CLAUSES, WordCounter
from tianci.text.formats import bert_template, roberta_template
from tianci.text.measure import measure
from tianci.text.pieces import Pieces, Wish, choose_pieces
from tianci.text.records import text_blocks
from tianci.text.source import find_files
from tianci.text.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# RoBERTa's, at its ids: positions are counted from the padding's on
SPECIAL_BYTES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
HELD_BACK_LINES = 5_000
FEW_LINES = 1_000  # below this, holding lines back would cost more than it shows
# Words of bpe and unigram: a Chinese clause, a sign, or what lies between; each with the space
# before it.
CLAUSE = r"▁?\p{Han}+|▁?[\p{P}\p{S}&&[^▁]]"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What to learn."""

    kind: Literal["wordpiece", "char", "bpe", "byte-bpe", "unigram"] = setting(
        "char", "how pieces are made; char keeps Chinese characters single"
    )
    size: int = setting(8000, "entries, special tokens included")
    lower: bool | None = setting(None, "lower case; default: yes for wordpiece and char")
    strip_accents: bool | None = setting(None, "é becomes e; default: as for lower case")
    nfkc: bool = setting(False, "unify compatible characters (NFKC): Ａ１㎏ﬁ become A1kgfi")
    simplify: bool = setting(False, "traditional Chinese characters to simplified")
    numbers: bool = setting(False, "integers and decimals become #NUM#")
    special: list[str] = setting([], "one more special token; may be repeated")  # noqa: RUF009
    sentinels: int = setting(0, "special tokens <extra_id_0>, <extra_id_1>, ...: T5 has 100")
    min_frequency: int = setting(2, "how often a piece must occur")
    coverage: float = setting(0.9995, "share of all characters that gets an entry in any case")
    field: str = setting("text", "the field of .jsonl records that holds the text")
    hold_back: float = setting(0.01, "share of the lines to measure on instead of learning from")

    def cleaning(self) -> Cleaning:
        lower = self.kind in ("wordpiece", "char") if self.lower is None else self.lower
        strip = lower if self.strip_accents is None else self.strip_accents
        return Cleaning(lower, strip, self.nfkc, self.simplify, self.numbers)

    def special_tokens(self) -> list[str]:
        """All special tokens in the order of their ids."""
        hidden = [f"<extra_id_{number}>" for number in range(self.sentinels)]
        usual = SPECIAL_BYTES if self.kind == "byte-bpe" else SPECIAL
        tokens = [*usual, *([NUMBER_TOKEN] if self.numbers else []), *self.special, *hidden]
        for token, count in Counter(tokens).items():
            if count > 1:
                raise UserError(f'special token "{token}" is given twice; each needs its own name')
            if not token or token != token.strip():
                raise UserError(f'special token "{token}" is empty or has space around it')
        return tokens


def learn(
    paths: Iterable[str | Path],
    wanted: Vocabulary,
    reading: Callable[[int], object] | None = None,
    learning: Callable[[int], object] | None = None,
) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer and its measures; `reading` hears of bytes, `learning` of pieces."""
    _check(wanted)
    special = wanted.special_tokens()
    engine = _empty_engine(wanted)
    number = engine.normalizer.normalize_str(NUMBER_TOKEN) if wanted.numbers else None
    pattern = {"wordpiece": APART, "char": APART, "byte-bpe": BYTES}.get(wanted.kind, CLAUSES)
    counter = WordCounter(engine, pattern, number)
    files = find_files(paths)
    lines, held_back, sample = _read(files, counter, wanted.hold_back, wanted.field, reading)
    words = counter.words()
    if not words:
        raise UserError(f"{', '.join(map(str, files))}: no text found; give a file with words")
    wish = Wish(wanted.kind, wanted.size, special, wanted.min_frequency, wanted.coverage)
    _fill_engine(engine, wanted, special, choose_pieces(words, wish, learning))
    segments = [] if wanted.kind == "byte-bpe" else ["token_type_ids"]
    config = {
        "model_max_length": 512,
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        **_bert_config(wanted),
    }
    tokenizer = Tokenizer(engine, wanted.kind, config)
    report = {
        "kind": wanted.kind,
        "size": len(tokenizer),
        "lines": lines,
        "words": sum(words.values()),
        "different_words": len(words),
        "measured_on": "held-back lines" if held_back else "training lines",
        **measure(tokenizer, held_back or sample),
    }
    return tokenizer, report


def _check(wanted: Vocabulary) -> None:
    if not 0 < wanted.coverage <= 1:
        raise UserError(f"coverage {wanted.coverage} is not a share above 0 and up to 1")
    if not 0 <= wanted.hold_back < 1:
        raise UserError(f"hold-back {wanted.hold_back} is not a share from 0 to below 1")
    if wanted.sentinels < 0:
        raise UserError(f"sentinels {wanted.sentinels} is below 0")
    if wanted.min_frequency < 1:
        raise UserError(f"min-frequency {wanted.min_frequency} is below 1")


def _read(
    files: Sequence[Path],
    counter: WordCounter,
    share: float,
    field: str,
    progress: Callable[[int], object] | None,
) -> tuple[int, list[str], list[str]]:
    """Number of lines with text, those held back, and the first others."""
    limit = int(share * (1 << 32))
    held_back: list[str] = []
    sample: list[str] = []
    total = 0
    for file in files:
        for block in text_blocks(file, field, progress):
            lines = [line for line in block if line and not line.isspace()]
            total += len(lines)
            if limit and len(held_back) < HELD_BACK_LINES:
                # by content, so that a line that comes twice is never learned and measured
                back = [line for line in lines if crc32(line.encode()) < limit]
                back = back[: HELD_BACK_LINES - len(held_back)]
                if back:
                    held_back += back
                    chosen = set(back)
                    lines = [line for line in lines if line not in chosen]
            if len(sample) < FEW_LINES:
                sample += lines[: FEW_LINES - len(sample)]
            counter.add(lines)
    if total < FEW_LINES:
        counter.add(held_back)
        return total, [], [*sample, *held_back]
    return total, held_back, sample


def _empty_engine(wanted: Vocabulary) -> tokenizers.Tokenizer:
    """Cleaning and word splitting, before anything is learned."""
    model = {"unigram": models.Unigram, "bpe": models.BPE, "byte-bpe": models.BPE}
    engine = tokenizers.Tokenizer(model.get(wanted.kind, models.WordPiece)())
    apart = wanted.kind in ("wordpiece", "char")
    normalizer = wanted.cleaning().normalizer(chinese_apart=apart, exact=wanted.kind == "byte-bpe")
    if normalizer is not None:
        engine.normalizer = normalizer
    if apart:
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        engine.decoder = decoders.WordPiece(prefix="##")
    elif wanted.kind == "byte-bpe":
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.decoder = decoders.ByteLevel()
    else:
        # No space is put in front of a text: every ▁ is a space that is really there.
        engine.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(prepend_scheme="never"),
                pre_tokenizers.Split(Regex(CLAUSE), behavior="isolated"),
            ]
        )
        engine.decoder = decoders.Metaspace(prepend_scheme="never")
    return engine


def _fill_engine(
    engine: tokenizers.Tokenizer,
    wanted: Vocabulary,
    special: list[str],
    pieces: Pieces,
) -> None:
    """Put the learned pieces into the engine, special tokens first."""
    vocabulary = {token: id for id, token in enumerate([*special, *pieces.tokens])}
    if wanted.kind == "unigram":
        pairs = [(token, 0.0) for token in special] + list(
            zip(pieces.tokens, pieces.scores, strict=True)
        )
        engine.model = models.Unigram(pairs, unk_id=1)
    elif wanted.kind == "byte-bpe":
        engine.model = models.BPE(vocabulary, pieces.merges)
    elif wanted.kind == "bpe":
        engine.model = models.BPE(vocabulary, pieces.merges, unk_token="[UNK]")
    else:
        engine.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    added = [
        # a hidden word takes the space before it along, as it has it in its token
        AddedToken(token, normalized=False, special=True, lstrip=token == "<mask>")
        for token in special
        if token != NUMBER_TOKEN
    ]
    engine.add_special_tokens(added)
    if wanted.numbers:
        engine.add_tokens([AddedToken(NUMBER_TOKEN, normalized=True, special=False)])
    if wanted.kind == "byte-bpe":
        engine.post_processor = roberta_template("<s>", "</s>", vocabulary)
    else:
        engine.post_processor = bert_template("[CLS]", "[SEP]", vocabulary)


def _bert_config(wanted: Vocabulary) -> dict[str, Any]:
    """Where the rules are exactly BERT's, say so, for programs that only know BERT."""
    cleaning = wanted.cleaning()
    if (
        wanted.kind not in ("wordpiece", "char")
        or cleaning.nfkc
        or cleaning.simplify
        or cleaning.numbers
    ):
        return {}
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": cleaning.lower,
        "strip_accents": cleaning.strip_accents,
        "tokenize_chinese_chars": True,
    }
