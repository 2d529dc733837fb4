"""BERT as in the paper, straight from public tensors: the yardstick of the parity gate.

Shares nothing with tianci.nn on purpose: separate query, key and value, softmax by hand, one text
at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.nn.activations import activation


def bert_outputs(
    tensors: Mapping[str, Tensor], config: Mapping[str, Any], ids: list[int], segments: list[int]
) -> dict[str, Tensor]:
    """Last hidden states, and masked and next-sentence logits where there are tensors for them."""
    act, eps = activation(config["hidden_act"]), config["layer_norm_eps"]

    def get(name: str) -> Tensor:
        return tensors[name].double()

    def dense(x: Tensor, name: str) -> Tensor:
        return x @ get(f"{name}.weight").T + get(f"{name}.bias")

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps)
        return scaled * get(f"{name}.weight") + get(f"{name}.bias")

    table = get("embeddings.word_embeddings.weight")
    x = table[ids] + get("embeddings.token_type_embeddings.weight")[segments]
    x = norm(x + get("embeddings.position_embeddings.weight")[: len(ids)], "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        query, key, value = (
            dense(x, f"{layer}.attention.self.{part}").chunk(config["num_attention_heads"], -1)
            for part in ("query", "key", "value")
        )
        mixed = [
            torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), -1) @ v
            for q, k, v in zip(query, key, value, strict=True)
        ]
        out = dense(torch.cat(mixed, -1), f"{layer}.attention.output.dense")
        x = norm(x + out, f"{layer}.attention.output.LayerNorm")
        out = dense(act(dense(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense")
        x = norm(x + out, f"{layer}.output.LayerNorm")
    outputs = {"last": x}
    if "cls.predictions.transform.dense.weight" in tensors:
        hidden = act(dense(x, "cls.predictions.transform.dense"))
        hidden = norm(hidden, "cls.predictions.transform.LayerNorm")
        outputs["masked"] = F.linear(hidden, table, get("cls.predictions.bias"))
    if "cls.seq_relationship.weight" in tensors:
        pooled = torch.tanh(dense(x[:1], "pooler.dense"))
        outputs["next_sentence"] = dense(pooled, "cls.seq_relationship")
    return outputs
