"""What this machine has and allows: cores, memory, disk, devices, surroundings. Only facts."""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

# settings of the environment that decide how threads work
THREADING = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "OMP_WAIT_POLICY"),
    *("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_PROC_BIND", "OMP_DYNAMIC"),
)
INSTRUCTIONS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni"),
    *("amx_bf16", "amx_int8", "asimd", "bf16", "i8mm", "sve"),
)
RUNTIMES = ("libgomp", "libiomp5", "libomp")  # of OpenMP
GLANCE = 0.3  # seconds in which the neighbours are watched


@dataclass(frozen=True)
class Machine:
    """What was found; None where this system does not tell."""

    system: str
    processor: str
    cores: int  # present
    allowed: int  # of these, by affinity
    quota: float | None  # cores' worth of time, by the control group
    memory: int | None  # bytes, present or allowed, whichever is less
    available: int | None  # of these
    folder: str
    disk_free: int
    temporary: str | None  # None: no directory for temporary files can be written
    shared_memory: int | None  # bytes of /dev/shm
    instructions: tuple[str, ...]
    busy: float | None  # cores that others use just now
    encoding: str
    environment: dict[str, str] = field(default_factory=dict)
    openmp: tuple[str, ...] = ()  # runtimes that are loaded
    graphics: bool = False  # an NVIDIA device file is there
    now: float = 0.0
    newest: float = 0.0  # when our own files were written
    commands: tuple[str, ...] = ()  # all `tianci` on the path, the first one is called
    packages: tuple[str, ...] = ()  # all directories from which tianci could be imported

    @property
    def usable_cores(self) -> int:
        """As many threads as can run at once."""
        return max(1, min(self.allowed, int(self.quota) if self.quota else self.allowed))


def look(folder: Path) -> Machine:
    """The facts of this machine, for work in `folder`."""
    memory, available = _memory(Path("/"))
    return Machine(
        system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        processor=_cpu("model name") or platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        allowed=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        quota=cpu_quota(Path("/")),
        memory=memory,
        available=available,
        folder=str(folder.resolve()),
        disk_free=shutil.disk_usage(folder).free,
        temporary=_temporary(),
        shared_memory=_shared_memory(Path("/dev/shm")),
        instructions=_instructions(),
        busy=busy_cores(Path("/proc/stat"), GLANCE),
        encoding=locale.getpreferredencoding(False),
        environment={name: os.environ[name] for name in THREADING if name in os.environ}
        | {k: v for k in ("PYTHONDONTWRITEBYTECODE",) if (v := os.environ.get(k))},
        graphics=Path("/dev/nvidia0").exists(),
        now=time.time(),
        newest=Path(__file__).stat().st_mtime,
        commands=_commands(),
        packages=_packages(),
    )  # fmt: skip


def openmp_runtimes(maps: Path = Path("/proc/self/maps")) -> tuple[str, ...]:
    """The OpenMP libraries in this process, after torch was imported."""
    try:
        text = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    files = {line.rpartition("/")[2] for line in text.splitlines() if "/" in line}
    return tuple(name for name in RUNTIMES
                 if any(file.startswith((f"{name}.", f"{name}-")) for file in files))  # fmt: skip


# ---------------------------------------------------------------- limits of control groups


def _group(root: Path) -> list[Path]:
    """Where the limits of this process stand, the innermost group first (version 2, then 1)."""
    base = root / "sys/fs/cgroup"
    places = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        inside = path.strip("/")
        for kind in [""] if not kinds else kinds.split(","):
            here = base / kind / inside if kind else base / inside
            places += [here, *here.parents]
    kept = dict.fromkeys([*places, base, base / "cpu", base / "memory"])
    return [place for place in kept if base == place or base in place.parents]


def _word(path: Path, place: int = 0) -> str | None:
    try:
        return path.read_text().split()[place]
    except (OSError, IndexError):
        return None


def cpu_quota(root: Path) -> float | None:
    """How many cores' worth of time the strictest group allows; None: no limit."""
    found = []
    for place in _group(root):
        quota, period = _word(place / "cpu.max"), _word(place / "cpu.max", 1)
        if quota is None:
            quota, period = _word(place / "cpu.cfs_quota_us"), _word(place / "cpu.cfs_period_us")
        if quota and period and quota not in ("max", "-1"):
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _memory(root: Path) -> tuple[int | None, int | None]:
    """(bytes in all, bytes available), both cut to what the control group allows."""
    known: dict[str, int] = {}
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            known[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None, None
    total, available = known.get("MemTotal"), known.get("MemAvailable")
    for place in _group(root):
        limit = _word(place / "memory.max") or _word(place / "memory.limit_in_bytes")
        used = _word(place / "memory.current") or _word(place / "memory.usage_in_bytes")
        if limit and limit.isdecimal() and total and int(limit) < total:
            total = int(limit)
            available = min(available or total, total - int(used or 0))
    return total, available


# ---------------------------------------------------------------- single facts


def _cpu(name: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


def _instructions() -> tuple[str, ...]:
    flags = set((_cpu("flags") or _cpu("Features")).split())
    return tuple(name for name in INSTRUCTIONS if name in flags)


def busy_cores(stat: Path, seconds: float) -> float | None:
    """How many cores are at work while this process sleeps."""

    def read() -> tuple[int, int] | None:
        try:
            numbers = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        return sum(numbers), numbers[3] + numbers[4]  # all, idle and waiting for the disk

    before = read()
    time.sleep(seconds)
    after = read()
    if before is None or after is None or after[0] == before[0]:
        return None
    idle = (after[1] - before[1]) / (after[0] - before[0])
    return round(max(0.0, 1 - idle) * (os.cpu_count() or 1), 2)


def _temporary() -> str | None:
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x" * 4096)
            file.flush()
            return str(Path(file.name).parent)
    except OSError:
        return None


def _shared_memory(place: Path) -> int | None:
    try:
        return shutil.disk_usage(place).total
    except OSError:
        return None


def _commands() -> tuple[str, ...]:
    """All programs called tianci on the path, in the order in which they are found."""
    folders = dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
    found = [Path(folder) / "tianci" for folder in folders if folder]
    return tuple(str(path) for path in found if path.is_file() and os.access(path, os.X_OK))


def _packages() -> tuple[str, ...]:
    places = dict.fromkeys(str(Path(entry or ".").resolve()) for entry in sys.path)
    return tuple(place for place in places if (Path(place) / "tianci/__init__.py").is_file())
