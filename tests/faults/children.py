"""Many runs of the command line for the price of one: a process imports torch once, and forks.

`Children` is the side of the test; `python -m tests.faults.children` is the process it talks to, a
JSON object per line in both directions. What measures the machine or draws is left out there.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
HANGS = 120.0  # seconds; a child that is not done by then never will be


@dataclass(frozen=True)
class Child:
    """A command that was started."""

    pid: int
    output: Path
    errors: Path

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    @property
    def said(self) -> str:
        return self.errors.read_text(errors="replace")


class Children:
    """Starts commands as forks of one process."""

    def __init__(self, folder: Path):
        self.folder, self.count = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        names = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TQDM_DISABLE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.children"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **names},
        )  # fmt: skip

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(HANGS)

    def warm(self, *arguments: str | Path) -> None:
        """Runs a command in the process that forks: what it imports and caches, all children
        have."""
        code = self._ask(do="warm", arguments=[str(a) for a in arguments])
        assert code == 0, f"{arguments} failed with {code}"

    def start(
        self,
        *arguments: str | Path,
        die_at: int = 0,
        below: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: Path | None = None,
        count: bool = False,
    ) -> Child:
        """Runs a command; it kills itself at point `die_at` of its work below a folder, or says at
        the end how many points there are."""
        self.count += 1
        out, err = (self.folder / f"{self.count}.{name}" for name in ("out", "err"))
        for file in (out, err):
            file.touch()  # it may be killed before it has opened them
        pid = self._ask(
            do="start", arguments=[str(a) for a in arguments], output=str(out), errors=str(err),
            die_at=die_at, below=str(below or ""), environment=dict(environment or {}),
            stdin=str(stdin or os.devnull), count=count,
        )  # fmt: skip
        return Child(pid, out, err)

    def wait(self, child: Child, seconds: float = HANGS) -> int:
        """The exit code, negative for a signal; whoever takes longer is killed and fails."""
        code = int(self._ask(do="wait", pid=child.pid, seconds=seconds))
        assert code != HUNG, f"still running after {seconds} s: {child.said[-2000:]}"
        return code

    def done(self, child: Child) -> int | None:
        """The exit code, or None while it runs."""
        code = self._ask(do="wait", pid=child.pid, seconds=-1)
        return None if code is None else int(code)

    def run(self, *arguments: str | Path, **more: Any) -> tuple[int, Child]:
        child = self.start(*arguments, **more)
        return self.wait(child), child

    def _ask(self, **question: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# ---------------------------------------------------------------- the process that forks

HUNG = 999


def _serve() -> None:
    _import_everything()
    # libraries may print; answers go where nobody else writes
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    codes: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "warm":
            answer: int | None = _main(asked["arguments"])
            gc.collect()
            gc.freeze()  # children need not look at all of it again
        else:
            answer = _start(asked) if asked["do"] == "start" else _wait(asked, codes)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _import_everything() -> None:
    import torch

    torch.set_num_threads(1)
    import tianci.cli.finetune
    import tianci.cli.prepare
    import tianci.cli.pretrain
    import tianci.cli.vocab
    import tianci.comparison.run
    import tianci.convert
    import tianci.evaluate.check
    import tianci.train.report
    import tianci.tune.report
    from tianci.goals import tasks
    from tianci.train import held_out, probe, report

    for name in tianci.cli.finetune.TASKS:
        tasks.task_kind(name)
    # how fast this machine is, and the picture: neither is what is tested
    probe.peak_flops = lambda _: 1e9
    probe.tokens_per_second = lambda *_: 1e4
    probe.minutes_per_epoch = lambda *_: {}
    report.curve = lambda _: b""
    held_out.HELD_TOKENS = 600
    os.fsync = lambda _: None  # a killed process loses nothing that it wrote; a power cut may
    sys.stdin.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _start(asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number, name, flags in (
            (0, asked["stdin"], os.O_RDONLY),
            (1, asked["output"], os.O_WRONLY | os.O_CREAT),
            (2, asked["errors"], os.O_WRONLY | os.O_CREAT),
        ):
            os.dup2(os.open(name, flags, 0o644), number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        os.environ.update(asked["environment"])
        code = _work(asked)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(asked: dict[str, Any]) -> int:
    from tests.faults.kill_points import arm

    points = [0]
    if asked["die_at"]:
        arm(Path(asked["below"]), asked["die_at"], points.append)
    code = _main(asked["arguments"])
    if asked["count"]:
        print(f"points: {points[-1]}", file=sys.stderr)
    return code


def _main(arguments: list[str]) -> int:
    from tianci.cli import main

    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    return 1


def _wait(asked: dict[str, Any], codes: dict[int, int]) -> int | None:
    pid, until = asked["pid"], time.monotonic() + asked["seconds"]
    while pid not in codes:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            codes[pid] = os.waitstatus_to_exitcode(status)
        elif asked["seconds"] < 0:
            return None
        elif time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return HUNG
        else:
            time.sleep(0.005)
    return codes[pid]


if __name__ == "__main__":
    _serve()
