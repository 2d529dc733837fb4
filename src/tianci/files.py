"""Writing so that nothing is ever half there: beside, fsynced, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tianci.errors import UserError

MOST_JSON = 64_000_000  # bytes of a JSON file; the record of a large run has a tenth of it
MOST_VALUES = 4_000_000  # values in one


def sync(path: Path) -> None:
    """Forces a file or a directory entry to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def write_directory(path: str | Path) -> Iterator[Path]:
    """A temporary sibling that becomes `path` when the block ends well, and vanishes otherwise.

    An existing directory is replaced at the very end; whoever reads sees the old or the new one.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is a file; give a directory to write to")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise UserError(f"cannot write to {target}: {error.strerror}") from error
    try:
        yield beside
        beside.chmod(0o755)  # mkdtemp makes 0700, which nobody expects of a result
        for folder, _, names in os.walk(beside):
            for name in names:
                sync(Path(folder, name))
            sync(Path(folder))
        _replace(beside, target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _replace(beside: Path, target: Path) -> None:
    # A directory cannot be renamed over a full one: the old one steps aside, and back on failure.
    if not target.exists():
        beside.rename(target)
    else:
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        target.rename(old / "was")
        try:
            beside.rename(target)
        except OSError:
            (old / "was").rename(target)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    sync(target.parent)


def write_file(path: str | Path, content: str | bytes) -> None:
    """Replaces one file atomically."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UserError(f"cannot write to {target}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
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
        return json.loads(data.decode("utf-8"))
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
