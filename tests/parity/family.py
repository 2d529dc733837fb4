"""One helper for all families: loud weights, ragged batches, and a comparison that can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.conftest import PARITY
from tianci import checkpoint
from tianci.batch import Batch, Layout
from tianci.checkpoint import Checkpoint
from tianci.models import family as module_of

ATOL = 1e-5
EXACT = 1e-10  # in float64 only mistakes are seen
OUTPUTS = {"sequence": 3, "token": 3, "span": 2, "choice": 1}
Heads = frozenset[str]


def loud(module: nn.Module, seed: int) -> None:
    """Redraws all weights so that every part matters: with N(0, 0.02) a missing 1/sqrt(D) goes
    unseen."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * 0.3
        is_gain = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = noise + 1.0 if is_gain else noise


def ragged(seed: int, vocabulary: int, longest: int, count: int = 7, first: int = 1) -> Batch:
    """Random sequences of different lengths with two segments; one token, and the longest, among
    them."""
    r = np.random.default_rng(seed)
    lengths = [1, longest, longest, *r.integers(1, longest + 1, count - 3).tolist()]
    # transformers keeps the gradient of the padding row at zero, we have no padding row: `first`
    # is the first id behind it
    ids = [r.integers(first, vocabulary, n).tolist() for n in lengths]
    segments = [sorted(r.integers(0, 2, n).tolist()) for n in lengths]
    return Batch.of(ids, segments)


def padded_inputs(batch: Batch, pad: int = 0, segments: int = 2) -> dict[str, Tensor]:
    """The same batch as transformers wants it; `segments`: how many the model knows."""
    layout = batch.layout
    assert batch.segments is not None
    inputs = {
        "input_ids": layout.pad(batch.tokens, fill=pad),
        "attention_mask": layout.mask.long(),
    }
    if segments:
        inputs["token_type_ids"] = layout.pad(batch.segments).clamp(max=segments - 1)
    return inputs


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; shapes must agree."""
    assert ours.shape == theirs.shape, f"{tuple(ours.shape)} against {tuple(theirs.shape)}"
    return (ours - theirs).abs().max().item() if ours.numel() else 0.0


def same(
    family: str, what: str, source: str, ours: Tensor, theirs: Tensor, atol: float = ATOL
) -> None:
    """Records the difference for the table and fails when it is too large."""
    gap = difference(ours.detach(), theirs.detach())
    PARITY.append((family, what, source, gap))
    assert gap <= atol, (
        f"{family} {what} against {source}: differs by {gap:.2e}, allowed {atol:.0e}"
    )


def same_layers(
    family: str,
    source: str,
    ours: list[Tensor],
    theirs: list[Tensor],
    layout: Layout,
    atol: float = ATOL,
) -> None:
    """All layers, on the real tokens."""
    assert len(ours) == len(theirs)
    what = f"{len(ours) - 1} layers, hidden states"
    for mine, other in zip(ours, theirs, strict=True):
        same(family, what, source, mine, layout.pack(other), atol)


# ---------------------------------------------------------------- whole checkpoints


def class_of(kind: str, heads: Heads) -> Any:
    """transformers' class for these heads."""
    import transformers

    return getattr(transformers, module_of(kind).PUBLIC.architectures[heads])


def heads_of(kind: str, *others: str) -> list[Heads]:
    """Every set of heads that has a class of its own in transformers; not with these heads."""
    known = module_of(kind).PUBLIC.architectures
    empty = [] if "pooler" in module_of(kind).HEADS else [frozenset()]
    return [*empty, *(heads for heads in known if heads and not heads & {*others})]


def named(heads: Heads) -> str:
    """A name for the test's id."""
    return "+".join(sorted(heads)) or "body"


def loud_checkpoint(kind: str, config: Any, heads: Heads, seed: int) -> Checkpoint:
    """A model with these heads, all weights loud."""
    made = checkpoint.create(kind, config)
    for name in sorted(heads):
        if name in OUTPUTS:
            made.heads[name] = checkpoint.fresh_task_head(kind, config, name, OUTPUTS[name])
        else:
            made.heads[name] = checkpoint.fresh_head(kind, config, name)
    if heads & {"sequence", "token"}:
        made.name_labels("abc")
    for number, part in enumerate((made.model, *made.heads.values())):
        loud(part, 100 * seed + number)
    return made


