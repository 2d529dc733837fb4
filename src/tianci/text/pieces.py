"""Which pieces make up a vocabulary: the alphabet first, then what joins it best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

from tokenizers import pre_tokenizers

from tianci.errors import UserError
from tianci.text.merges import merge_pairs
from tianci.text.unigram import learn_unigram
from tianci.text.words import is_chinese

# Characters of different words that are learned from: bounds time and memory, whatever the corpus.
MOST_SYMBOLS = {"unigram": 2_000_000}
MOST_SYMBOLS_ELSE = 5_000_000
# A missing merge costs one token more, a missing character loses text: so it counts for more.
RARE_CHARACTER = 10


@dataclass(frozen=True, slots=True)
class Wish:
    """What kind of pieces, and how many."""

    kind: str
    size: int  # special tokens included
    special: list[str]
    min_frequency: int
    coverage: float

    @property
    def prefixed(self) -> bool:
        """Whether pieces inside a word are marked by ##."""
        return self.kind in ("wordpiece", "char")


@dataclass(frozen=True, slots=True)
class Pieces:
    """Tokens without the special ones; merges of the bpe kinds; scores of unigram."""

    tokens: list[str]
    merges: list[tuple[str, str]]
    scores: list[float]


def choose_pieces(
    words: Mapping[str, int], wish: Wish, progress: Callable[[int], object] | None = None
) -> Pieces:
    """Exactly as many pieces as wished for, or an error that says why not."""
    base, spare = _alphabet(_forms(words, wish), wish)
    needed = len(wish.special) + len(base)
    if wish.size < needed:
        letters = "bytes" if wish.kind == "byte-bpe" else "characters"
        raise UserError(
            f"a vocabulary of {wish.size} is too small: {len(wish.special)} special tokens and "
            f"{len(base)} single {letters} need at least {needed}; use --size {needed} or more"
            + ("" if wish.kind == "byte-bpe" else ", or a lower --coverage")
        )
    room = wish.size - len(wish.special)
    words, each = _thinned(words, MOST_SYMBOLS.get(wish.kind, MOST_SYMBOLS_ELSE))
    least = wish.min_frequency * each  # once in a thinned text is still once
    if wish.kind == "unigram":
        pairs = learn_unigram(words, base, room, max(least, 2 * each))
        pairs = [(piece, score) for piece, score in pairs if piece not in wish.special]
        pieces = Pieces([piece for piece, _ in pairs], [], [score for _, score in pairs])
    else:
        pieces = _merged(words, base, spare, room, least, wish, progress)
    if len(pieces.tokens) < room:
        most = len(wish.special) + len(pieces.tokens)
        raise UserError(
            f"the text is too small for {wish.size} entries: only {most} different pieces occur "
            f"at least {wish.min_frequency} times; use --size {most} or add text"
        )
    return pieces


def _forms(words: Mapping[str, int], wish: Wish) -> Counter[str]:
    """Counts of single symbols: c at the start of a word and ##c inside, or just c."""
    forms: Counter[str] = Counter()
    for word, count in words.items():
        if wish.prefixed:
            forms[word[0]] += count
            for character in word[1:]:
                forms["##" + character] += count
        else:
            for character in word:
                forms[character] += count
    return forms


def _alphabet(forms: Counter[str], wish: Wish) -> tuple[list[str], list[tuple[int, str]]]:
    """Symbols that get an entry in any case, and the rarer ones with counts, most frequent first.

    Without this limit the thousands of characters that occur a few times would fill a Chinese
    vocabulary.
    """
    if wish.kind == "byte-bpe":  # all bytes, so that every text can be written
        every = sorted(pre_tokenizers.ByteLevel.alphabet())
        return sorted(every, key=lambda symbol: (-forms[symbol], symbol)), []
    characters: Counter[str] = Counter()
    for form, count in forms.items():
        characters[form[-1]] += count
    enough = wish.coverage * sum(characters.values())
    base: set[str] = set() if wish.prefixed else {"▁"}
    covered = 0
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if covered >= enough:
            break
        covered += count
        base |= _shapes(character, forms, wish)
    base -= set(wish.special)
    spare = [
        (count, form)
        for form, count in forms.items()
        if form not in base and count >= wish.min_frequency and form not in wish.special
    ]
    return (
        sorted(base, key=lambda form: (-forms[form], form)),
        sorted(spare, key=lambda item: (-item[0], item[1])),
    )


def _shapes(character: str, forms: Counter[str], wish: Wish) -> set[str]:
    """The symbols of one character: letters may stand anywhere, whatever this text shows."""
    if not wish.prefixed:
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
    wish: Wish,
    progress: Callable[[int], object] | None,
) -> Pieces:
    """Alphabet, then merges and rarer characters together, whichever occurs more often."""
    prefix = "##" if wish.prefixed else ""
    ids = {symbol: id for id, symbol in enumerate(base)}

    def spell(word: str) -> list[int | None]:
        if not prefix:
            return [ids.get(character) for character in word]
        return [ids.get(word[0]), *(ids.get(prefix + character) for character in word[1:])]

    def join(left: str, right: str) -> str | None:
        right = right.removeprefix(prefix)
        if wish.kind == "char" and (is_chinese(left[-1]) or is_chinese(right[0])):
            return None
        return left + right

    tokens = dict.fromkeys(base)
    merges: list[tuple[str, str]] = []
    waiting = iter(spare)
    rare = next(waiting, None)
    told = -len(wish.special)
    for count, left, right, piece in merge_pairs(words, base, spell, join):
        while rare and rare[0] * RARE_CHARACTER >= count and len(tokens) < room:
            tokens[rare[1]] = None
            rare = next(waiting, None)
        if len(tokens) >= room or count < least:
            break
        if piece not in wish.special:
            merges.append((left, right))
            tokens[piece] = None
        if progress:
            progress(len(tokens) - told)
            told = len(tokens)
    while rare and len(tokens) < room:
        tokens[rare[1]] = None
        rare = next(waiting, None)
    return Pieces(list(islice(tokens, room)), merges, [])


def _thinned(words: Mapping[str, int], most: int) -> tuple[Mapping[str, int], int]:
    """Fewer of the rarest words, each counted for those left out; frequent words all stay."""
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
