"""What is wrong with a machine, in plain sentences with the way out: from facts to findings."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tianci.doctor.machine import Machine
from tianci.doctor.self_test import Outcome
from tianci.doctor.torch_facts import Torch
from tianci.doctor.versions import Library

SEVERITIES = ("wrong", "slow", "note")  # wrong: must be mended; slow: works, but not as it could
GB, MB = 1 << 30, 1 << 20
SPINS = 100_000  # libgomp's count from which waiting threads take the time of others
SLOW_SYNC = 1.0  # seconds for 8 MB


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something about this machine, how much it matters, and what to do."""

    severity: str
    finding: str
    advice: str


Found = Iterator[Finding]


def diagnose(
    machine: Machine, torch: Torch | None, known: Sequence[Library], outcomes: Sequence[Outcome]
) -> list[Finding]:
    """All findings, the most serious first."""
    found = [
        *_self_test(outcomes), *_libraries(known), *_memory(machine), *_disk(machine, outcomes),
        *_cores(machine), *_threads(machine), *_neighbours(machine), *_surroundings(machine),
        *_installations(machine),
    ]  # fmt: skip
    if torch is not None:
        found += _devices(machine, torch)
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def _self_test(outcomes: Sequence[Outcome]) -> Found:
    for one in outcomes:
        if not one.passed:
            yield Finding("wrong", f"self-test: {one.name} failed: {one.said}", one.advice)


def _libraries(known: Sequence[Library]) -> Found:
    for one in known:
        wanted = f"{one.name}>={one.floor}" if one.floor else one.name
        if not one.found and not one.extra:
            yield Finding("wrong", f"{one.name} is not installed", f"pip install '{wanted}'")
        elif one.too_old:
            how = "wrong" if not one.extra else "note"
            what = f"{one.name} is {one.found}, but tianci was tried with {one.floor} or later"
            yield Finding(how, what, f"pip install --upgrade '{wanted}'")


def _memory(machine: Machine) -> Found:
    free = machine.available
    if free is not None and free < GB:
        how = "wrong" if free < 300 * MB else "slow"
        what = f"only {_bytes(free)} of memory are free"
        yield Finding(how, what, "end other programs; or use a small model (mini) with "
                      "--set train.micro_tokens=1024")  # fmt: skip
    if machine.shared_memory is not None and machine.shared_memory < 64 * MB:
        what = f"/dev/shm has only {_bytes(machine.shared_memory)}"
        yield Finding("note", what, "processes that train together exchange data there; with "
                      "docker: --shm-size=1g, or --ipc=host")  # fmt: skip


def _disk(machine: Machine, outcomes: Sequence[Outcome]) -> Found:
    if machine.disk_free < 2 * GB:
        how = "wrong" if machine.disk_free < 200 * MB else "slow"
        what = f"only {_bytes(machine.disk_free)} are free where {machine.folder} is"
        yield Finding(how, what, "a run keeps two checkpoints of about three times the model; free "
                      "some space or work elsewhere")  # fmt: skip
    took = next((one.seconds for one in outcomes if one.name == "writing" and one.passed), 0.0)
    if took > SLOW_SYNC:
        what = f"writing 8 MB to {machine.folder} safely took {took:.1f} s"
        yield Finding("slow", what, "each checkpoint waits for the disk: save less often "
                      "(--save-every), or use a local disk")  # fmt: skip
    if machine.temporary is None:
        yield Finding("wrong", "no directory for temporary files can be written",
                      "free space in /tmp, or set TMPDIR to a directory of yours")  # fmt: skip


def _cores(machine: Machine) -> Found:
    if machine.allowed < machine.cores:
        what = f"{machine.allowed} of {machine.cores} cores may be used (affinity)"
        yield Finding("note", what, "if that is not meant, look at taskset, numactl or the batch "
                      "system that started this shell")  # fmt: skip
    if machine.quota is not None and machine.quota < machine.allowed:
        what = (f"the control group allows the time of {machine.quota:g} cores, but "
                f"{machine.allowed} are shown")  # fmt: skip
        yield Finding("slow", what, f"threads beyond that hinder each other: use --threads "
                      f"{machine.usable_cores}, or raise the limit (docker: --cpus)")  # fmt: skip


