"""Imports flow one way; this walks all of them and names the line that goes against the stream."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tianci"

# from the top down: a module may import from its own level and below
LEVELS = [
    {"cli", "demo", "api"},
    {"serve", "comparison", "doctor"},
    {"tune"},
    {"evaluate", "compress", "convert", "export", "engine"},
    {"train"},
    {"goals"},
    {"checkpoint", "adapters", "sentence_files", "public_format", "about", "verify"},
    {"models"},
    {"nn", "data"},
    {"text", "batch", "metrics"},
    {"settings", "errors", "find", "files", "claim", "exchange", "manifest", "room"},
]
# the public names and the entry point may see everything; everyone may ask for the version
FREE = {"__init__", "__main__"}


def level(module: str) -> int:
    part = module.split(".")[1]
    for number, names in enumerate(LEVELS):
        if part in names:
            return number
    raise AssertionError(f"{module} has no level; add it to LEVELS in {Path(__file__).name}")


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of this package, wherever in the file it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from tianci import checkpoint` names a module, `from tianci.nn import x` may
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name) for name in names]
    return [(line, name) for line, name in found if name.startswith("tianci.")]


def offences(root: Path) -> list[str]:
    wrong = []
    for path in sorted(root.rglob("*.py")):
        module = ".".join(("tianci", *path.relative_to(root).with_suffix("").parts))
        if module.split(".")[1] in FREE:
            continue
        for line, target in imports(path):
            if target == "tianci.__version__":
                continue
            if level(target) < level(module):
                wrong.append(f"{path.relative_to(root)}:{line} imports {target}")
    return wrong


def test_imports_flow_one_way() -> None:
    assert offences(PACKAGE) == []


def test_an_upward_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "nn").mkdir()
    (tmp_path / "nn" / "bad.py").write_text("x = 1\nfrom tianci.models import bert\n")
    assert offences(tmp_path) == ["nn/bad.py:2 imports tianci.models.bert"]


def test_help_imports_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tianci, tianci.cli\n"
        "try: tianci.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'sklearn'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
