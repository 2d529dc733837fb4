"""The doctor's report for people."""

from __future__ import annotations

from collections.abc import Sequence

from tianci import __version__
from tianci.doctor.findings import GB, Finding
from tianci.doctor.machine import Machine
from tianci.doctor.self_test import Outcome
from tianci.doctor.torch_facts import Torch
from tianci.doctor.versions import PURPOSE, Library


def report(
    machine: Machine,
    torch: Torch,
    known: Sequence[Library],
    outcomes: Sequence[Outcome],
    findings: Sequence[Finding],
) -> str:
    """The whole text: versions, machine, self-test, what is wrong."""
    blocks = [_versions(known, torch), _machine(machine, torch)]
    if outcomes:
        blocks.append(_self_test(outcomes))
    return "\n\n".join([*blocks, _findings(findings, outcomes)])


def _versions(known: Sequence[Library], torch: Torch) -> str:
    needed = [f"{one.name} {one.found or 'MISSING'}" for one in known if not one.extra]
    lines = [f"tianci {__version__}, " + ", ".join(needed or [f"torch {torch.version}"])]
    for extra, purpose in PURPOSE.items():
        parts = [one for one in known if one.extra == extra]
        if not parts:
            continue
        missing = [one.name for one in parts if not one.found]
        there = ", ".join(f"{one.name} {one.found}" for one in parts if one.found)
        how = f"missing: {', '.join(missing)}; pip install 'tianci[{extra}]'" if missing else there
        lines.append(f"  {extra:<9}{purpose}: {how}")
    return "\n".join(lines)


def _machine(machine: Machine, torch: Torch) -> str:
    quota = "" if machine.quota is None else f", time of {machine.quota:g} by the control group"
    memory = "unknown"
    if machine.memory is not None and machine.available is not None:
        memory = f"{machine.available / GB:.1f} of {machine.memory / GB:.1f} GB free"
    if torch.bf16 is None:
        bf16 = "not usable"
    else:
        verdict = "used for training" if torch.bf16 > 1.3 else "not worth it"
        bf16 = f"{torch.bf16:.1f} x float32, {verdict}"
    rows = {
        "system": machine.system,
        "processor": machine.processor,
        "cores": f"{machine.cores} present, {machine.allowed} allowed{quota}; "
        f"torch uses {torch.threads} threads",
        "neighbours": "unknown" if machine.busy is None else f"{machine.busy:.1f} cores in use",
        "instructions": f"{torch.capability} ({' '.join(machine.instructions) or 'unknown'})",
        "bf16": bf16,
        "devices": ", ".join(torch.devices) or "none: the CPU is used",
        "memory": memory,
        "disk": f"{machine.disk_free / GB:.1f} GB free in {machine.folder}",
    }
    return "\n".join(f"{name:<14}{value}" for name, value in rows.items())


def _self_test(outcomes: Sequence[Outcome]) -> str:
    lines = [f"self-test ({sum(one.seconds for one in outcomes):.1f} s)"]
    for one in outcomes:
        mark = "ok    " if one.passed else "FAILED"
        lines.append(f"  {mark} {one.name:<10} {one.said} ({one.seconds:.1f} s)")
    return "\n".join(lines)


def _findings(findings: Sequence[Finding], outcomes: Sequence[Outcome]) -> str:
    failed = [one.name for one in outcomes if not one.passed]
    if failed:
        verdict = f"this machine cannot be used as it is: {', '.join(failed)} failed"
    elif not outcomes:
        verdict = "the self-test was left out"
    else:
        verdict = "tianci works on this machine"
    lines = [f"{one.severity:<6} {one.finding}\n       -> {one.advice}" for one in findings]
    return "\n".join([*lines, *([""] if lines else []), verdict])
