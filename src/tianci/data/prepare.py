"""Raw text to a token store, in two passes: look at all of it, then encode it on all cores.

The store grows inside its directory, shard by shard, each written beside and renamed. The name of
a shard holds the key of its text and rules, so a run that was stopped finds what it had finished,
and a store that exists stays readable until the new corpus.json takes its place.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tqdm

from tianci.claim import claim
from tianci.data.corpus import MANIFEST, SPLITS, VERSION, Corpus, hash_of, token_type
from tianci.data.documents import Source, examine
from tianci.data.faults import list_faults
from tianci.data.gather import Gather
from tianci.data.piece import Rules, ShardMaker
from tianci.data.statistics import add_histograms, entropies
from tianci.data.survey import survey
from tianci.data.workers import Staff
from tianci.errors import UserError, need
from tianci.files import write_directory
from tianci.manifest import write_sealed
from tianci.room import explained
from tianci.settings import as_table, setting
from tianci.text.source import STDIN, find_files
from tianci.text.tokenizer import Tokenizer

SMALL = 3_000_000  # bytes on disk; less is done before a second process has started


@dataclass(frozen=True)
class PrepareSettings:
    """How text is read and what is done about its faults."""

    layout: Literal["auto", "lines", "paragraphs", "wrapped"] = setting(
        "auto", "a sentence per line, free paragraphs, or paragraphs broken over lines"
    )
    borders: Literal["auto", "blank", "gap", "line", "file"] = setting(
        "auto", "documents end at a blank line, two (gap), each line, or the file"
    )
    field: str = setting("text", "the field of .jsonl records that holds the text")
    held: float = setting(0.005, "share of documents held out for measuring (20 to 2,000 of them)")
    dedupe: bool = setting(False, "drop copies of documents and lines that come too often")
    repeated: int = setting(
        1000, "a line that comes so often is reported (and dropped with --dedupe)"
    )
    unbroken: int = setting(1000, "a sentence of so many characters is reported")
    words: Literal["none", "jieba"] = setting(
        "none", "also mark where Chinese words begin (zh extra)"
    )


def prepare(
    paths: Sequence[str | Path],
    tokenizer: str | Path,
    out: str | Path,
    settings: PrepareSettings | None = None,
    *,
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes the token store and gives back what `tianci prepare --json` prints."""
    settings = settings or PrepareSettings()
    _check(settings)
    started = time.perf_counter()
    out = Path(out)
    vocabulary = Tokenizer.load(tokenizer)
    with claim(out), _sources(find_files(paths), settings) as sources:
        _check_out(out)
        on_disk = sum(source.path.stat().st_size for source in sources)
        with Staff(threads or _cores(on_disk), ShardMaker.__module__) as staff:
            with _bar("reading", on_disk, quiet) as bar:
                seen = survey(
                    sources,
                    settings.field,
                    held=settings.held,
                    repeated=settings.repeated,
                    progress=bar.update,
                )
            if not seen.characters:
                raise UserError(f"no text in {', '.join(map(str, paths))}; every document is empty")
            rules = Rules(_store_tokenizer(vocabulary, out), settings.words, settings.unbroken)
            gather = Gather(seen, rules, settings.dedupe)
            shards = _encode(gather, out, rules, staff, quiet)
            result = _finish(out, shards, gather, settings, len(vocabulary))
    seconds = time.perf_counter() - started
    return {
        **result,
        "seconds": round(seconds, 2),
        "megabytes_per_second": round(seen.bytes / 1e6 / seconds, 2),
        "out": str(out),
    }


def _check(settings: PrepareSettings) -> None:
    if not 0 <= settings.held < 1:
        raise UserError(
            f"held is {settings.held}, but it is a share of the documents, from 0 to below 1"
        )
    for name in ("repeated", "unbroken"):
        if (value := getattr(settings, name)) < 2:
            raise UserError(f"{name} is {value}; it must be at least 2")
    if settings.words == "jieba":
        need("jieba", "zh")


