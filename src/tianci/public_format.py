"""The public format of a model: names of tensors and entries of config.json, both directions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from tianci.errors import LONGEST_NAME, UserError, shorten
from tianci.files import check_file, read_json
from tianci.models import families, family
from tianci.models.base import Names, Public, Turned

Tensors = dict[str, Tensor]
ADAPTER_PREFIX = "adapters."
MOST_WEIGHTS = 1 << 44  # bytes; only pipes and devices are refused
_OUTSIDE = frozenset("/\\\0")  # characters that lead out of a directory


def translate(names: Names, module: nn.Module) -> Iterator[tuple[str, list[str]]]:
    """For each tensor of a module: our name, and the public names whose tensors are stacked in
    it."""
    flat: dict[str, str | tuple[str, ...]] = {}
    state = module.state_dict()
    for ours, public in names.items():
        for i in _numbers(ours, state):
            several = (public,) if isinstance(public, str) else public
            flat[ours.replace("{i}", str(i))] = tuple(
                type(p)(p.replace("{i}", str(i))) for p in several
            )
    for name in state:
        place, _, kind = name.rpartition(".")
        # adapters have no public name; they keep ours
        known = flat[place] if place in flat else (ADAPTER_PREFIX + place,)
        yield (
            name,
            [
                Turned(f"{p}.{kind}")
                if isinstance(p, Turned) and kind == "weight"
                else f"{p}.{kind}"
                for p in known
            ],
        )


def _numbers(name: str, state: Mapping[str, Tensor]) -> list[int]:
    """What "{i}" stands for in a name of ours; one number where there is no such place."""
    before, _, _ = name.partition("{i}")
    if before == name:
        return [0]
    inside = (other.removeprefix(before) for other in state if other.startswith(before))
    return sorted({int(rest.partition(".")[0]) for rest in inside})


def laid(name: str, tensor: Tensor) -> Tensor:
    """A tensor in the other format's way, from either side."""
    return tensor.t() if isinstance(name, Turned) else tensor


def config_to_public(public: Public, config: Any) -> dict[str, Any]:
    plain = {theirs: getattr(config, ours) for ours, theirs in public.config.items()}
    return plain | public.write(config)


def config_from_public(path: Path, values: Mapping[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """(family, config, the entries we do not use) of a config.json."""
    kind = values.get("model_type")
    if not isinstance(kind, str):
        kind = None if kind is None else type(kind).__name__
    # most families are called as their model_type: then the other files need not be read
    here = [kind] if kind in families() and family(kind).PUBLIC.model_type == kind else families()
    known = {family(name).PUBLIC.model_type: name for name in here}
    if kind is None or kind not in known:
        named = shorten(str(kind), LONGEST_NAME)
        raise UserError(
            f'{path}: model_type is "{named}"; tianci reads: {", ".join(sorted(known))}'
        )
    module: ModuleType = family(known[kind])
    public: Public = module.PUBLIC
    for name, wanted in public.fixed.items():
        if values.get(name, wanted) != wanted:
            raise UserError(f"{path}: {name} is {values[name]!r}, but tianci only knows {wanted!r}")
    told = {**public.absent, **values}
    for theirs in public.config.values():
        if isinstance(told.get(theirs), float) and not math.isfinite(told[theirs]):
            raise UserError(f"{path}: {theirs} is {told[theirs]}, not a finite number")
    ours = {o: told[t] for o, t in public.config.items() if told.get(t) is not None}
    try:
        config = public.read(msgspec.convert(ours, module.Config), told)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        name = public.config.get(place.rstrip("`"), place.rstrip("`"))
        raise UserError(f"{path}: {name}: {reason[0].lower()}{reason[1:]}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"{path}: a setting has a value of the wrong kind ({error})") from error
    used = {
        *config_to_public(public, config),
        "model_type",
        "architectures",
        "dtype",
        "torch_dtype",
    }
    return known[kind], config, {k: v for k, v in values.items() if k not in used}


# ---------------------------------------------------------------- tensors


def read_tensors(directory: Path) -> Tensors:
    """All tensors of `model.safetensors` or of its shards."""
    index = directory / "model.safetensors.index.json"
    if (directory / "model.safetensors").exists():
        files = {directory / "model.safetensors": None}
    elif index.exists():
        files = {directory / name: None for name in shard_names(index)}
    elif (directory / "pytorch_model.bin").exists():
        raise UserError(
            f"{directory} holds pytorch_model.bin, a pickle, which is never loaded directly; "
            f"turn it into a safe checkpoint first: tianci convert {directory} NEW"
        )
    else:
        raise UserError(f"{directory} has no model.safetensors")
    tensors: Tensors = {}
    for file in files:
        if file.exists():
            check_file(file, MOST_WEIGHTS)
        try:
            with safe_open(file, framework="pt") as content:
                for name in content.keys():  # noqa: SIM118  (not a dict)
                    tensors[name] = content.get_tensor(name)
        except FileNotFoundError:
            raise UserError(f"{file} is missing, but {index.name} names it") from None
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is not a whole safetensors file: {error}") from error
    return tensors


def shard_names(index: Path) -> list[str]:
    """The files that an index names, all of them beside it."""
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise UserError(f"{index} has no weight_map")
    names = list(shards.values())
    wrong = [n for n in names if not isinstance(n, str) or not n.strip(".") or _OUTSIDE & set(n)]
    if wrong:
        raise UserError(
            f"{index}: weight_map names {shorten(repr(wrong[0]), LONGEST_NAME)}, but weights stand "
            "in files beside it"
        )
    return sorted(set(names))


def plain_names(public: Public, tensors: Mapping[str, Tensor]) -> Tensors:
    """Tensors by public name without the body's prefix, old spellings made new, copies dropped."""
    result: Tensors = {}
    for name, tensor in tensors.items():
        name = name.removeprefix(public.prefix)
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        )
        if not any(fnmatchcase(name, ignored) for ignored in public.ignored):
            result[name] = tensor
    for copy, original in public.copies.items():
        if copy in result:
            tensor = result.pop(copy)
            result.setdefault(original, tensor)
    return result
