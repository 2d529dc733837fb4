"""Load and abuse for minutes, on loopback: overload, requests of all sizes, made-up requests.

    python benchmarks/soak.py [--seconds 30] [--requests 20000] [--only overload|sizes|abuse]

`make soak` runs it. Prints one table; exit code 1 where a line of it fails. The short versions,
without times, are ordinary tests (tests/serve/test_load.py, test_fuzz.py).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # tests/ has the small models and the abuse

from arena import machine  # noqa: E402
from http_load import Load, closed_loop, open_loop, percentile, ready, request  # noqa: E402

from serve import model_folder, texts  # noqa: E402

Line = tuple[str, str, str, bool]  # what, measured, wanted, whether it holds


@contextmanager
def server(models: Sequence[str], *options: str) -> Iterator[tuple[int, int]]:
    """(port, process number) of a server of its own; it must end well, by a signal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tianci", "serve", *models, "--port", "0", *options],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    found = None
    while found is None and (line := process.stderr.readline()):
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    if found is None:
        raise SystemExit("the server did not start")
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    try:
        asyncio.run(ready(int(found[1]), path="/ready"))
        yield int(found[1]), process.pid
    finally:
        alive = process.poll() is None
        process.terminate()
        code = process.wait(120)
        drain.wait()
        if not alive or code:
            raise SystemExit(f"the server ended with {code}" + ("" if alive else ", by itself"))