def _check_out(out: Path) -> None:
    """An existing directory must be empty or hold a token store, finished or not."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a directory to write to")
    for entry in sorted(out.iterdir()) if out.exists() else []:
        ours = entry.name in (MANIFEST, "tokenizer") or entry.name.lstrip(".").startswith(
            (*(f"{split}-" for split in SPLITS), "tokenizer.", MANIFEST + ".")
        )
        if not ours:
            raise UserError(
                f"{out} holds {entry.name}, so it is no token store; give a new directory"
            )


@contextmanager
def _sources(files: Sequence[Path], settings: PrepareSettings) -> Iterator[list[Source]]:
    """The files and how each is to be read; standard input is kept, because it is read twice."""
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for file in files:
            path = _keep_stdin(Path(folder)) if file == STDIN else file
            form = examine(path, settings.layout, settings.borders, settings.field)
            sources.append(Source(path, str(file), form))
        yield sources


def _keep_stdin(folder: Path) -> Path:
    start = sys.stdin.buffer.read(1 << 16)
    path = folder / ("stdin.jsonl" if start.lstrip().startswith(b"{") else "stdin.txt")
    with explained(path, len(start), least=True), path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _store_tokenizer(tokenizer: Tokenizer, out: Path) -> str:
    """Puts a copy of the tokenizer into the store, and gives back the hash of its files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}") from error
    for rest in out.glob(".*"):  # of a run that was killed while it wrote
        shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
    with tempfile.TemporaryDirectory() as folder:
        with explained(Path(folder), 0, least=True):
            tokenizer.save(folder)
        wanted = hash_of(Path(folder))
    if not (out / "tokenizer").is_dir() or hash_of(out / "tokenizer") != wanted:
        (out / MANIFEST).unlink(missing_ok=True)  # its ids would no longer fit the tokenizer
        with write_directory(out / "tokenizer") as beside:
            tokenizer.save(beside)
    return wanted


def _cores(size: int) -> int:
    """How many cores are worth using for so many bytes."""
    if size < SMALL:
        return 1
    # a container may have fewer cores than the machine; macOS cannot tell
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _encode(
    gather: Gather, out: Path, rules: Rules, staff: Staff, quiet: bool
) -> dict[str, list[dict[str, Any]]]:
    """What is to be known about all shards of each split, in order."""
    shards: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    answers = staff.in_order(gather.pieces(), ShardMaker, (str(out), rules))
    with closing(answers), _bar("encoding", gather.survey.bytes, quiet) as bar:
        for number, info in enumerate(answers):
            shards[info["name"].partition("-")[0]].append(info)
            bar.update(gather.bytes[number])
    return shards


def _finish(
    out: Path,
    shards: dict[str, list[dict[str, Any]]],
    gather: Gather,
    settings: PrepareSettings,
    vocabulary: int,
) -> dict[str, Any]:
    """Writes corpus.json, drops what does not belong to it, and gives back the statistics."""
    every = [info for split in SPLITS for info in shards[split]]
    statistics = {
        name: sum(info[name] for info in every) for name in ("documents", "sentences", "tokens")
    }
    if not statistics["tokens"]:
        raise UserError(f"the text gives no tokens at all; is {out}/tokenizer the right tokenizer?")
    manifest = {
        "version": VERSION,
        "vocabulary": vocabulary,
        "dtype": token_type(vocabulary).str,
        "tokenizer": gather.rules.tokenizer,
        "words": settings.words,
        "settings": {"prepare": as_table(settings)},
        "splits": {
            split: [
                {name: info[name] for name in ("name", "documents", "sentences", "tokens", "files")}
                for info in shards[split]
            ]
            for split in SPLITS
        },
    }
    corpus = Corpus(out, manifest)
    unigram, bigram = entropies(corpus)
    faults = list_faults(every, gather)
    statistics |= {
        "bytes": gather.survey.bytes,
        "characters": gather.survey.characters,
        "deduped": gather.dedupe,
        "unknown_rate": sum(info["unknown"] for info in every) / statistics["tokens"],
        "unigram_entropy": unigram,
        "bigram_entropy": bigram,
        **{name: fault["count"] for name, fault in faults.items()},
        "splits": {
            name: {"documents": s.documents, "sentences": s.sentences, "tokens": s.tokens}
            for name, s in corpus.splits.items()
        },
        **{
            name: _total([info[name] for info in every])
            for name in ("sentence_lengths", "document_lengths")
        },
        "sources": [
            {"file": s.name, "layout": s.form.layout, "borders": s.form.borders}
            for s in gather.survey.sources
        ],
        "faults": [{"name": name, **fault} for name, fault in faults.items() if fault["count"]],
    }
    write_sealed(out / MANIFEST, {**manifest, "statistics": statistics})
    wanted = {info["name"] for info in every}
    for entry in out.iterdir():
        if entry.is_dir() and entry.name != "tokenizer" and entry.name not in wanted:
            shutil.rmtree(entry)
    return {"vocabulary": vocabulary, **statistics}


def _total(histograms: list[list[int]]) -> list[int]:
    total = histograms[0]
    for histogram in histograms[1:]:
        total = add_histograms(total, histogram)
    return total


def _bar(name: str, total: int | None, quiet: bool) -> tqdm.tqdm[Any]:
    return tqdm.tqdm(
        desc=name, total=total, unit="B", unit_scale=True, disable=quiet, mininterval=0.5
    )
