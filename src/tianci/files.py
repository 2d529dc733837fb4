"""Writing so that nothing is ever half there: beside, fsynced, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tianci.errors import UserError


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


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file, or one sentence that says what is wrong with it."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} holds a JSON {type(value).__name__}, but an object is needed")
    return value


def write_json(path: str | Path, value: Any) -> None:
    """Writes readable JSON with a final newline."""
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
