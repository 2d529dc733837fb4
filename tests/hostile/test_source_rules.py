"""What the source must not contain, because it would let a file run code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tianci"
# module or name -> the files that may use it, with the reason
ALLOWED = {
    "pickle": {"data/workers.py"},  # between a process and its own children, over their pipes
    "torch.load": {"convert/pytorch.py"},  # weights_only, see below
}
MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "jinja2",
    "tarfile", "zipfile", "imp", "runpy", "code", "pty", "commands",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "yaml.load",
    "torch.hub.load", "torch.jit.load", "torch.package.PackageImporter", "shutil.unpack_archive",
}  # fmt: skip


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def offences(source: str, name: str) -> Iterator[str]:
    """What is wrong with the source of one file."""
    for node in ast.walk(ast.parse(source)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for one in found:
            root = one.partition(".")[0]
            if root in MODULES and name not in ALLOWED.get(root, ()):
                yield f"{where} imports {one}"
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        if called in CALLS and name not in ALLOWED.get(called, ()):
            yield f"{where} calls {called}"
        if called.rpartition(".")[2] in ("extractall", "unpack_archive"):
            yield f"{where} unpacks an archive"
        options = {word.arg: word.value for word in node.keywords if word.arg}
        for option, wanted in (("shell", False), ("allow_pickle", False), ("weights_only", True)):
            given = options.get(option)
            if given is not None and not (
                isinstance(given, ast.Constant) and given.value is wanted
            ):
                yield f"{where} has {option}={ast.unparse(given)}"
        if "trust_remote_code" in options:
            yield f"{where} has trust_remote_code"
        if called == "torch.load" and "weights_only" not in options:
            yield f"{where} calls torch.load without weights_only=True"
        if called in ("np.load", "numpy.load") and "allow_pickle" not in options:
            yield f"{where} calls np.load without allow_pickle=False"


def test_no_file_of_the_package_can_run_code_of_others() -> None:
    wrong = [
        offence
        for path in sorted(PACKAGE.rglob("*.py"))
        for offence in offences(path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix())
    ]
    assert wrong == []


def test_offences_are_seen() -> None:
    bad = (
        "import pickle\nfrom yaml import load\nimport torch\ntorch.load(f)\neval('1')\n"
        "import subprocess\nsubprocess.run('x', shell=True)\narchive.extractall()\n"
        "np.load(f, allow_pickle=True)\nAuto.from_pretrained(d, trust_remote_code=True)\n"
        "import tarfile\nnp.load(f)\n"
    )
    found = list(offences(bad, "x.py"))
    lines = {int(one.split(":")[1].split()[0]) for one in found}
    assert lines == {1, 2, 4, 5, 7, 8, 9, 10, 11, 12}


def test_torch_load_keeps_weights_only() -> None:
    source = (PACKAGE / "convert" / "pytorch.py").read_text("utf-8")
    assert not list(offences(source, "convert/pytorch.py"))
    assert list(
        offences(source.replace("weights_only=True", "weights_only=False"), "convert/pytorch.py")
    )
