"""Model directories in the Hugging Face layout, read and written with the public names.

Never a pickle: weights come from safetensors only (`pytorch_model.bin`: see `tianci convert`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tianci import __version__, manifest, sentence_files
from tianci.about import read_about
from tianci.errors import UserError, unknown
from tianci.files import read_json, write_directory, write_json
from tianci.models import family, is_preset, preset_names
from tianci.models.base import Model, Names, Public, Turned
from tianci.nn import adapter, initial
from tianci.nn.heads import Pooler
from tianci.nn.task_heads import HeadPlan, PlannedHead
from tianci.public_format import ADAPTER_PREFIX as ADAPTER_PREFIX
from tianci.public_format import Tensors as Tensors
from tianci.public_format import config_from_public as config_from_public
from tianci.public_format import config_to_public as config_to_public
from tianci.public_format import laid as laid
from tianci.public_format import plain_names as plain_names
from tianci.public_format import read_tensors as read_tensors
from tianci.public_format import translate as translate
from tianci.settings import build
from tianci.text.tokenizer import Tokenizer

OWN = "own"  # a head that the public format does not know: built from the plan in tianci.json
OWN_PREFIX = "own_head."


@dataclass
class Checkpoint:
    """A model, its heads, and what is known about them."""

    family: str
    model: Model
    heads: dict[str, nn.Module] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    extra: dict[str, Any] = field(
        default_factory=dict
    )  # public config entries we keep but do not use
    about: dict[str, Any] = field(
        default_factory=dict
    )  # tianci.json: goal, labels, scores, provenance

    @property
    def public(self) -> Public:
        public: Public = family(self.family).PUBLIC
        return public

    @property
    def architecture(self) -> str:
        known, heads = self.public.architectures, frozenset(self.heads) - {OWN}
        # neither a pooler that nothing reads (in many public masked-LM files) nor a head that has
        # no weights changes the class
        bare = {name for name in heads if not self.heads[name].state_dict()}
        fitting = (known.get(some) for some in (heads, heads - {"pooler"}, heads - bare))
        return next((name for name in fitting if name), known[frozenset()])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs, in order, where the configuration tells them."""
        names = self.extra.get("id2label") or {}
        return tuple(str(names[key]) for key in sorted(names, key=int))

    def name_labels(self, labels: Sequence[str]) -> None:
        """Writes label names as transformers wants them."""
        self.extra["id2label"] = {str(i): label for i, label in enumerate(labels)}
        self.extra["label2id"] = {label: i for i, label in enumerate(labels)}

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for m in (self.model, *self.heads.values()) for p in m.parameters())

    def to(self, device: str) -> Checkpoint:
        """The same checkpoint, its weights on another device."""
        for part in (self.model, *self.heads.values()):
            part.to(device)
        return self


def create(kind: str, config: Any, heads: tuple[str, ...] = ()) -> Checkpoint:
    """A fresh model of a family, with fresh heads."""
    module = family(kind)
    return Checkpoint(
        kind, module.build(config), {name: fresh_head(kind, config, name) for name in heads}
    )


def fresh_head(kind: str, config: Any, name: str) -> nn.Module:
    """A new head, initialised as the family initialises."""
    known = family(kind).HEADS
    if name not in known:
        raise UserError(f"{kind} has no head for {name}; it has: {', '.join(known)}")
    head: nn.Module = known[name](config)
    initial.normal(head, config.initial_std)
    return head


def fresh_task_head(kind: str, config: Any, name: str, outputs: int) -> nn.Module:
    """A new standard head for a task."""
    known = family(kind).TASK_HEADS
    if name not in known:
        raise UserError(f"{kind} has no standard head for this task ({name})")
    head: nn.Module = known[name](config, outputs)
    initial.normal(head, config.initial_std)
    return head


def planned_head(config: Any, plan: HeadPlan) -> nn.Module:
    """A new head of our own."""
    head = PlannedHead(config.width, plan)
    initial.normal(head, config.initial_std)
    return head


