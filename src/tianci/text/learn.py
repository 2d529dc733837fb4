"""Learning a vocabulary from raw text: exactly as many entries as asked for, the same for the same text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from tianci.errors import UserError
from tianci.settings import setting
from tianci.text.clean import NUMBER_TOKEN, Cleaning
from tianci.text.count import APART, BYTES, CLAUSES, WordCounter
from tianci.text.formats import bert_template
from tianci.text.measure import measure
from tianci.text.merges import merge_pairs
from tianci.text.source import find_files, read_blocks
from tianci.text.tokenizer import Tokenizer
from tianci.text.unigram import learn_unigram
from tianci.text.words import is_chinese

Kind = Literal["wordpiece", "char", "bpe", "byte-bpe", "unigram"]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Characters of different words that are learned from: bounds time and memory, whatever the corpus.
MOST_SYMBOLS = {"unigram": 5_000_000}
MOST_SYMBOLS_ELSE = 5_000_000
# A missing merge costs one token more, a missing character loses text: so it counts for more.
RARE_CHARACTER = 10
HELD_BACK_LINES = 5_000
FEW_LINES = 1_000  # below this, holding lines back would cost more than it shows
# Words of bpe and unigram: a Chinese clause, a sign, or what lies between; each with the space before it.
CLAUSE = r"▁?\p{Han}+|▁?[\p{P}\p{S}&&[^▁]]"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What to learn."""

    kind: Kind = setting("char", "wordpiece, char, bpe, byte-bpe or unigram")
    size: int = setting(8000, "entries, special tokens included")
    lower: bool | None = setting(None, "lower case; default: yes for wordpiece and char")
    strip_accents: bool | None = setting(None, "é becomes e; default: as for lower case")
    nfkc: bool = setting(False, "unify compatible characters (NFKC): Ａ１㎏ﬁ become A1kgfi")
    simplify: bool = setting(False, "traditional Chinese characters to simplified")
    numbers: bool = setting(False, "integers and decimals become #NUM#")
    special: list[str] = setting([], "one more special token; may be repeated")
    min_frequency: int = setting(2, "how often a piece must occur")
    coverage: float = setting(0.9995, "share of all characters that gets an entry in any case")
    hold_back: float = setting(0.01, "share of the lines to measure on instead of learning from")

    def cleaning(self) -> Cleaning:
        lower = self.kind in ("wordpiece", "char") if self.lower is None else self.lower
        strip = lower if self.strip_accents is None else self.strip_accents
        return Cleaning(lower, strip, self.nfkc, self.simplify, self.numbers)

    def special_tokens(self) -> list[str]:
        """All special tokens in the order of their ids."""
        tokens = [*SPECIAL, *([NUMBER_TOKEN] if self.numbers else []), *self.special]
        for token, count in Counter(tokens).items():
            if count > 1:
                raise UserError(f'special token "{token}" is given twice; each needs its own name')
            if not token or token != token.strip():
                raise UserError(f'special token "{token}" is empty or has space around it')
        return tokens


