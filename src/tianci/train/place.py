"""The directory of a run: its own, and at the end with the model at its top."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tianci import manifest
from tianci.errors import UserError
from tianci.room import discarded, explained


def check_target(run: Path) -> None:
    """A new run wants a directory of its own."""
    if (run / "run.json").exists():
        raise UserError(
            f"{run} already holds a run; go on with --resume {run}, or give another --out"
        )
    if run.exists() and not run.is_dir():
        raise UserError(f"{run} is a file; give a directory for --out")
    if run.exists() and any(run.iterdir()):
        raise UserError(f"{run} holds other files; give a new directory for --out")


def publish(folder: Path, run: Path) -> None:
    """Puts the files of a checkpoint at the top of the run: linked where possible, each in one
    move. The weights come last but for the manifest: where they are, everything is."""
    # also what lies deeper (1_Pooling of sentence-transformers), but not what only a resume needs
    names = [name for name in manifest.inside(folder) if not name.startswith("resume/")]
    for name in sorted(names, key=lambda name: (name.endswith(".safetensors"), name)):
        path, target = folder / name, run / name
        target.parent.mkdir(exist_ok=True)
        beside = target.parent / f".{path.name}.publish_.tmp"  # a name that `files.sweep` knows
        beside.unlink(missing_ok=True)
        try:
            os.link(path, beside)
        except OSError:
            with explained(target, path.stat().st_size), discarded(beside):
                shutil.copy(path, beside)
        os.replace(beside, target)
    manifest.seal(run, names)
