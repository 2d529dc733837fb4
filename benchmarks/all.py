"""All tables one after the other, with date, versions and machine, kept in results/DATE.md.

    python benchmarks/all.py [--short] [--rounds N] [NAME ...]      (make bench, make bench-full)

NAME is a script without .py; without names all that need no further arguments. Each script prints
its own table beside the peers; what it prints is shown and appended. A script that fails is named
at the end, the others run.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
NO_TABLE = ("all", "quality")  # quality.py wants a model and sets; soak*.py has its own command
ABLE = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile")
LIBRARIES = ("tianci", "torch", "tokenizers", "numpy", "transformers", "sentence-transformers",
             "onnxruntime", "openvino", "ctranslate2")  # fmt: skip


def names() -> list[str]:
    """The scripts that print a table."""
    found = sorted(path.stem for path in HERE.glob("*.py"))
    found = [name for name in found if name not in NO_TABLE and not name.startswith("soak")]
    # arena.py and what contestants are made of is used by others
    return [name for name in found if "def main(" in (HERE / f"{name}.py").read_text()]


def versions() -> str:
    """The versions of everything that takes part."""
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def processor() -> str:
    """Its name, and what of it decides about speed: names like "AMD EPYC" stand for many."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told = {
            key.strip(): value.strip() for key, _, value in (one.partition(":") for one in lines)
        }
        able = [flag for flag in ABLE if flag in told["flags"].split()]
        return f"{told['model name']} ({', '.join(able) or 'none of ' + ', '.join(ABLE)})"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def has_rounds(name: str) -> bool:
    return '"--rounds"' in (HERE / f"{name}.py").read_text()


def run(name: str, short: bool, rounds: int) -> tuple[str, bool]:
    """What a script printed, and whether it ended well; shown as it comes."""
    script = HERE / f"{name}.py"
    code = script.read_text()
    command = [sys.executable, str(script)]
    if short and ("--short" in code or "read_options" in code):
        command.append("--short")
    if rounds and has_rounds(name):
        command += ["--rounds", str(rounds)]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return "".join(lines), process.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--short", action="store_true", help="minutes, not hours: only to look")
    parser.add_argument("--rounds", type=int, default=0, help="instead of each table's own number")
    given = parser.parse_args()
    unknown = set(given.names) - set(names())
    if unknown:
        raise SystemExit(f"no table called {sorted(unknown)[0]}; there are: {', '.join(names())}")
    out = HERE / "results" / f"{time.strftime('%Y-%m-%d')}.md"
    out.parent.mkdir(exist_ok=True)
    failed = []
    for name in given.names or names():
        print(f"== {name}", flush=True)
        began = time.time()
        printed, well = run(name, given.short, given.rounds)
        failed += [] if well else [name]
        took = (time.time() - began) / 60
        kind = "short, only to look" if given.short else "full"
        kind += f", {given.rounds} rounds" if given.rounds and has_rounds(name) else ""
        with open(out, "a", encoding="utf-8") as file:
            file.write(
                f"\n## {name} ({kind}{'' if well else ', FAILED'})\n\n"
                f"{time.strftime('%Y-%m-%d %H:%M')}, {took:.1f} minutes; {processor()}, "
                f"{platform.system()}, Python {platform.python_version()}; {versions()}\n\n"
                f"{printed.strip()}\n"
            )
    print(f"\nappended to {out}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