def learn(
    paths: Iterable[str | Path],
    wanted: Vocabulary,
    progress: Callable[[int], object] | None = None,
) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer, and what is worth knowing about it."""
    _check(wanted)
    special = wanted.special_tokens()
    engine = _empty_engine(wanted)
    number = engine.normalizer.normalize_str(NUMBER_TOKEN) if wanted.numbers else None
    pattern = {"wordpiece": APART, "char": APART, "byte-bpe": BYTES}.get(wanted.kind, CLAUSES)
    counter = WordCounter(engine, pattern, number)
    files = find_files(paths)
    lines, held_back, sample = _read(files, counter, wanted.hold_back, progress)
    words = counter.words()
    if not words:
        raise UserError(f"{', '.join(map(str, files))}: no text found; give a file with words")
    tokens, merges, scores = _pieces(words, wanted, special)
    _fill_engine(engine, wanted, special, tokens, merges, scores)
    config = {"model_max_length": 512, **_bert_config(wanted)}
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
    if wanted.min_frequency < 1:
        raise UserError(f"min-frequency {wanted.min_frequency} is below 1")


def _read(
    files: Sequence[Path],
    counter: WordCounter,
    share: float,
    progress: Callable[[int], object] | None,
) -> tuple[int, list[str], list[str]]:
    """Number of lines with text, those held back, and the first others."""
    limit = int(share * (1 << 32))
    held_back: list[str] = []
    sample: list[str] = []
    total = 0
    for file in files:
        for block in read_blocks(file, progress):
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
    normalizer = wanted.cleaning().normalizer(
        chinese_apart=apart, exact=wanted.kind == "byte-bpe"
    )
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


def _pieces(
    words: Mapping[str, int], wanted: Vocabulary, special: list[str]
) -> tuple[list[str], list[tuple[str, str]], list[float]]:
    """Tokens without the special ones; merges of the bpe kinds; scores of unigram."""
    forms = _forms(words, wanted.kind)
    base, spare = _alphabet(forms, wanted, special)
    needed = len(special) + len(base)
    if wanted.size < needed:
        letters = "bytes" if wanted.kind == "byte-bpe" else "characters"
        raise UserError(
            f"a vocabulary of {wanted.size} is too small: {len(special)} special tokens and "
            f"{len(base)} single {letters} need at least {needed}; use --size {needed} or more"
            + ("" if wanted.kind == "byte-bpe" else ", or a lower --coverage")
        )
    room = wanted.size - len(special)
    words, each = _thinned(words, MOST_SYMBOLS.get(wanted.kind, MOST_SYMBOLS_ELSE))
    least = wanted.min_frequency * each  # once in a thinned text is still once
    merges: list[tuple[str, str]] = []
    scores: list[float] = []
    if wanted.kind == "unigram":
        pairs = learn_unigram(words, base, room, max(least, 2 * each))
        tokens = [piece for piece, _ in pairs if piece not in special]
        scores = [score for piece, score in pairs if piece not in special]
    else:
        tokens, merges = _merged(words, base, spare, room, least, wanted, special)
    if len(tokens) < room:
        most = len(special) + len(tokens)
        raise UserError(
            f"the text is too small for {wanted.size} entries: only {most} different pieces occur "
            f"at least {wanted.min_frequency} times; use --size {most} or add text"
        )
    return tokens, merges, scores


def _forms(words: Mapping[str, int], kind: str) -> Counter[str]:
    """Counts of single symbols: c at the start of a word and ##c inside, or just c."""
    forms: Counter[str] = Counter()
    for word, count in words.items():
        if kind in ("wordpiece", "char"):
            forms[word[0]] += count
            for character in word[1:]:
                forms["##" + character] += count
        else:
            for character in word:
                forms[character] += count
    return forms


def _alphabet(
    forms: Counter[str], wanted: Vocabulary, special: list[str]
) -> tuple[list[str], list[tuple[int, str]]]:
    """Symbols that get an entry in any case, and the rarer ones with their counts, most frequent first.

    Without this limit the thousands of characters that occur a few times would fill a Chinese vocabulary.
    """
    if wanted.kind == "byte-bpe":  # all bytes, so that every text can be written
        every = sorted(pre_tokenizers.ByteLevel.alphabet())
        return sorted(every, key=lambda symbol: (-forms[symbol], symbol)), []
    characters: Counter[str] = Counter()
    for form, count in forms.items():
        characters[form[-1]] += count
    enough = wanted.coverage * sum(characters.values())
    base: set[str] = set() if wanted.kind in ("wordpiece", "char") else {"▁"}
    covered = 0
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if covered >= enough:
            break
        covered += count
        base |= _shapes(character, forms, wanted.kind)
    for token in special:
        base.discard(token)
    spare = [
        (count, form)
        for form, count in forms.items()
        if form not in base and count >= wanted.min_frequency and form not in special
    ]
    return (
        sorted(base, key=lambda form: (-forms[form], form)),
        sorted(spare, key=lambda item: (-item[0], item[1])),
    )