def said_by_ours(ours: Checkpoint, batch: Batch) -> tuple[list[Tensor], dict[str, Tensor]]:
    """All layers, and what each head says."""
    states = ours.model(batch)
    said = {}
    for name, head in ours.heads.items():
        if name in ("masked", "causal", "generation"):
            said[name] = head(states.last, ours.model.token_table())
        elif name in OUTPUTS:
            said[name] = head(states.layers, states.layout)
        else:
            said[name] = head(states.pooled("first"))
    return list(states.layers), said


def said_by_theirs(theirs: Any, ours: Checkpoint, batch: Batch) -> tuple[list[Tensor], Any]:
    """The same of transformers' model."""
    config, pack = ours.model.config, (batch.decoder or batch).layout.pack
    inputs = padded_inputs(batch, config.pad, getattr(config, "segments", 0))
    if "choice" in ours.heads:  # all sequences are choices of one question
        inputs = {name: value[None] for name, value in inputs.items()}
    if "Double" in type(theirs).__name__:  # the token that decides is to be named
        inputs["mc_token_ids"] = torch.tensor([batch.layout.lengths]) - 1
        del inputs["attention_mask"]  # what stands behind changes nothing; GPT's wants two sizes
    if batch.decoder is not None:
        target = padded_inputs(batch.decoder, config.pad, 0)
        inputs |= {f"decoder_{name}": value for name, value in target.items()}
    out = theirs(**inputs, output_hidden_states=True)
    several = len(ours.heads) > 1
    said = {}
    for name in ours.heads:
        said[name] = {
            "masked": lambda: pack(out.prediction_logits if several else out.logits),
            "next_sentence": lambda: out.seq_relationship_logits if several else out.logits,
            "sentence_order": lambda: out.sop_logits,
            "pooler": lambda: out.pooler_output,
            "sequence": lambda: out.logits,
            "token": lambda: pack(out.logits),
            "span": lambda: pack(torch.stack([out.start_logits, out.end_logits], -1)),
            "causal": lambda: pack(out.logits.flatten(0, -3)),
            "generation": lambda: pack(out.logits),
            "choice": lambda: out.get("mc_logits", out.logits).T,
        }[name]()
    layers = out.hidden_states if batch.decoder is None else out.decoder_hidden_states
    return [layer.flatten(0, -3) for layer in layers], said


def compare(
    kind: str, source: str, ours: Checkpoint, theirs: Any, batch: Batch, atol: float = EXACT
) -> None:
    """All layers, the logits of all heads, and all gradients."""
    dtype = torch.float64 if atol == EXACT else torch.float32
    for part in (ours.model, *ours.heads.values(), theirs):
        part.to(dtype).eval()
    layers, said = said_by_ours(ours, batch)
    expected_layers, expected = said_by_theirs(theirs, ours, batch)
    layout = (batch.decoder or batch).layout
    same_layers(kind, source, layers, expected_layers, layout, atol)
    for name in said:
        scale = max(1.0, expected[name].abs().max().item())
        same(kind, f"{name} head", source, said[name] / scale, expected[name] / scale, atol)
    if atol != EXACT:
        return
    # a loss that touches everything, so that every parameter has a gradient
    said["states"], expected["states"] = layers[-1], layout.pack(expected_layers[-1])
    for outputs in (said, expected):
        generator = torch.Generator().manual_seed(0)
        weights = {n: torch.randn(said[n].shape, generator=generator, dtype=dtype) for n in said}
        sum((outputs[n] * weights[n]).sum() for n in said).backward()
    same_gradients(kind, source, ours, theirs)


