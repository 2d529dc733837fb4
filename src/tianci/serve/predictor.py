"""A loaded model that answers: fill in masks, embed texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci import checkpoint
from tianci.batch import Batch
from tianci.data.collate import by_budget
from tianci.errors import UserError
from tianci.files import read_json
from tianci.models import is_preset
from tianci.text.tokenizer import Encoded, Tokenizer

BATCH_TOKENS = 4096  # enough rows for full speed, small enough to stay in cache
Candidates = list[list[dict[str, Any]]]  # per mask, best first: token, id, score


def load(path: str | Path, device: str | None = None) -> Predictor:
    """The model in a directory (tianci's or Hugging Face's), ready to answer."""
    if not Path(path).exists() and is_preset(str(path)):
        raise UserError(f'"{path}" is a preset, which has learned nothing; give a trained model')
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Predictor(checkpoint.read(path), _pooling(Path(path)), chosen)


def _pooling(folder: Path) -> dict[str, Any]:
    """What a sentence-transformers directory says about pooling, length and normalisation."""
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
    found["normalize"] = "Normalize" in (folder / "modules.json").read_text(encoding="utf-8")
    if (folder / "sentence_bert_config.json").exists():
        found["limit"] = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return found


class Predictor:
    """Model, tokenizer and heads of one checkpoint; batches never change an answer."""

    def __init__(
        self,
        saved: checkpoint.Checkpoint,
        defaults: dict[str, Any] | None = None,
        device: str = "cpu",
    ):
        self.checkpoint = saved
        self.model = saved.model.to(device).eval()
        self.heads = {name: head.to(device).eval() for name, head in saved.heads.items()}
        self.defaults = defaults or {}
        self.device = device

    @property
    def tokenizer(self) -> Tokenizer:
        if self.checkpoint.tokenizer is None:
            raise UserError("this model directory has no tokenizer (tokenizer.json or vocab.txt)")
        return self.checkpoint.tokenizer

    @property
    def limit(self) -> int:
        """The most tokens a text may have."""
        return int(self.model.config.positions)

    def save(self, path: str | Path) -> None:
        """Writes the checkpoint in the public layout."""
        checkpoint.write(path, self.checkpoint)

    @overload
    def fill(self, text: str, top: int = 5) -> Candidates: ...
    @overload
    def fill(self, text: list[str], top: int = 5) -> list[Candidates]: ...
    def fill(self, text: str | list[str], top: int = 5) -> Candidates | list[Candidates]:
        """For each mask in a text the `top` candidates with probabilities."""
        if isinstance(text, str):
            return self.fill([text], top)[0]
        if "masked" not in self.heads:
            raise UserError("this model has no masked-language-model head, so it cannot fill in")
        mask = self.tokenizer.mask
        if mask is None:
            raise UserError("this model's vocabulary has no mask token, so it cannot fill in")
        encoded = self.tokenizer.encode(text)
        mark = self.tokenizer.token(mask)
        for one, row in zip(text, encoded, strict=True):
            self._check_length(one, row)
            if mask not in row.ids:
                raise UserError(f'no {mark} in "{_short(one)}"; put {mark} where a word is missing')

        def answer(states: Any, batch: Batch) -> Iterator[Candidates]:
            places = torch.eq(batch.tokens, mask).nonzero().squeeze(1)
            logits = self.heads["masked"](states.last[places], self.model.token_table())
            scores, ids = (
                logits[:, : len(self.tokenizer)].softmax(-1).topk(min(top, len(self.tokenizer)))
            )
            found: list[Candidates] = [[] for _ in batch.layout.lengths]
            owners = batch.layout.sequence[places].tolist()
            for owner, row, best in zip(owners, scores.tolist(), ids.tolist(), strict=True):
                found[owner].append(
                    [
                        {"token": self.tokenizer.token(i), "id": i, "score": s}
                        for s, i in zip(row, best, strict=True)
                    ]
                )
            yield from found

        return self.run(encoded, answer)

    def embed(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
        normalize: bool | None = None,
    ) -> NDArray[np.float32]:
        """(texts, width): one vector per text, by the directory's own pooling or else the mean."""
        if isinstance(texts, str):
            single: NDArray[np.float32] = self.embed([texts], pooling, normalize)[0]
            return single
        kind = pooling or self.defaults.get("pooling", "mean")
        unit = self.defaults.get("normalize", False) if normalize is None else normalize
        limit = min(self.limit, self.defaults.get("limit") or self.limit)
        encoded = self.tokenizer.ids(texts, limit=limit)

        def answer(states: Any, batch: Batch) -> Iterator[Tensor]:
            vectors = states.pooled(kind).float()
            yield from (F.normalize(vectors, dim=-1) if unit else vectors).cpu()

        rows = self.run(encoded, answer)
        width = self.model.config.width
        return torch.stack(rows).numpy() if rows else np.zeros((0, width), np.float32)

    def run(
        self,
        rows: Sequence[Encoded] | Sequence[list[int]],
        answer: Callable[[Any, Batch], Iterable[Any]],
    ) -> list[Any]:
        """Runs the model over rows in batches of similar length; one answer per row, in order."""
        ids = [row.ids if isinstance(row, Encoded) else row for row in rows]
        segments = [row.segments for row in rows if isinstance(row, Encoded)]
        results: list[Any] = [None] * len(ids)
        for numbers in by_budget([len(row) for row in ids], BATCH_TOKENS):
            batch = Batch.of(
                [ids[n] for n in numbers], [segments[n] for n in numbers] if segments else None
            ).to(self.device)
            with torch.inference_mode():
                for n, result in zip(numbers, answer(self.model(batch), batch), strict=True):
                    results[n] = result
        return results

    def _check_length(self, text: str, row: Encoded) -> None:
        if len(row) > self.limit:
            raise UserError(
                f'"{_short(text)}" has {len(row)} tokens, but the model reads {self.limit}; '
                "shorten it"
            )


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
