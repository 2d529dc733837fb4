"""Encoders in our engines beside transformers, onnxruntime, OpenVINO and sentence-transformers.

    python benchmarks/inference.py [--short] [--only base] [--rounds 5] [--seconds 1]
    python benchmarks/inference.py --quality

All contestants of a table run in turn in processes of their own (arena.py). The peers that pad are
there twice: with texts as they arrive, and sorted by length. Peers that are not installed are left
out with a line that says so; see inference_peers.py for what they need.
`--quality`: the cosine of int8 vectors to float32 ones on 200 real texts (needs ../shared/data).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from arena import battle, machine, padding

Contestant = tuple[str, str, dict[str, Any]]
PEERS = "inference_peers:"


def field(model: str, kind: str, int8: bool) -> list[Contestant]:
    """Peers first; the first of them is the base of the ratios."""
    case = {"model": model, "kind": kind}
    found: list[Contestant] = []

    def peer(name: str, target: str, *modules: str, **more: Any) -> None:
        absent = [module for module in modules if find_spec(module) is None]
        if absent:
            print(f"{name} is left out: {', '.join(absent)} is not installed", flush=True)
        else:
            found.append((name, PEERS + target, {**case, **more}))

    export = ("onnxruntime", "onnxscript")
    if int8:
        small = ("openvino", "nncf", *export)
        peer("OpenVINO PTQ int8", "openvino", *small, int8="ptq")
        peer("OpenVINO dynamic int8", "openvino", *small, int8="dynamic")
        peer("onnxruntime dynamic int8", "onnxruntime", *export, int8=True)
        if kind == "ragged":
            for how in ("PTQ", "dynamic"):
                peer(f"OpenVINO {how} int8, sorted", "openvino", *small,
                     int8=how.lower(), kind="sorted")  # fmt: skip
    else:
        peer("transformers (sdpa)", "transformers", "transformers")
        peer("onnxruntime", "onnxruntime", *export)
        peer("OpenVINO", "openvino", "openvino", *export)
        if kind == "ragged":
            peer("OpenVINO, sorted", "openvino", "openvino", *export, kind="sorted")
        found.append(("tianci, modules", PEERS + "ours", {**case, "engine": None}))
    for engine, modules in (("torch", ()), ("openvino", ("openvino",)), ("onnx", ("onnxruntime",))):
        peer(f"tianci, {engine}{' int8' * int8}", "ours", *modules, engine=engine, int8=int8)
    return found


def quality() -> None:
    """Prints how near int8 vectors are to float32 ones."""
    import torch
    import torch.nn.functional as F
    from inference_peers import (
        minilm_folder,
        onnx_session,
        openvino_request,
        padded,
        texts,
        threads,
    )  # fmt: skip

    from tianci.serve.predictor import load

    threads()
    some = texts(200)
    exact = load(minilm_folder())
    ours = torch.from_numpy(exact.embed(some))
    print(
        "\n### int8 vectors of MiniLM, 200 real texts\n\n| | mean cosine | lowest |\n|---|---|---|"
    )

    def tell(name: str, said: torch.Tensor) -> None:
        cosine = F.cosine_similarity(ours, said)
        print(f"| {name} | {cosine.mean():.4f} | {cosine.min():.4f} |", flush=True)

    for engine, module in (("torch", "torch"), ("openvino", "openvino"), ("onnx", "onnxruntime")):
        if find_spec(module):
            small = load(minilm_folder(), engine=engine, int8=True)
            tell(f"tianci, {engine} int8", torch.from_numpy(small.embed(some)))
    if not all(map(find_spec, ("openvino", "nncf", "onnxruntime", "onnxscript"))):
        return
    told = [padded([ids]) for ids in exact.tokenizer.ids(some, limit=256)]

    def theirs(states: Callable[[Any], Any]) -> torch.Tensor:
        means = [torch.from_numpy(states(one)[0].mean(0)) for one in told]
        return F.normalize(torch.stack(means), dim=1)

    for how in ("PTQ", "dynamic"):
        request = openvino_request("minilm", how.lower())
        tell(f"OpenVINO {how} int8", theirs(lambda one, run=request: run.infer(one)[0]))
    session = onnx_session("minilm", int8=True)
    tell("onnxruntime dynamic int8", theirs(lambda one: session.run(None, one)[0]))


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    ask.add_argument("--short", action="store_true", help="MiniLM only, few lengths, 3 rounds")
    ask.add_argument("--only", choices=["base", "minilm", "tiny", "texts"])
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--seconds", type=float, default=1.0)
    ask.add_argument("--quality", action="store_true")
    asked = ask.parse_args()
    print(machine())
    from inference_peers import batches

    if asked.quality:
        return quality()
    rounds = min(3, asked.rounds) if asked.short else asked.rounds
    models = ["minilm"] if asked.short else ["minilm", "base"]
    models = models if asked.only is None else [asked.only]
    lengths = ["16", "128"] if asked.short else ["16", "64", "128", "512"]
    for model in [one for one in models if one != "texts"]:
        for kind in ("ragged", *lengths):
            for int8 in (False, True):
                what = "batches of 32 ragged texts" if kind == "ragged" else f"{kind} tokens"
                title = f"{model}, {what}, {'int8' if int8 else 'float32'}"
                if kind == "ragged":
                    title += ", padded for peers: " + ", ".join(
                        f"{padding(map(len, one) for one in batches(order)):.2f} places a token"
                        f"{' when sorted' if order == 'sorted' else ''}"
                        for order in ("ragged", "sorted")
                    )
                battle(title, field(model, kind, int8), rounds, asked.seconds)
    if asked.only in (None, "texts") and find_spec("sentence_transformers"):
        runs: list[Contestant] = [("sentence-transformers", PEERS + "vectors", {"who": "theirs"})]
        for engine in ("torch", "openvino", "onnx"):
            for int8 in (False, True):
                how = {"who": "tianci", "engine": engine, "int8": int8}
                runs.append((f"tianci, {engine}{' int8' * int8}", PEERS + "vectors", how))
        battle("texts to vectors, MiniLM, tokenization included", runs, rounds, asked.seconds)
    return None


if __name__ == "__main__":
    main()