def pooler_of(heads: Mapping[str, nn.Module]) -> Pooler | None:
    """The pooler that is, or is part of, one of the heads."""
    for head in heads.values():
        found = getattr(head, "pooler", head)
        if isinstance(found, Pooler):
            return found
    return None


# ---------------------------------------------------------------- reading


def found_heads(
    public: Public,
    tensors: Mapping[str, Tensor],
    architecture: str | None = None,
    told: Sequence[str] = (),
    bare: Sequence[str] = (),
) -> list[str]:
    """The heads whose own tensors are there; a pooler counts only where no other head has it.

    Several heads may use one name (`classifier`): there `told`, or else the architecture, decides;
    so they do for those in `bare`, which have no tensors.
    """
    places = {name.rpartition(".")[0] for name in tensors}
    meant = next((h for h, name in public.architectures.items() if name == architecture), ())
    heads: list[str] = []
    for head in sorted(public.heads, key=lambda name: (name not in told, name not in meant)):
        own = {n for n in public.heads[head].values() if isinstance(n, str) and n[0] != "^"}
        taken = {n for other in heads for n in public.heads[other].values()}
        if (head in bare and head in (told or meant)) or (own & places and not own & taken):
            heads.append(head)
    shared = {n for head in heads for n in public.heads[head].values()}
    for head, names in public.heads.items():
        inside = [n for n in names.values() if isinstance(n, str)]
        if inside and head not in heads and all(n[0] == "^" and n[1:] in places for n in inside):
            heads += [] if shared & set(inside) else [head]
    return [name for name in public.heads if name in heads]


def bare_heads(module: ModuleType, config: Any) -> list[str]:
    """The heads that have no weights under this configuration: they only use the token table."""
    with initial.nothing():
        return [name for name, make in module.HEADS.items() if not make(config).state_dict()]


def assemble(
    kind: str,
    config: Any,
    tensors: Mapping[str, Tensor],
    where: str,
    architecture: str | None = None,
    plan: HeadPlan | None = None,
    told: Sequence[str] = (),
    mapped: bool = False,
) -> Checkpoint:
    """A model and its heads from public tensors; every tensor is used, checked, and has its
    place."""
    module = family(kind)
    public: Public = module.PUBLIC
    left = plain_names(public, tensors)
    bare = bare_heads(module, config)
    for name in (f"{n}.weight" for head in bare for n in public.heads[head].values()):
        copy, table = left.pop(name, None), left.get(f"{public.body['embedding.token']}.weight")
        if copy is not None and table is not None and not torch.equal(copy, table):
            # transformers 5 writes "tie_word_embeddings": true into every T5, and reads it like so
            config, left[name] = dataclasses.replace(config, tied=False), copy
    bare = bare_heads(module, config)
    heads = found_heads(public, left, architecture, told, bare)
    bottlenecks = [t.shape[0] for n, t in left.items() if n.endswith("adapter.down.weight")]
    with initial.nothing():  # the weights are replaced anyway
        body: Model = module.build(config)
        if bottlenecks:
            adapter.insert(body, config.width, bottlenecks[0])
        parts = {name: _empty_head(module, config, name, left) for name in heads}
        if plan is not None:
            parts[OWN] = PlannedHead(config.width, plan)
    _fill(body, public.body, left, where, mapped)
    for name, head in parts.items():
        names = own_names(head) if name == OWN else public.heads[name]
        _fill(head, names, left, where, mapped)
    if left:
        name, tensor = next(iter(left.items()))
        raise UserError(
            f"{where}: {len(left)} tensors have no place in {public.model_type}, "
            f"the first is {name} {tuple(tensor.shape)}"
        )
    body.eval()
    for head in parts.values():
        head.eval()
    return Checkpoint(kind, body, parts)


def _empty_head(module: ModuleType, config: Any, name: str, tensors: Tensors) -> nn.Module:
    """A head without weights; the tensors say how many outputs a task's head has."""
    if name in module.HEADS:
        head: nn.Module = module.HEADS[name](config)
        return head
    last = module.PUBLIC.heads[name]["linear"]
    outputs = tensors[f"{last}.weight"].shape[0]
    built: nn.Module = module.TASK_HEADS[name](config, outputs)
    return built


