"""Writing so that nothing is ever half there: beside, fsynced, then renamed."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tianci.claim import claim
from tianci.errors import UserError
from tianci.exchange import exchange
from tianci.room import NoRoom, check_room, explained, reason_of, refusal, sentence, size_of

# what lies beside a target while it is written (tmp) or, where needed, replaced (old)
TEMPORARY = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.(?P<kind>tmp|old)")

MOST_JSON = 64_000_000  # bytes of a JSON file; the record of a large run has a tenth of it
MOST_VALUES = 4_000_000  # values in one
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # how JSON writes half of a surrogate pair


def sync(path: Path) -> None:
    """Forces a file or a directory entry to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def write_directory(path: str | Path, needed: int = 0) -> Iterator[Path]:
    """A temporary sibling that becomes `path` when the block ends well, and vanishes otherwise.

    An existing directory is replaced at the very end, in one move; whoever reads, and whenever the
    process is killed, there is the old or the new one. Where it is known how many bytes are
    needed, nothing is begun that the disk cannot hold.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # what it points to is replaced, not the link
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is a file; give a directory to write to")
    with claim(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep(target.parent, target.name)
            beside = Path(tempfile.mkdtemp(".tmp", f".{target.name}.", target.parent))
        except OSError as error:
            raise refusal(target, error, needed) from error
        try:
            check_room(target, needed)
            yield beside
            beside.chmod(0o755)  # mkdtemp makes 0700, which nobody expects of a result
            for folder, _, names in os.walk(beside):
                for name in names:
                    sync(Path(folder, name))
                sync(Path(folder))
            _replace(beside, target)
        except BaseException as error:
            written = size_of(beside)
            shutil.rmtree(beside, ignore_errors=True)
            if reason := reason_of(error):
                told = sentence(target, reason, max(needed, written), least=needed < written)
                raise NoRoom(told) from error
            raise


def _replace(beside: Path, target: Path) -> None:
    if not target.exists():
        beside.rename(target)
        sync(target.parent)
    elif exchange(beside, target):
        sync(target.parent)
        shutil.rmtree(beside, ignore_errors=True)
    else:
        # A directory cannot be renamed over a full one: the old one steps aside, and comes back
        # on failure. A kill between the two moves is mended by `sweep`.
        old = Path(tempfile.mkdtemp(".old", f".{target.name}.", target.parent))
        target.rename(old)
        try:
            beside.rename(target)
        except OSError:
            old.rename(target)
            raise
        sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)


def remove_directory(path: Path) -> None:
    """Removes a directory; whoever looks, and whenever it is killed, sees all of it or nothing."""
    aside = Path(tempfile.mkdtemp(".tmp", f".{path.name}.", path.parent))
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path, name: str | None = None, below: bool = False) -> None:
    """Removes what killed writers left in a folder (of one target, or of all; also below).

    Only for whoever has claimed the target or the folder: then no living writer is among them.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.rglob(".*") if below else folder.glob(".*")):
        found = TEMPORARY.fullmatch(path.name)
        if not found or (name is not None and found["name"] != name):
            continue
        target = path.parent / found["name"]
        if found["kind"] == "old" and not target.exists() and any(path.iterdir()):
            path.rename(target)  # killed between two moves, where they cannot be one
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_file(path: str | Path, content: str | bytes) -> None:
    """Replaces one file atomically."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(".tmp", f".{target.name}.", target.parent)
    except OSError as error:
        raise refusal(target, error, len(data)) from error
    try:
        with explained(target, len(data)), os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync(target.parent)


def check_file(path: str | Path, most: int) -> int:
    """The size of a regular file; refuses pipes and devices, which may never end, and what is too
    large to be what it should be."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(about.st_mode):
        raise UserError(f"{path} is not a file that can be read")
    if about.st_size > most:
        raise UserError(
            f"{path} has {about.st_size:,} bytes; such a file has at most {most:,}, so it is "
            "refused unread"
        )
    return about.st_size


def read_small(path: str | Path, most: int = MOST_JSON) -> bytes:
    """The bytes of a file that is known to be small."""
    check_file(path, most)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def parse_json(path: str | Path, data: bytes) -> Any:
    """The JSON value in the bytes of a file, or one sentence that says what is wrong with it."""
    # each value takes up to 20 times its text in memory: a file of nothing but commas is refused
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise UserError(f"{path} holds more than {MOST_VALUES:,} values, so it is refused")
    try:
        value = json.loads(data.decode("utf-8"))
        if HALF.search(data):  # two halves are a character; one alone can be written nowhere
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise UserError(f"{path}: {half!a} in it is half a character, so it is no text") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from error
    except RecursionError:
        raise UserError(f"{path}: its values are nested too deeply to be read") from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{path}: not JSON that can be read ({error})") from error


def read_json(path: str | Path, most: int = MOST_JSON) -> dict[str, Any]:
    """The JSON object in a file, or one sentence that says what is wrong with it."""
    value = parse_json(path, read_small(path, most))
    if not isinstance(value, dict):
        raise UserError(f"{path} holds a JSON {type(value).__name__}, but an object is needed")
    return value


def write_json(path: str | Path, value: Any) -> None:
    """Writes readable JSON with a final newline."""
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
