"""What torch says about itself on this machine: build, threads, devices, bf16."""

from __future__ import annotations

from dataclasses import dataclass

from tianci.doctor.machine import openmp_runtimes


@dataclass(frozen=True)
class Torch:
    version: str
    threads: int
    capability: str  # the instruction set that its kernels were chosen for
    built_for: str | None  # version of CUDA, None: for the CPU only
    devices: tuple[str, ...]
    bf16: float | None  # speed of products beside float32; None: it ends the process
    openmp: tuple[str, ...]


def ask_torch() -> Torch:
    """Imports torch and asks; bf16 is tried in another process."""
    import torch

    from tianci.train.probe import bf16_speed

    devices: tuple[str, ...] = ()
    if torch.cuda.is_available():
        devices = tuple(
            torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())
        )
    return Torch(
        version=torch.__version__,
        threads=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        built_for=torch.version.cuda,
        devices=devices,
        bf16=bf16_speed(),
        openmp=openmp_runtimes(),
    )
