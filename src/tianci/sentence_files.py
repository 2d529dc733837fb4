"""The small files that make a model directory one of sentence-transformers: pooling, then length 1.

`SentenceTransformer(directory)` then gives the vectors that tianci gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tianci.errors import UserError
from tianci.files import read_json, read_small, write_json
from tianci.nn.task_heads import HeadPlan

# ours -> theirs; the concatenated poolings stand in another order there, so they are left out
POOLINGS = {"first": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "last": "lasttoken"}
MODULES = ("Transformer", "Pooling", "Normalize")


def fits(plan: HeadPlan) -> bool:
    """Whether sentence-transformers can say what a head does: a bare pooling of the last layer."""
    own_parts = plan.outputs or plan.per_token or plan.mixed_layers or plan.lstm or plan.hidden
    return not own_parts and plan.pooling in POOLINGS


def write(folder: Path, plan: HeadPlan, width: int, limit: int) -> None:
    """modules.json and what it names; the old names of modules are read by old and new versions."""
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{module}"}
        for n, (module, path) in enumerate(zip(MODULES, paths, strict=True))
    ]
    write_json(folder / "modules.json", modules)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": limit, "do_lower_case": False}
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    for path in paths[1:]:
        (folder / path).mkdir()
    modes = {f"pooling_mode_{name}": ours == plan.pooling for ours, name in POOLINGS.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    # the last module has no settings, but a directory without a file would be lost in a repository
    write_json(folder / "2_Normalize" / "config.json", {})


def read(folder: Path) -> dict[str, Any]:
    """What a sentence-transformers directory says: pooling, length, normalisation, prompts."""
    if not (folder / "modules.json").exists():
        return {}
    found: dict[str, Any] = {}
    modes = {"cls_token": "first", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "last"}
    pooling = folder / "1_Pooling" / "config.json"
    if pooling.exists():
        values = read_json(pooling)
        chosen = [ours for theirs, ours in modes.items() if values.get(f"pooling_mode_{theirs}")]
        if isinstance(values.get("pooling_mode"), str):  # newer files name it instead
            chosen = [
                {"cls": "first", "lasttoken": "last"}.get(
                    values["pooling_mode"], values["pooling_mode"]
                )
            ]
        if len(chosen) == 1:
            found["pooling"] = chosen[0]
    found["normalize"] = b"Normalize" in read_small(folder / "modules.json")
    lengths = folder / "sentence_bert_config.json"
    if lengths.exists():
        limit = read_json(lengths).get("max_seq_length")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise UserError(f"{lengths}: max_seq_length is no number of tokens")
        found["limit"] = limit
    settings = folder / "config_sentence_transformers.json"
    if settings.exists():
        prompts = read_json(settings).get("prompts") or {}
        if not isinstance(prompts, dict) or any(type(one) is not str for one in prompts.values()):
            raise UserError(f"{settings}: prompts must map names to texts")
        found |= {"prompts": prompts} if prompts else {}
    return found