def same_gradients(kind: str, source: str, ours: Checkpoint, theirs: Any) -> None:
    """Of every parameter; what our layers share has the sum of what theirs have."""
    public = ours.public
    reference = {
        name.removeprefix(public.prefix): p.grad
        for name, p in theirs.named_parameters()
        if p.grad is not None
    }
    parts = [(ours.model, public.body), *((h, public.heads[n]) for n, h in ours.heads.items())]
    for part, names in parts:
        parameters = dict(part.named_parameters(remove_duplicate=False))
        total: dict[nn.Parameter, Tensor] = {}
        for mine, targets in checkpoint.translate(names, part):
            gradient = torch.cat(
                [checkpoint.laid(name, reference[name.removeprefix("^")]) for name in targets]
            )
            total[parameters[mine]] = total.get(parameters[mine], 0) + gradient
        assert len(total) == len(list(part.parameters()))
        for parameter, expected in total.items():
            assert parameter.grad is not None
            scale = max(1.0, expected.abs().max().item())
            same(kind, "gradients", source, parameter.grad / scale, expected / scale, EXACT)


def batch_for(config: Any, seed: int) -> Batch:
    """As long as the model reads; with targets where it has a decoder."""
    batch = ragged(seed, config.vocabulary, config.positions, first=config.pad + 1)
    if not getattr(config, "decoder_layers", 0):
        return batch
    target = ragged(seed + 7, config.vocabulary, config.positions // 2, first=config.pad + 1)
    return dataclasses.replace(batch, decoder=target)


def check_parity(kind: str, config: Any, heads: Heads, seed: int, folder: Path) -> None:
    """Both directions: what we save, transformers loads; what transformers saves, we load."""
    ours = loud_checkpoint(kind, config, heads, seed)
    checkpoint.write(folder / "ours", ours)
    theirs, report = class_of(kind, heads).from_pretrained(
        folder / "ours", output_loading_info=True
    )
    assert not any(report.values()), report
    compare(kind, "transformers loads ours", ours, theirs, batch_for(config, seed))

    values = checkpoint.config_to_public(module_of(kind).PUBLIC, config)
    labels = {"num_labels": 3} if heads & {"sequence", "token"} else {}
    fresh = class_of(kind, heads)
    theirs = fresh(fresh.config_class(**values, **labels))
    loud(theirs, seed + 50)
    theirs.save_pretrained(folder / "theirs")
    ours = checkpoint.read(folder / "theirs")
    assert ours.model.config == config
    assert frozenset(ours.heads) == heads and ours.architecture == fresh.__name__
    compare(kind, "we load transformers'", ours, theirs, batch_for(config, seed))


def check_float32(kind: str, config: Any, heads: Heads, folder: Path) -> None:
    """The precision that is used, with its own tolerance."""
    ours = loud_checkpoint(kind, config, heads, 3)
    checkpoint.write(folder / "model", ours)
    theirs = class_of(kind, heads).from_pretrained(folder / "model")
    with torch.no_grad():
        compare(kind, "float32", ours, theirs, batch_for(config, 3), ATOL)


def check_fault_is_seen(
    kind: str, config: Any, heads: Heads, plant: Callable[[Any], object], folder: Path
) -> None:
    """The comparison must fail for a classic mistake; otherwise it proves nothing."""
    ours = loud_checkpoint(kind, config, heads, 0)
    checkpoint.write(folder / "model", ours)
    theirs = class_of(kind, heads).from_pretrained(folder / "model")
    plant(ours.model)
    recorded = len(PARITY)
    try:
        compare(kind, "a planted fault", ours, theirs, batch_for(config, 0), ATOL)
    except AssertionError as error:
        assert "differs by" in str(error)
    else:
        raise AssertionError("the comparison did not see the fault")
    finally:
        del PARITY[recorded:]  # the table shows no planted faults


def parameters_of(kind: str, config: Any, heads: Heads) -> tuple[int, int]:
    """(ours, transformers') number of parameters, without making any."""
    fresh = class_of(kind, heads)
    values = checkpoint.config_to_public(module_of(kind).PUBLIC, config)
    with torch.device("meta"):
        theirs = fresh(fresh.config_class(**values))
        ours = checkpoint.create(kind, config, tuple(heads))
    return ours.parameter_count, int(theirs.num_parameters())