def _shapes(character: str, forms: Counter[str], kind: str) -> set[str]:
    """The symbols of one character: letters may stand anywhere, whatever this text happens to show."""
    if kind not in ("wordpiece", "char"):
        return {character}
    both = (character, "##" + character)
    if character.isalnum() and not is_chinese(character):
        return set(both)
    return {form for form in both if forms[form]}


def _merged(
    words: Mapping[str, int],
    base: list[str],
    spare: list[tuple[int, str]],
    room: int,
    least: int,
    wanted: Vocabulary,
    special: list[str],
) -> tuple[list[str], list[tuple[str, str]]]:
    """Alphabet, then merges and rarer characters together, whichever occurs more often."""
    prefix = "##" if wanted.kind in ("wordpiece", "char") else ""
    ids = {symbol: id for id, symbol in enumerate(base)}

    def spell(word: str) -> list[int | None]:
        if not prefix:
            return [ids.get(character) for character in word]
        return [ids.get(word[0]), *(ids.get(prefix + character) for character in word[1:])]

    def join(left: str, right: str) -> str | None:
        right = right.removeprefix(prefix)
        if wanted.kind == "char" and (is_chinese(left[-1]) or is_chinese(right[0])):
            return None
        return left + right

    tokens = dict.fromkeys(base)
    merges: list[tuple[str, str]] = []
    waiting = iter(spare)
    rare = next(waiting, None)
    for count, left, right, piece in merge_pairs(words, base, spell, join):
        while rare and rare[0] * RARE_CHARACTER >= count and len(tokens) < room:
            tokens[rare[1]] = None
            rare = next(waiting, None)
        if len(tokens) >= room or count < least:
            break
        if piece not in special:
            merges.append((left, right))
            tokens[piece] = None
    while rare and len(tokens) < room:
        tokens[rare[1]] = None
        rare = next(waiting, None)
    return list(islice(tokens, room)), merges


def _thinned(words: Mapping[str, int], most: int) -> tuple[Mapping[str, int], int]:
    """Fewer of the rarest words, each counted for so many as are left out; frequent words all stay."""
    if sum(map(len, words)) <= most:
        return words, 1
    heavy = 0
    often = 0
    for word, count in words.items():  # most frequent first
        heavy += len(word)
        if heavy > most // 2:
            often = count
            break
    light = sum(len(word) for word, count in words.items() if count <= often)
    every = -(-light // (most // 2))
    kept = {}
    for word, count in words.items():
        if count > often:
            kept[word] = count
        elif crc32(word.encode()) % every == 0:
            kept[word] = count * every
    return kept, every


def _fill_engine(
    engine: tokenizers.Tokenizer,
    wanted: Vocabulary,
    special: list[str],
    tokens: list[str],
    merges: list[tuple[str, str]],
    scores: list[float],
) -> None:
    """Put the learned pieces into the engine, special tokens first."""
    vocabulary = {token: id for id, token in enumerate([*special, *tokens])}
    if wanted.kind == "unigram":
        pairs = [(token, 0.0) for token in special] + list(zip(tokens, scores, strict=True))
        engine.model = models.Unigram(pairs, unk_id=1)
    elif wanted.kind == "byte-bpe":
        engine.model = models.BPE(vocabulary, merges)
    elif wanted.kind == "bpe":
        engine.model = models.BPE(vocabulary, merges, unk_token="[UNK]")
    else:
        engine.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    added = [AddedToken(token, normalized=False, special=True) for token in special if token != NUMBER_TOKEN]
    engine.add_special_tokens(added)
    if wanted.numbers:
        engine.add_tokens([AddedToken(NUMBER_TOKEN, normalized=True, special=False)])
    engine.post_processor = bert_template("[CLS]", "[SEP]", vocabulary)


def _bert_config(wanted: Vocabulary) -> dict[str, Any]:
    """Where the rules are exactly BERT's, say so: then also programs that only know BERT read it right."""
    cleaning = wanted.cleaning()
    if wanted.kind not in ("wordpiece", "char") or cleaning.nfkc or cleaning.simplify or cleaning.numbers:
        return {}
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": cleaning.lower,
        "strip_accents": cleaning.strip_accents,
        "tokenize_chinese_chars": True,
    }