def own_names(head: nn.Module) -> Names:
    """Our own heads keep their names, behind a prefix."""
    places = {name.rpartition(".")[0] for name in head.state_dict()}
    return {place: OWN_PREFIX + place for place in places}


def _fill(
    module: nn.Module, names: Names, tensors: Tensors, where: str, mapped: bool = False
) -> None:
    """Takes the tensors of one module out of `tensors`."""
    state: Tensors = {}
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    for ours, public in translate(names, module):
        expected = shapes[ours]
        expected[:1] = [expected[0] // len(public)]
        parts: list[Tensor] = []
        for target in public:
            name = target.removeprefix("^")
            wanted = tuple(reversed(expected) if isinstance(target, Turned) else expected)
            if name not in tensors:
                raise UserError(f"{where}: tensor {name} {wanted} is missing")
            tensor = tensors.pop(name)
            if tensor.shape != wanted:
                raise UserError(
                    f"{where}: tensor {name} has shape {tuple(tensor.shape)}, "
                    f"but the configuration wants {wanted}"
                )
            if not _finite(tensor):
                raise UserError(f"{where}: tensor {name} holds values that are not finite numbers")
            parts.append(laid(target, tensor))
        # a copy: safetensors hands out views of the mapped file, which may change below training
        whole = parts[0] if mapped else parts[0].clone()
        whole = torch.cat(parts) if len(parts) > 1 else whole
        state[ours] = whole.float().contiguous()
    module.load_state_dict(state, assign=True)
    for ours, tensor in module.state_dict().items():  # parts that several layers share
        if tensor.data_ptr() != state[ours].data_ptr() and not torch.equal(tensor, state[ours]):
            raise UserError(
                f"{where}: {ours} is shared by several layers, but they have different weights; "
                'if they were trained apart, write "sharing": "none" into config.json'
            )


def _finite(tensor: Tensor) -> bool:
    """Whether all are finite numbers, in one pass without a mask: NaN stays in both extremes."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor.is_floating_point()
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) and torch.isfinite(high))


def read(directory: str | Path, mapped: bool = False) -> Checkpoint:
    """The checkpoint in a directory written by tianci or transformers.

    With `mapped` the weights stay in the file until they are read: a quick start for a short life,
    in which nobody may write to the file.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise _no_model(folder)
    if (folder / "adapter.safetensors").exists() and not (folder / "config.json").exists():
        from tianci import adapters  # builds on this module

        return adapters.read(folder)
    if not (folder / "config.json").exists():
        raise UserError(
            f"{folder} is not a model directory: {folder / 'config.json'} does not exist"
        )
    manifest.check_weights(folder)
    values = read_json(folder / "config.json")
    kind, config, extra = config_from_public(folder / "config.json", values)
    about = read_about(folder)
    plan = build(HeadPlan, about["head"], "head") if about.get("head") else None
    architecture = architecture_of(folder / "config.json", values)
    tensors, told = read_tensors(folder), about.get("heads") or ()
    checkpoint = assemble(kind, config, tensors, str(folder), architecture, plan, told, mapped)
    checkpoint.extra, checkpoint.about = extra, about
    _check_labels(folder / "config.json", extra)
    if any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        checkpoint.tokenizer = Tokenizer.load(folder)
        size, rows = len(checkpoint.tokenizer), config.vocabulary
        if size > rows:
            raise UserError(
                f"{folder}: the tokenizer has {size} entries, but the model only {rows}"
            )
    return checkpoint


def architecture_of(path: Path, values: Mapping[str, Any]) -> str | None:
    """The class that the files were written by, where they tell."""
    told = values.get("architectures") or []
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise UserError(f"{path}: architectures is no list of names")
    return next(iter(told), None)


def _check_labels(path: Path, extra: Mapping[str, Any]) -> None:
    names = extra.get("id2label") or {}
    if not isinstance(names, dict) or not all(
        key.isascii() and key.isdigit() and len(key) < 10 and isinstance(name, str)
        for key, name in names.items()
    ):
        raise UserError(f"{path}: id2label does not give names to numbers")


def _no_model(folder: Path) -> UserError:
    if is_preset(str(folder)):
        return UserError(
            f'"{folder}" is a preset, which has learned nothing; give the directory of a model'
        )
    if folder.parent == Path(".") and not str(folder).startswith("."):  # may be meant as a preset
        near = unknown("preset", folder.name, preset_names())
        return UserError(f"{folder} is not a model directory, and {near}")
    return UserError(f"{folder} is not a model directory")


# ---------------------------------------------------------------- writing


def public_tensors(checkpoint: Checkpoint) -> Tensors:
    """All weights under their public names."""
    public = checkpoint.public
    prefix = public.prefix if set(checkpoint.heads) - {"pooler"} else ""
    result: Tensors = {}
    written: set[int] = set()

    def add(module: nn.Module, names: Names, before: str) -> None:
        state = module.state_dict()
        for ours, targets in translate(names, module):
            pieces = state[ours].detach().cpu().chunk(len(targets))
            for name, piece in zip(targets, pieces, strict=True):
                inside = name[0] == "^" or name.startswith(ADAPTER_PREFIX)
                full = prefix + name.removeprefix("^") if inside else before + name
                piece = laid(name, piece).contiguous()
                # what layers share is written for each of them, in memory of its own
                result[full] = piece.clone() if piece.data_ptr() in written else piece
                written.add(piece.data_ptr())

    add(checkpoint.model, public.body, prefix)
    for name, head in checkpoint.heads.items():
        add(head, own_names(head) if name == OWN else public.heads[name], "")
    return result


def write(directory: str | Path, checkpoint: Checkpoint) -> None:
    """Writes config.json, model.safetensors, tokenizer, tianci.json and a model card; all or
    nothing."""
    with write_directory(directory, checkpoint.parameter_count * 4) as folder:
        write_into(folder, checkpoint)
        manifest.seal(folder)


def write_into(folder: Path, checkpoint: Checkpoint) -> None:
    """The files of a checkpoint, into a directory that somebody else makes whole."""
    public = checkpoint.public
    config = {
        "architectures": [checkpoint.architecture],
        "model_type": public.model_type,
        **checkpoint.extra,
        **config_to_public(public, checkpoint.model.config),
        "dtype": "float32",
    }
    write_json(folder / "config.json", config)
    weights = folder / "model.safetensors"
    save_file(public_tensors(checkpoint), weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors makes it private, unlike all other files here
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(folder)
    own = checkpoint.heads.get(OWN)
    about = {
        **checkpoint.about,
        **({"head": own.plan.as_table()} if isinstance(own, PlannedHead) else {}),
        "tianci": __version__,
        "family": checkpoint.family,
        "heads": sorted(checkpoint.heads),
    }
    write_json(folder / "tianci.json", about)
    bare = not any(adapter.is_adapter(name) for name in checkpoint.model.state_dict())
    if bare and isinstance(own, PlannedHead) and sentence_files.fits(own.plan):
        limit = int(about.get("limit") or checkpoint.model.config.positions)
        sentence_files.write(folder, own.plan, checkpoint.model.config.width, limit)
    (folder / "README.md").write_text(_card(checkpoint, about), encoding="utf-8")


def _card(checkpoint: Checkpoint, about: Mapping[str, Any]) -> str:
    """A model card: what this is and how to use it."""
    config = dataclasses.asdict(checkpoint.model.config)
    facts = "\n".join(f"| {name} | {value} |" for name, value in config.items())
    known = json.dumps(about, indent=2, ensure_ascii=False)
    return (
        f"---\nlibrary_name: transformers\ntags: [tianci, {checkpoint.family}]\n---\n"
        f"# {checkpoint.architecture}, {checkpoint.parameter_count:,} parameters\n\n"
        f"Written by tianci {__version__}. `tianci info DIR` shows it, `tianci.load(DIR)` and\n"
        f'`transformers.{checkpoint.architecture}.from_pretrained("DIR")` load it.\n\n'
        f"| setting | value |\n|---|---|\n{facts}\n\n```json\n{known}\n```\n"
    )
