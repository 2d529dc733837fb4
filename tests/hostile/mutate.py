"""Valid files made wrong: bytes that somebody else draws (hypothesis, atheris, a seed) say how."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any

DEEP = 100_000  # levels: more than any reader takes


class Dice:
    """Decisions out of a string of bytes; when they are used up, the first choice is taken."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        size = 1 if count <= 256 else 2 if count <= 1 << 16 else 4
        piece = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(piece, "little") % max(1, count)

    def one(self, options: Any) -> Any:
        return options[self.below(len(options))]


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**15, 2**31, 2**63, -(2**63), 10**12, 10**40, 0.5, -0.0,
    1e308,
    float("nan"), float("inf"), -float("inf"), "", " ", "x", "\0", "0", "-1", "\ud800", "\u202ea",
    "a\nb", "\x1b[2J", "../../etc/passwd", "/dev/zero", "天" * 300, "[MASK]", "[UNK]", "[CLS]",
    [], {}, [[]],
    [None], [1, "a", [2]], {"": {}}, {"a": [1, {"b": None}]}, ["a"] * 50, [0] * 50, nested(60),
    "os.path", "this.antigravity", "{i}", "gelu", "bert", "float64", "O", [1e400], {"name": "x"},
)  # fmt: skip


def mutate_json(dice: Dice, value: Any) -> Any:
    """The same value with one to three places changed."""
    value = copy.deepcopy(value)
    for _ in range(1 + dice.below(3)):
        holder: list[Any] = [value]
        parent: Any = holder
        key: Any = 0
        for _ in range(12):  # down to a place, anywhere
            inner = parent[key]
            if not isinstance(inner, dict | list) or not inner or dice.below(5) == 4:
                break
            parent = inner
            key = dice.one(list(inner)) if isinstance(inner, dict) else dice.below(len(inner))
        _change(dice, parent, key)
        value = holder[0] if holder else None
    return value


def _change(dice: Dice, parent: Any, key: Any) -> None:
    old = parent[key]
    what = dice.below(8)
    if what == 0 and len(parent) > 1:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        parent[dice.one(("", "x", "天", "type", "name", str(key) + "s"))] = old
    elif what == 2 and isinstance(old, bool | int | float) and not isinstance(old, bool):
        parent[key] = dice.one((old + 1, old - 1, -old, old * 2, old * 10**6, float(old), str(old)))
    elif what == 3 and isinstance(old, str):
        parent[key] = dice.one((old[:-1], old + old, old.upper(), " " + old, old + "\0", [old]))
    elif what == 4 and isinstance(old, list):
        parent[key] = dice.one((old * 2, old[::-1], old[:1], [old], [*old, None]))
    elif what == 5 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    else:
        parent[key] = copy.deepcopy(dice.one(ODD))


def written(dice: Dice, value: Any, indent: int | None = None) -> bytes:
    """JSON text of a value, now and then in a way that only just is, or is not, JSON."""
    text = json.dumps(value, ensure_ascii=bool(dice.below(2)), indent=indent)
    what = dice.below(24)
    if what == 1:
        text = "\ufeff" + text
    elif what == 2 and text.startswith("{"):
        text = '{"a": 1, "a": 2, ' + text[1:]  # a key twice
    elif what == 3:
        text = text + " x"
    elif what == 4:
        text = "[" * DEEP + text
    elif what == 5 and text.startswith("{") and len(text) > 2:
        text = '{"deep": ' + "[" * DEEP + "]" * DEEP + ", " + text[1:]
    elif what == 6 and text.startswith("{") and len(text) > 2:
        text = '{"long": ' + "9" * 5000 + ", " + text[1:]
    elif what == 7:
        text = text + "\n" * 1000 + " " * 70_000
    return text.encode("utf-8", "surrogatepass")


def mutate_bytes(dice: Dice, data: bytes) -> bytes:
    """The same bytes with one to four places changed."""
    changed = bytearray(data)
    for _ in range(1 + dice.below(4)):
        size = len(changed)
        at = dice.below(size + 1)
        what = dice.below(9)
        if what == 0 and size:
            changed[min(at, size - 1)] ^= 1 << dice.below(8)
        elif what == 1 and size:
            changed[min(at, size - 1)] = dice.below(256)
        elif what == 2:
            del changed[at:]
        elif what == 3:
            del changed[at : at + 1 + dice.below(64)]
        elif what == 4:
            changed[at:at] = dice.one(PIECES)
        elif what == 5:
            changed[at:at] = changed[at : at + 1 + dice.below(256)]
        elif what == 6:
            changed[at : at + 8] = struct.pack("<Q", dice.one((0, 1, 2**31, 2**63, 2**64 - 1)))
        elif what == 7:
            changed[at : at + 4] = dice.one(PIECES)
        else:
            changed[at:at] = bytes(dice.below(256) for _ in range(1 + dice.below(8)))
    return bytes(changed)


PIECES = (
    b"\0", b"\n", b"\r", b"\t", b'"', b"'", b",", b"[", b"]", b"{", b"}", b"=", b"\\",
    b"\xff", b"\xef\xbb\xbf",
    b"\xff\xfe", b"\xed\xa0\x80", b"\x1f\x8b", b"\xe2\x80\xa8", b"\x85", b"\x1b[31m", b"-1",
    b"nan", b"1e999",
    b"99999999999999999999", b"[" * 5000, b"a" * 200_000, b"\n" * 5000, b"\t" * 5000,
    b'"""', b"inf",
    b"-DOCSTART-", b"\\ud800", b"null", "天".encode() * 100, "é".encode(), "\u202e".encode(),
)  # fmt: skip

Mutation = Callable[[Dice, bytes], bytes]


def json_file(dice: Dice, data: bytes) -> bytes:
    """A file with one JSON value: mostly its values are changed, sometimes its bytes."""
    if dice.below(4) == 3:
        return mutate_bytes(dice, data)
    return written(dice, mutate_json(dice, json.loads(data)))


def json_lines(dice: Dice, data: bytes) -> bytes:
    """A file with a JSON value on each line: one line is changed."""
    lines = data.split(b"\n")
    at = dice.below(len(lines))
    if dice.below(4) == 3 or not lines[at]:
        return mutate_bytes(dice, data)
    lines[at] = written(dice, mutate_json(dice, json.loads(lines[at])))
    return b"\n".join(lines)


def safetensors_file(dice: Dice, data: bytes) -> bytes:
    """Weights: mostly the header is changed, its length made to fit or not."""
    if dice.below(4) == 3:
        return mutate_bytes(dice, data)
    size = int.from_bytes(data[:8], "little")
    header = written(dice, mutate_json(dice, json.loads(data[8 : 8 + size])))
    length = dice.one((len(header),) * 6 + (0, len(header) + 1, 2**40, 2**64 - 1))
    return length.to_bytes(8, "little") + header + data[8 + size :]