def memory(pid: int) -> float:
    """Megabytes in use."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024


# ---------------------------------------------------------------- overload


def overload(seconds: float) -> list[Line]:
    """Three times what it can do."""
    some = texts()
    bodies = [request("/embed", {"inputs": some[n : n + 4]}) for n in range(0, len(some) - 4, 4)]
    messages = itertools.cycle(bodies)
    with server([model_folder()]) as (port, _):
        asyncio.run(closed_loop(port, messages, 4, 3))  # warm
        alone = asyncio.run(closed_loop(port, messages, 1, 4))
        peak = asyncio.run(closed_loop(port, messages, 32, 10))
        most = peak.rate(1, 10)
        hot, after = asyncio.run(_press(port, messages, 3 * most, seconds))
    usual = percentile(alone.seconds(), 0.5)
    kept = hot.rate(2, seconds)
    slow, refused = percentile(hot.seconds(), 0.99), hot.seconds(429)
    others = {code: n for code, n in hot.statuses.items() if code not in (200, 429)}
    calm = [took for sent, took, code in after.answers if sent >= 5 and code == 200]
    late = [code for sent, _, code in after.answers if sent >= 5 and code != 200]
    return [
        ("overload: asked per second", f"{len(hot.answers) / seconds:.0f}",
         f"3 x {most:.0f}", len(hot.answers) / seconds > 2.7 * most),
        ("overload: answered per second", f"{kept:.0f}", f">= 90 % of {most:.0f}",
         kept >= 0.9 * most),
        ("overload: 99 of 100 answers within", f"{slow:.2f} s", "<= 5 s (--queue-seconds 3)",
         slow <= 5),
        (f"overload: {len(refused)} refusals (429), 99 of 100 within",
         f"{1000 * percentile(refused, 0.99):.1f} ms", "< 50 ms",
         bool(refused) and percentile(refused, 0.99) < 0.05),
        ("overload: other answers", str(others or "none"), "none", not others),
        ("5 s later: middle answer", f"{1000 * percentile(calm, 0.5):.1f} ms",
         f"<= 1.5 x {1000 * usual:.1f} ms, none refused",
         not late and percentile(calm, 0.5) <= 1.5 * usual),
    ]  # fmt: skip


async def _press(
    port: int, messages: Iterator[bytes], rate: float, seconds: float
) -> tuple[Load, Load]:
    """The load, and what one client sees from the moment when no more is sent."""
    hot = asyncio.create_task(open_loop(port, messages, rate, seconds))
    await asyncio.sleep(seconds)
    after = await closed_loop(port, messages, 1, 8)
    return await hot, after


# ---------------------------------------------------------------- sizes


def sizes(count: int) -> list[Line]:
    """Requests from one word to many long texts, on several routes; memory stays where it is."""
    some, dice = texts(), random.Random(0)

    def body(number: int) -> bytes:
        inputs = dice.choices(some, k=dice.choice((1, 1, 1, 2, 4, 12)))
        if dice.random() < 0.1:
            inputs = [" ".join(dice.choices(some, k=4))]
        path = ("/embed", "/v1/embeddings", "/tokenize", "/similarity")[number % 4]
        if path == "/similarity":
            asked: object = {"inputs": {"source_sentence": inputs[0], "sentences": inputs}}
        else:
            asked = {"input" if path.startswith("/v1") else "inputs": inputs}
        return request(path, asked)

    warm = count // 5
    with server([model_folder()], "--truncate") as (port, pid):
        asyncio.run(closed_loop(port, map(body, range(warm)), 16))
        before, seen, statuses = memory(pid), list[float](), dict[int, int]()
        for start in range(0, count, count // 10):
            numbers = range(start, start + count // 10)
            load = asyncio.run(closed_loop(port, map(body, numbers), 16))
            for code, n in load.statuses.items():
                statuses[code] = statuses.get(code, 0) + n
            seen.append(memory(pid))
            print(f"  {start + count // 10} requests, {seen[-1]:.1f} MB", file=sys.stderr)
    after = statistics.median(seen[-3:])  # what the allocator holds goes up and down by itself
    growth = after / before - 1
    others = {code: n for code, n in statuses.items() if code != 200}
    return [
        (f"{count} requests of all sizes: memory", f"{before:.0f} -> {after:.0f} MB, {growth:+.1%}",
         f"<= +2 % after {warm} to warm up", growth <= 0.02),
        (f"{count} requests of all sizes: other answers", str(others or "none"), "none",
         not others),
    ]  # fmt: skip


# ---------------------------------------------------------------- abuse


def abuse(count: int) -> list[Line]:
    """Damaged requests, and requests made up from the OpenAPI document; the same process lives."""
    from tests.serve.abuse import abuse as press
    from tests.serve.conftest import _write_all

    kinds = ("base", "classify", "pair", "regress", "tag", "answer", "choose", "similar", "gpt2")
    with tempfile.TemporaryDirectory() as folder:
        folders = _write_all(Path(folder))
        models = [str(folders[kind]) for kind in kinds]
        with server(models, "--new-tokens", "8") as (port, pid):
            result = asyncio.run(press(port, count, seed=int.from_bytes(os.urandom(4), "big")))
            for message in result.bad[:5]:
                print("  bad:", message[:500], file=sys.stderr)
            examples = str(max(5, count // 40))  # per route and kind of data
            schema = subprocess.run(
                [Path(sys.executable).parent / "schemathesis", "run",
                 f"http://127.0.0.1:{port}/openapi.json", "--max-examples", examples, "--checks",
                 "not_a_server_error,status_code_conformance,content_type_conformance,"
                 "response_schema_conformance", "--phases", "fuzzing,coverage,examples"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if schema.returncode:
                print(schema.stdout[-5000:], file=sys.stderr)
            lives = Path(f"/proc/{pid}").exists()
    told = re.findall(r"(\d[\d,]*) generated", schema.stdout)
    statuses = dict(sorted(result.statuses.items()))
    return [
        (f"{count} damaged requests", str(statuses), "no 5xx", not result.bad),
        (f"schemathesis, {told[-1] if told else '?'} requests",
         "no failure" if not schema.returncode else "failures", "no failure",
         not schema.returncode),
        ("the process afterwards", "lives" if lives else "died", "lives", lives),
    ]  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--only", choices=("overload", "sizes", "abuse"))
    chosen = options.parse_args()
    lines: list[Line] = []
    for name, run in (
        ("overload", lambda: overload(chosen.seconds)),
        ("sizes", lambda: sizes(chosen.requests)),
        ("abuse", lambda: abuse(chosen.requests)),
    ):
        if chosen.only in (None, name):
            print(f"{name} ...", file=sys.stderr, flush=True)
            lines += run()
    print(f"\n### Load and abuse, {machine()}\n\n| what | measured | wanted | |\n|---|---|---|---|")
    for what, measured, wanted, holds in lines:
        print(f"| {what} | {measured} | {wanted} | {'ok' if holds else 'NO'} |")
    sys.exit(0 if all(holds for *_, holds in lines) else 1)


if __name__ == "__main__":
    main()
