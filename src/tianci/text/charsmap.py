"""A character map in the form that the engine's `Precompiled` step reads.

It is SentencePiece's: the size of a double-array trie, the trie as 32-bit units (Darts-clone), and
then the replacements, each ended by NUL. The trie takes the UTF-8 bytes of a character to the
place of its replacement.
"""

from __future__ import annotations

from array import array
from sys import byteorder

LEAF = 1 << 31  # marks a unit that holds a value
HAS_LEAF = 1 << 8


def charsmap(mapping: dict[str, str]) -> bytes:
    """The map as bytes, the same for the same mapping in any order."""
    texts = bytearray()
    root: dict[int, dict] = {}  # type: ignore[type-arg]  # byte to node; 0 to a value
    for old in sorted(mapping):
        node = root
        for byte in old.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)  # type: ignore[assignment]
        texts += mapping[old].encode() + b"\0"
    units = _double_array(root)
    if byteorder == "big":
        units.byteswap()
    trie = units.tobytes()
    return len(trie).to_bytes(4, "little") + trie + bytes(texts)


def _double_array(root: dict[int, dict]) -> array[int]:  # type: ignore[type-arg]
    """Children of the unit at p lie at base ^ byte; the unit stores p ^ base and its own byte."""
    units = array("I", bytes(4 * 256))
    used = bytearray(256)
    used[0] = 1
    bases = {0}  # two nodes must not share one, or each would find the children of the other
    tried: dict[tuple[int, ...], int] = {}  # where these labels found no room, they never will
    todo = [(0, root)]
    while todo:
        place, node = todo.pop()
        labels = tuple(sorted(node))
        base = _free_base(used, bases, labels, tried)
        bases.add(base)
        if base ^ labels[-1] >= len(used):
            used.extend(bytes(256))
            units.frombytes(bytes(4 * 256))
        units[place] |= (place ^ base) << 10
        for byte in labels:
            used[base ^ byte] = 1
            if byte == 0:
                units[place] |= HAS_LEAF
                units[base] = LEAF | node[byte]  # type: ignore[operator]
            else:
                units[base ^ byte] = byte
                todo.append((base ^ byte, node[byte]))
    return units


def _free_base(
    used: bytearray, bases: set[int], labels: tuple[int, ...], tried: dict[tuple[int, ...], int]
) -> int:
    """The first base with room for all labels; the block of 256 after the end is all free."""
    for place in range(tried.get(labels, 0), len(used)):
        base = place ^ labels[0]
        if base not in bases and not any(used[base ^ label] for label in labels):
            tried[labels] = place
            return base
    tried[labels] = len(used)
    return len(used)
