"""BERT against transformers: all layers, heads and gradients, both directions, loud weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.parity.family import difference, loud, padded_inputs, ragged, same, same_layers
from tianci import checkpoint
from tianci.batch import Batch
from tianci.models import bert

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

# layers, width, heads, hidden, vocabulary, positions, activation
CONFIGS = [
    (1, 8, 1, 16, 11, 16, "gelu"),
    (2, 24, 3, 40, 57, 40, "gelu"),
    (3, 32, 8, 64, 101, 33, "gelu_new"),
    (4, 64, 4, 96, 211, 64, "relu"),
    (6, 48, 12, 192, 307, 128, "gelu"),
]


def config_of(row) -> bert.Config:
    layers, width, heads, hidden, vocabulary, positions, activation = row
    return bert.Config(
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        hidden=hidden,
        positions=positions,
        activation=activation,
    )


def compare(kind: str, ours: checkpoint.Checkpoint, theirs, batch: Batch) -> None:
    """Hidden states, pooler, both logits and all gradients, in float64 so that only mistakes are
    seen."""
    ours.model.double().eval()
    for head in ours.heads.values():
        head.double().eval()
    theirs = theirs.double().eval()
    states = ours.model(batch)
    out = theirs(**padded_inputs(batch), output_hidden_states=True)
    same_layers("bert", kind, states.layers, list(out.hidden_states), batch.layout)
    masked = ours.heads["masked"](states.last, ours.model.token_table())
    order = ours.heads["next_sentence"](states.pooled("first"))
    same("bert", "masked logits", kind, masked, batch.layout.pack(out.prediction_logits))
    same("bert", "next-sentence logits", kind, order, out.seq_relationship_logits)
    pooled = ours.heads["next_sentence"].pooler(states.pooled("first"))
    last = out.hidden_states[-1]
    same("bert", "pooler", kind, pooled, theirs.bert.pooler(last))

    # a loss that touches everything, so that every parameter has a gradient
    loss = F.cross_entropy(masked, batch.tokens) + F.cross_entropy(order, order.argmin(1))
    loss.backward()
    other = F.cross_entropy(
        batch.layout.pack(out.prediction_logits), batch.tokens
    ) + F.cross_entropy(out.seq_relationship_logits, order.argmin(1))
    other.backward()
    reference = {
        name.removeprefix("bert."): p.grad
        for name, p in theirs.named_parameters()
        if p.grad is not None
    }
    for part, names in (
        (ours.model, bert.PUBLIC.body),
        *((ours.heads[h], bert.PUBLIC.heads[h]) for h in ours.heads),
    ):
        gradients = {name: p.grad for name, p in part.named_parameters()}
        for mine, public in checkpoint.translate(names, part):
            expected = torch.cat([reference[p.removeprefix("^")] for p in public])
            scale = max(1.0, expected.abs().max().item())
            same("bert", "gradients", kind, gradients[mine] / scale, expected / scale)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("row", CONFIGS, ids=lambda row: f"L{row[0]}W{row[1]}H{row[2]}")
def test_parity_ours_saved_theirs_loaded(row, seed: int, tmp_path: Path) -> None:
    config = config_of(row)
    ours = checkpoint.create("bert", config, heads=("masked", "next_sentence"))
    for part in (ours.model, *ours.heads.values()):
        loud(part, seed)
    checkpoint.write(tmp_path / "model", ours)
    theirs, report = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    compare("transformers loads ours", ours, theirs, ragged(seed, row[4], row[5]))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("row", CONFIGS, ids=lambda row: f"L{row[0]}W{row[1]}H{row[2]}")
def test_parity_theirs_saved_ours_loaded(row, seed: int, tmp_path: Path) -> None:
    values = checkpoint.config_to_public(bert.PUBLIC, config_of(row))
    theirs = transformers.BertForPreTraining(transformers.BertConfig(**values))
    loud(theirs, seed)
    theirs.save_pretrained(tmp_path / "model")
    ours = checkpoint.read(tmp_path / "model")
    assert ours.model.config == config_of(row)
    compare("we load transformers'", ours, theirs, ragged(seed, row[4], row[5]))


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForNextSentencePrediction"])
def test_parity_other_classes_both_ways(name: str, tmp_path: Path) -> None:
    row = CONFIGS[2]
    values = checkpoint.config_to_public(bert.PUBLIC, config_of(row))
    theirs = getattr(transformers, name)(transformers.BertConfig(**values))
    loud(theirs, 5)
    theirs.double().eval().save_pretrained(tmp_path / "theirs")
    ours = checkpoint.read(tmp_path / "theirs")
    assert ours.architecture == name
    ours.model.double()
    checkpoint.write(tmp_path / "ours", ours)
    back, report = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    state = theirs.state_dict()
    for key, value in back.state_dict().items():
        same("bert", f"{name} round trip", "transformers", value, state[key].float(), atol=0.0)
    batch = ragged(9, row[4], row[5])
    out = theirs(**padded_inputs(batch), output_hidden_states=True)
    same_layers("bert", name, ours.model(batch).layers, list(out.hidden_states), batch.layout)


def test_parity_in_float32(tmp_path: Path) -> None:
    config = config_of(CONFIGS[4])
    ours = checkpoint.create("bert", config, heads=("pooler",))
    loud(ours.model, 3)
    loud(ours.heads["pooler"], 4)
    checkpoint.write(tmp_path / "model", ours)
    theirs = transformers.BertModel.from_pretrained(tmp_path / "model").eval()
    batch = ragged(3, config.vocabulary, config.positions)
    ours.model.eval()
    with torch.no_grad():
        states = ours.model(batch)
        out = theirs(**padded_inputs(batch), output_hidden_states=True)
    same_layers("bert", "float32", states.layers, list(out.hidden_states), batch.layout)
    same("bert", "pooler", "float32", ours.heads["pooler"](states.pooled()), out.pooler_output)


@pytest.mark.parametrize("fault", ["scale", "segments", "norm", "positions", "activation"])
def test_a_broken_model_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison must fail for each classic mistake; otherwise it proves nothing."""
    config = config_of(CONFIGS[1])
    good, bad = bert.build(config).eval(), bert.build(config).eval()
    loud(good, 0)
    bad.load_state_dict(good.state_dict())
    batch = ragged(0, config.vocabulary, config.positions)
    expected = good(batch).last
    if fault == "scale":
        plain = F.scaled_dot_product_attention
        monkeypatch.setattr(
            F, "scaled_dot_product_attention", lambda q, *a, **k: plain(q * 1.1, *a, **k)
        )
    elif fault == "segments":
        batch = Batch(batch.tokens, batch.layout)
    elif fault == "norm":
        for module in bad.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-2
    elif fault == "positions":
        bad.embedding.position.weight.data = bad.embedding.position.weight.data.roll(1, 0)
    else:
        for block in bad.stack.blocks:
            block.feed.part.activation = torch.nn.functional.relu
    assert difference(bad(batch).last, expected) > 1e-3


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "medium", "base", "large"])
def test_parameters_equal_transformers(size: str) -> None:
    config = bert.PRESETS[size]
    with torch.device("meta"):
        values = checkpoint.config_to_public(bert.PUBLIC, config)
        theirs = transformers.BertForPreTraining(transformers.BertConfig(**values))
        ours = bert.build(config)
        heads = [bert.HEADS[name](config) for name in ("masked", "next_sentence")]
    count = sum(p.numel() for part in (ours, *heads) for p in part.parameters())
    assert count == theirs.num_parameters()
    assert {"base": 110_106_428, "large": 336_226_108}.get(size, count) == count
