"""The training runs below a directory: found, summed up, and read by a made-up id only."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tianci.errors import UserError
from tianci.serve.refusal import Refusal
from tianci.serve.run_digest import Digest
from tianci.serve.run_log import opened

DEPTH, FOLDERS, MOST = 8, 20_000, 500  # levels and directories looked at, runs listed
KEPT = 1.0  # seconds that a listing is good for, however many pages ask
BIGGEST, SMALL = 64_000_000, 300_000  # bytes of a JSON file that is read, and kept in memory
LOG, RECORD, SCORES = "log.jsonl", "run.json", "scores.json"
OURS = frozenset({LOG, RECORD, SCORES})
INNER = {"checkpoints", "resume", "best"}  # of a run: weights, no runs
T = TypeVar("T")
Stamp = tuple[int, int, int]  # of a file: changes when the file does


@dataclass(frozen=True)
class Run:
    """A directory with a log, or with the record of a run that has its logs further down."""

    id: str
    name: str  # its path below the root
    folder: Path
    files: frozenset[str]
    parent: Run | None = None  # the fine-tuning run that this is a trial of


@dataclass(frozen=True)
class Found:
    """What a look at the directory gave."""

    runs: list[Run]
    more: bool  # whether some were left out
    at: float


class Runs:
    """All runs below a directory. No path that a client names is ever opened."""

    def __init__(self, root: str | Path):
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UserError(f"{root} is not a directory; --runs takes one with runs in it")
        self._lock = threading.Lock()
        self._found: Found | None = None
        self._digests: dict[str, Digest] = {}
        self._read: dict[tuple[str, str], tuple[Stamp, dict[str, Any]]] = {}
        # threads of its own: slow disks must not hold up those that prepare inputs
        self._threads = ThreadPoolExecutor(2, "tianci-runs")
        self.streams = 0  # open ones

    async def aside(self, function: Callable[[], T]) -> T:
        """Reads in another thread; two at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def found(self) -> Found:
        """The runs, newest first; looked for at most once a second."""
        with self._lock:
            if self._found is None or time.monotonic() - self._found.at > KEPT:
                self._found = self._look()
                known = {run.id for run in self._found.runs}
                self._digests = {k: v for k, v in self._digests.items() if k in known}
                self._read = {k: v for k, v in self._read.items() if k[0] in known}
            return self._found

    def find(self, identity: str) -> Run:
        """The run of that id."""
        for run in self.found().runs:
            if run.id == identity:
                if not run.folder.resolve().is_relative_to(self.root):
                    break  # the directory has become a link since it was found
                return run
        raise Refusal("NotFound", "no run of that id; /runs lists them")

    def digest(self, run: Run) -> Digest:
        """What the log of a run says, brought up to date."""
        with self._lock:
            digest = self._digests.setdefault(run.id, Digest())
        digest.update(run.folder / LOG)
        return digest

    def read(self, run: Run, name: str) -> dict[str, Any]:
        """A JSON file of a run, read again only when it has changed; nothing where it is none."""
        if name not in run.files:
            return {}
        try:
            with opened(run.folder / name) as handle:
                about = os.fstat(handle)
                stamp = (about.st_ino, about.st_size, about.st_mtime_ns)
                known = self._read.get((run.id, name))
                if known is not None and known[0] == stamp:
                    return known[1]
                if about.st_size > BIGGEST:
                    return {}
                value = json.loads(os.pread(handle, about.st_size, 0))
        except (OSError, ValueError, RecursionError):
            return {}
        value = value if isinstance(value, dict) else {}
        if about.st_size <= SMALL:
            self._read[run.id, name] = stamp, value
        return value

    def kind(self, run: Run) -> str:
        """pretrain, finetune, or trial (of a fine-tuning run)."""
        if run.parent is not None:
            return "trial"
        tuned = SCORES in run.files or "task" in self.read(run, RECORD)
        return "finetune" if tuned else "pretrain"

    # ------------------------------------------------------------ looking

    def _look(self) -> Found:
        runs: list[Run] = []
        seen = 0
        for folder, files, above in _walk(self.root):
            seen += 1
            if files:
                runs.append(_run(self.root, folder, files, above))
            if seen >= FOLDERS:
                break
        runs.sort(key=changed, reverse=True)
        return Found(runs[:MOST], seen >= FOLDERS or len(runs) > MOST, time.monotonic())


Place = tuple[Path, frozenset[str]]  # a directory and which of our files it has


def _walk(root: Path) -> Iterator[tuple[Path, frozenset[str], Place | None]]:
    """Directories, which of our files they have, and the fine-tuning run above; never by a link."""
    waiting: list[tuple[Path, int, Place | None]] = [(root, 0, None)]
    while waiting:
        folder, depth, above = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inside = list(entries)
        except OSError:
            continue
        files = OURS & {e.name for e in inside if e.is_file(follow_symlinks=False)}
        yield folder, files, above
        below = (folder, files) if RECORD in files and LOG not in files else above
        if depth < DEPTH:
            waiting += [
                (Path(e.path), depth + 1, below)
                for e in inside
                if e.is_dir(follow_symlinks=False) and e.name[0] != "." and e.name not in INNER
            ]


def _run(root: Path, folder: Path, files: frozenset[str], above: Place | None) -> Run:
    parent = None
    if above is not None and LOG in files and RECORD not in files:
        parent = _run(root, *above, None)
    path = os.fsencode(folder.relative_to(root).as_posix())
    name = folder.name if folder == root else path.decode("utf-8", "replace")
    return Run(hashlib.sha256(path).hexdigest()[:16], name, folder, files, parent)


def changed(run: Run) -> float:
    """When something was last written."""
    return max((modified(run.folder / name) for name in run.files), default=0.0)


def modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