def _threads(machine: Machine) -> Found:
    cores = machine.usable_cores
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        said = machine.environment.get(name, "").split(",")[0].strip()
        if not said.isdecimal():
            continue
        if int(said) < cores:
            what = f"{name} is {said}, so {cores - int(said)} of {cores} cores stay idle"
            yield Finding("slow", what, f"unset {name}, or give --threads {cores}")
        elif int(said) > cores:
            what = f"{name} is {said}, but only {cores} cores may be used"
            yield Finding("slow", what, f"threads wait for each other: unset {name}, or give "
                          f"--threads {cores}")  # fmt: skip
    spinning = [
        f"{name}={value}" for name, value in machine.environment.items() if _spins(name, value)
    ]
    if spinning:
        what = f"threads are told to spin while they wait ({', '.join(spinning)})"
        yield Finding("slow", what, "beside any other program that makes small steps many times "
                      "slower; unset it, tianci chooses GOMP_SPINCOUNT itself")  # fmt: skip


def _spins(name: str, value: str) -> bool:
    value = value.strip().lower()
    if name == "OMP_WAIT_POLICY":
        return value == "active"
    if name == "KMP_BLOCKTIME":
        return value == "infinite" or (value.isdecimal() and int(value) > 200)
    if name == "GOMP_SPINCOUNT":
        return value in ("infinite", "infinity") or (value.isdecimal() and int(value) >= SPINS)
    return False


def _neighbours(machine: Machine) -> Found:
    if machine.busy is not None and machine.busy > 0.3 * machine.cores:
        what = f"other programs use {machine.busy:.1f} of {machine.cores} cores just now"
        yield Finding("slow", what, "figures of speed will differ from run to run; wait, or end "
                      "them (top shows who it is)")  # fmt: skip


def _surroundings(machine: Machine) -> Found:
    if machine.encoding.lower().replace("-", "") not in ("utf8", "cp65001"):
        what = f"text is written as {machine.encoding} here, not as UTF-8"
        yield Finding("wrong", what, "set PYTHONUTF8=1, or LANG=C.UTF-8")
    if machine.now < machine.newest - 60:
        yield Finding("note", "the clock is behind: tianci's own files are from the future",
                      "set the clock; times in logs and reports are wrong")  # fmt: skip
    if machine.environment.get("PYTHONDONTWRITEBYTECODE"):
        yield Finding("note", "PYTHONDONTWRITEBYTECODE is set: each start may compile tianci anew",
                      "unset it; commands start up to a fifth of a second sooner")  # fmt: skip


def _installations(machine: Machine) -> Found:
    others = [place for place in machine.packages[1:] if place != machine.packages[0]]
    if others:
        what = f"tianci is imported from {machine.packages[0]}, but {others[0]} has one too"
        yield Finding("note", what, "work from another directory, or remove one of them")
    if machine.commands and not _belongs(machine.commands[0]):
        what = f"the command tianci is {machine.commands[0]}, which belongs to another Python"
        yield Finding("note", what, f"use {sys.executable} -m tianci, or change the PATH")


def _belongs(command: str) -> bool:
    """Whether a script is run by the Python that runs now."""
    try:
        with open(command, "rb") as file:
            first = file.read(512).split(b"\n", 1)[0].decode("utf-8", "replace")
    except OSError:
        return True
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words or words[0].endswith(("/sh", "/env")):
        return Path(command).parent == Path(sys.executable).parent
    return Path(words[0]).parent == Path(sys.executable).parent


def _devices(machine: Machine, torch: Torch) -> Found:
    if torch.built_for and not torch.devices:
        what = f"torch was built for CUDA {torch.built_for}, but there is no device"
        yield Finding("note", what, "the CPU is used; if there should be one, look at nvidia-smi "
                      "and the driver; else the CPU build of torch is smaller")  # fmt: skip
    if machine.graphics and not torch.built_for:
        yield Finding("slow", "there is an NVIDIA device, but this torch is built for the CPU",
                      "install torch with CUDA, as pytorch.org says")  # fmt: skip
    if torch.bf16 is None and {"avx512_bf16", "amx_bf16", "bf16"} & set(machine.instructions):
        yield Finding("note", "the processor announces bf16, but using it ends the process",
                      "nothing to do: tianci tries it apart and stays with float32")  # fmt: skip
    gnu = "libgomp" in torch.openmp
    if gnu and len(torch.openmp) > 1:
        what = f"two OpenMP runtimes are loaded: {' and '.join(torch.openmp)}"
        yield Finding("slow", what, "each starts threads of its own; install torch and the other "
                      "libraries from one source (pip or conda, not both)")  # fmt: skip


def _bytes(count: int) -> str:
    return f"{count / GB:.1f} GB" if count >= GB else f"{count / MB:.0f} MB"
