"""The end of the demo: the model is served, the address is printed, Ctrl-C ends it well."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.conftest import encoder
from tianci import checkpoint, cli, demo
from tianci.demo import SENTENCES, serve_demo


@pytest.fixture
def model(tmp_path: Path) -> Path:
    checkpoint.write(tmp_path / "demo" / "model", encoder(("masked",)))
    return tmp_path / "demo" / "model"


def test_it_serves_and_ends_by_ctrl_c(model: Path) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:  # another port is found
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = (
            f"from tianci.demo import serve_demo\n"
            f"serve_demo({str(model)!r}, {port}, lambda text: print(text, flush=True))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = ""
        while "Ctrl-C" not in said:
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            said += line
    found = re.search(r"curl (http://127\.0\.0\.1:(\d+)/fill) .* -d '(.*)'", said)
    assert found and int(found[2]) != port and f"http://127.0.0.1:{found[2]}/ in" in said
    asked = json.loads(found[3])
    assert asked == {"inputs": SENTENCES[0], "top": 4}
    url = f"http://127.0.0.1:{found[2]}"
    for _ in range(600):  # models are loaded meanwhile
        if httpx.get(url + "/ready", timeout=60).status_code == 200:
            break
    answer = httpx.post(found[1], json=asked, timeout=60)
    assert answer.status_code == 200 and len(answer.json()[0]) == 4
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.parametrize(
    ("options", "served"), [(["--no-serve"], False), (["--json"], False), ([], True),
                            (["--json", "--serve"], True)],
)  # fmt: skip
def test_who_serves(
    options: list[str], served: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(demo, "run_demo", lambda *given: {"out": "there"})
    monkeypatch.setattr(demo, "serve_demo", lambda model, port, say: asked.append((model, port)))
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--out", str(tmp_path), "--port", "8123", *options])
    assert not stop.value.code and asked == ([("there", 8123)] if served else [])


def test_without_the_extra_it_says_what_to_install(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said: list[str] = []
    serve_demo(str(model), 0, said.append)
    assert said == ["\nTo try it in a browser: this needs: pip install 'tianci[serve]'"]
