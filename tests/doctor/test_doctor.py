"""What the doctor says: each fault planted into the facts of a sound machine, and a real run."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch as real_torch

from tianci import checkpoint, cli
from tianci.doctor import fixed_numbers, self_test, small_training
from tianci.doctor.findings import SEVERITIES, diagnose
from tianci.doctor.machine import Machine, busy_cores, cpu_quota, look, openmp_runtimes
from tianci.doctor.self_test import Outcome
from tianci.doctor.show import report
from tianci.doctor.torch_facts import Torch
from tianci.doctor.versions import Library, libraries, numbers
from tianci.engine.choice import CASES, Row, Sizes

GB, MB = 1 << 30, 1 << 20
MACHINE = Machine(
    system="Linux", processor="a processor", cores=4, allowed=4, quota=None, memory=16 * GB,
    available=8 * GB, folder="/home", disk_free=90 * GB, temporary="/tmp", shared_memory=8 * GB,
    instructions=("avx2",), busy=0.1, encoding="UTF-8", environment={}, now=2e9, newest=1e9,
    packages=("/a",),
)  # fmt: skip
TORCH = Torch("2.13.0+cpu", 4, "AVX2", None, (), 0.9, ("libgomp",))
KNOWN = [Library("torch", "2.13.0+cpu", "2.10"), Library("jieba", None, "0.42", "zh")]
FINE = [Outcome("writing", True, 0.02, "written")]


def said(
    machine: dict[str, Any] | None = None, torch: dict[str, Any] | None = None, known: Any = KNOWN,
    outcomes: Any = FINE,
) -> list[tuple[str, str]]:  # fmt: skip
    found = diagnose(
        dataclasses.replace(MACHINE, **(machine or {})),
        dataclasses.replace(TORCH, **(torch or {})), known, outcomes,
    )  # fmt: skip
    assert all(one.severity in SEVERITIES and one.advice for one in found)
    return [(one.severity, one.finding) for one in found]


def test_nothing_is_wrong_with_a_sound_machine() -> None:
    assert said() == []
    text = report(MACHINE, TORCH, KNOWN, FINE, [])
    assert text.endswith("tianci works on this machine")
    assert "missing: jieba; pip install 'tianci[zh]'" in text


@pytest.mark.parametrize(
    ("change", "severity", "sentence"),
    [
        ({"allowed": 2}, "note", "2 of 4 cores may be used (affinity)"),
        ({"quota": 1.5}, "slow", "the control group allows the time of 1.5 cores, but 4 are"),
        ({"environment": {"OMP_NUM_THREADS": "1"}}, "slow", "OMP_NUM_THREADS is 1, so 3 of 4"),
        ({"environment": {"MKL_NUM_THREADS": "9"}}, "slow", "MKL_NUM_THREADS is 9, but only 4"),
        ({"environment": {"OMP_WAIT_POLICY": "ACTIVE"}}, "slow", "told to spin while they wait"),
        ({"environment": {"GOMP_SPINCOUNT": "infinite"}}, "slow", "(GOMP_SPINCOUNT=infinite)"),
        ({"environment": {"KMP_BLOCKTIME": "100000"}}, "slow", "(KMP_BLOCKTIME=100000)"),
        ({"available": 700 * MB}, "slow", "only 700 MB of memory are free"),
        ({"available": 200 * MB}, "wrong", "only 200 MB of memory are free"),
        ({"disk_free": GB}, "slow", "only 1.0 GB are free where /home is"),
        ({"disk_free": 10 * MB}, "wrong", "only 10 MB are free"),
        ({"shared_memory": 8 * MB}, "note", "/dev/shm has only 8 MB"),
        ({"temporary": None}, "wrong", "no directory for temporary files can be written"),
        ({"encoding": "ANSI_X3.4-1968"}, "wrong", "text is written as ANSI_X3.4-1968 here"),
        ({"busy": 2.5}, "slow", "other programs use 2.5 of 4 cores"),
        ({"now": 1e8}, "note", "the clock is behind"),
        ({"packages": ("/a", "/b")}, "note", "tianci is imported from /a, but /b has one too"),
        ({"environment": {"PYTHONDONTWRITEBYTECODE": "1"}}, "note", "each start may compile"),
    ],
)
def test_faults_of_a_machine(change: dict[str, Any], severity: str, sentence: str) -> None:
    ((how, what),) = said(change)
    assert how == severity and sentence in what


@pytest.mark.parametrize(
    ("machine", "change", "sentence"),
    [
        ({}, {"built_for": "12.8"}, "built for CUDA 12.8, but there is no device"),
        ({"graphics": True}, {}, "there is an NVIDIA device, but this torch is built for the CPU"),
        ({"instructions": ("avx512_bf16",)}, {"bf16": None}, "using it ends the process"),
        ({}, {"openmp": ("libgomp", "libiomp5")}, "two OpenMP runtimes are loaded: libgomp and"),
    ],
)
def test_faults_of_torch(machine: dict[str, Any], change: dict[str, Any], sentence: str) -> None:
    ((_, what),) = said(machine, change)
    assert sentence in what


def test_faults_of_libraries_and_of_the_self_test() -> None:
    old = [Library("torch", "2.9.1", "2.10"), Library("numpy", None, "1.26"),
           Library("onnx", "1.2", "1.17", "export")]  # fmt: skip
    assert [(how, what[:19]) for how, what in said(known=old)] == [
        ("wrong", "torch is 2.9.1, but"), ("wrong", "numpy is not instal"),
        ("note", "onnx is 1.2, but ti"),
    ]  # fmt: skip
    slow = [Outcome("writing", True, 3.2, "written")]
    assert said(outcomes=slow) == [("slow", "writing 8 MB to /home safely took 3.2 s")]
    bad = [Outcome("clock", False, 0.1, "it went back", "set it")]
    assert said(outcomes=bad) == [("wrong", "self-test: clock failed: it went back")]


def test_another_python_owns_the_command(tmp_path: Path) -> None:
    script = tmp_path / "tianci"
    script.write_text("#!/opt/other/bin/python3\n")
    assert "belongs to another Python" in said({"commands": (str(script),)})[0][1]
    script.write_text(f"#!{sys.executable}\n")
    assert said({"commands": (str(script),)}) == []


def test_versions() -> None:
    assert numbers("2.13.0+cpu") == (2, 13, 0) and numbers("2.9") < numbers("2.10.1")
    lines = ["torch<3,>=2.10", "tianci[serve]; extra == 'demo'", 'onnx>=1.17; extra == "export"',
             "ruff==0.17.4; extra == 'dev'"]  # fmt: skip
    assert [(one.name, one.floor, one.extra) for one in libraries(lines)] == [
        ("torch", "2.10", ""), ("onnx", "1.17", "export"),
    ]  # fmt: skip
    assert libraries(lines)[0].found


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000",
          "sys/fs/cgroup/a/cpu.max": "150000 100000"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "4:cpu,cpuacct:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000",
          "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}, 0.5),
        ({}, None),
    ],
)  # fmt: skip
def test_limits_of_control_groups(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == quota


def test_facts_that_are_read(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f r /lib/libgomp.so.1.0.0\n7f r /x/libiomp5.so\n7f r /x/libgomp-a34b3233.so\n"
    )
    assert openmp_runtimes(maps) == ("libgomp", "libiomp5")
    assert busy_cores(tmp_path / "nothing", 0) is None
    here = look(tmp_path)
    assert here.folder == str(tmp_path) and here.disk_free > 0 and here.usable_cores >= 1
    assert here.packages and here.temporary


def test_the_reference_numbers_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    checkpoint.write(tmp_path / "model", fixed_numbers.fixed_model())
    model = transformers.BertModel.from_pretrained(tmp_path / "model", add_pooling_layer=False)
    batch = fixed_numbers.fixed_batch()
    first, second = batch.tokens.split(list(batch.layout.lengths))
    with real_torch.no_grad():
        states = [model(row[None]).last_hidden_state[0] for row in (first, second)]
    found = real_torch.cat([states[0][0, :4], states[1][-1, :4]])
    assert (found - real_torch.tensor(fixed_numbers.REFERENCE)).abs().max() < 1e-5


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tianci.train.probe.bf16_speed", lambda: 1.0)  # seconds elsewhere
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert not stop.value.code, found["self_test"]
    assert found["usable"] and len(found["self_test"]) == self_test.COUNT
    assert all(one["passed"] for one in found["self_test"])
    assert {one["name"] for one in found["libraries"]} >= {"torch", "tokenizers", "numpy"}
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_a_machine_that_computes_wrongly_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tianci.train.probe.bf16_speed", lambda: None)
    monkeypatch.setattr(fixed_numbers, "REFERENCE", (0.5,) * 8)
    monkeypatch.setattr(self_test, "train_and_resume", lambda: "left out")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--quiet"])
    out = capsys.readouterr().out
    assert stop.value.code == 1
    assert "FAILED numbers    a fixed forward pass differs by" in out
    assert out.endswith("this machine cannot be used as it is: numbers failed\n")


def test_a_training_that_does_not_repeat_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(folder: Path) -> tuple[float, float]:
        (folder / "run").mkdir()
        (folder / "run/model.safetensors").write_bytes(b"one")
        return 3.0, 2.0

    def go_on(folder: Path) -> None:
        (folder / "run/model.safetensors").write_bytes(b"other")

    monkeypatch.setattr(small_training, "_train", train)
    monkeypatch.setattr(small_training, "_go_on", go_on)
    with pytest.raises(small_training.CheckError, match="other weights than an uninterrupted"):
        small_training.train_and_resume()
    monkeypatch.setattr(small_training, "_train", lambda folder: (2.0, 2.5))
    with pytest.raises(small_training.CheckError, match="loss went from 2.000 to 2.500"):
        small_training.train_and_resume()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    outcome = next(self_test.run_all(tmp_path / "missing"))
    assert not outcome.passed and "cannot be written (No such file" in outcome.said


def test_the_table_of_engines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def measure(sizes: Sizes, int8: bool) -> list[Row]:
        asked.append((sizes, int8))
        times = dict.fromkeys(CASES, 2.0)
        return [Row("torch", int8, times, 1.0, "exact"), Row("onnx", int8, times, 1.6, "exact"),
                Row("openvino", int8, {}, 0.0, "not installed")]  # fmt: skip

    monkeypatch.setattr("tianci.doctor.engines.measure", measure)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--engines", "--preset", "mini", "-q"])
    lines = capsys.readouterr().out.splitlines()
    assert not stop.value.code
    assert asked == [(Sizes(256, 4, 1024), False), (Sizes(256, 4, 1024), True)]
    assert [line.split()[:2] for line in lines if line.startswith("*")][:2] == [
        ["*", "onnx"], ["*", "onnx"],
    ]  # fmt: skip
    assert sum("not installed" in line for line in lines) == 2
