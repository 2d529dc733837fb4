"""Installs a built wheel into an empty environment and uses it far from the repository.

Run by `make wheel`. Needs a package index (or pip's configured files) for the dependencies.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def main(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    for one in ("index.html", "page.css", "main.js", "play/fill.js"):
        assert f"tianci/serve/page/{one}" in names, f"{one} of the page is not in the wheel"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / "bin" / "python"
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        pip += ["-c", ROOT / "constraints.txt"]
        began = time.monotonic()
        run(*pip, "torch", cwd=folder)
        run(*pip, wheel.resolve(), cwd=folder)
        print(f"installed {wheel.name} in an empty environment in {time.monotonic() - began:.0f} s")
        tianci = folder / "env" / "bin" / "tianci"
        assert "Commands" in run(tianci, "--help", cwd=folder)
        facts = json.loads(run(tianci, "info", "bert-tiny", "--json", cwd=folder))
        assert facts["parameters"] == 4_385_920, facts["parameters"]
        (folder / "text.txt").write_text(
            "今天天气不错，我们去公园。\nThe weather is fine today.\n" * 50
        )
        made = run(
            tianci, "vocab", "text.txt", "--kind", "char", "--size", "50", "--out", "vocab",
            "--json",
            cwd=folder,
        )  # fmt: skip
        assert json.loads(made)["size"] == 50
        shown = json.loads(run(tianci, "tokenize", "vocab", "今天 fine", "--json", cwd=folder))
        assert shown["tokens"][:2] == ["[CLS]", "今"], shown
        print("tianci --help, info, vocab and tokenize work outside the repository")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
