"""A loaded model that answers: fill in masks, embed texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci import adapters, checkpoint, sentence_files
from tianci.batch import Batch, Layout
from tianci.data.collate import by_budget
from tianci.data.rows import Row, make_row
from tianci.engine import attach
from tianci.errors import UserError
from tianci.evaluate.perplexity import begin_token, log_likelihoods
from tianci.evaluate.tasks import answer, reading_limit
from tianci.goals.tasks import task_of
from tianci.goals.tasks.base import Task
from tianci.models import is_preset
from tianci.nn.task_heads import PlannedHead
from tianci.text.tokenizer import Encoded, Tokenizer

BATCH_TOKENS = 4096  # enough rows for full speed, small enough to stay in cache
SCORED_AT_ONCE = 16 * BATCH_TOKENS  # tokens of a group of texts, each masked in all places
REMEMBERED = 10_000  # scores of texts that may come again
WAITING = 1000  # texts that are answered together at most
Scored = dict[str, Any]  # score, mean, tokens, token_scores
Judge = Callable[[Sequence[Encoded]], list[list[float]]]
Candidates = list[list[dict[str, Any]]]  # per mask, best first: token, id, score


def load(
    path: str | Path,
    device: str | None = None,
    base: str | Path | None = None,
    mapped: bool = False,
    engine: str | None = "torch",
    int8: bool = False,
) -> Predictor:
    """The model in a directory (tianci's or Hugging Face's), ready to answer.

    `base` is where the base of an adapter is, if it has moved. `mapped` leaves weights in the file
    until they are read, for a short life: nobody may write to the file meanwhile. `engine` (torch,
    openvino, onnx, or auto: the fastest here) and `int8` say how an encoder is run on the CPU.
    """
    if not Path(path).exists() and is_preset(str(path)):
        raise UserError(f'"{path}" is a preset, which has learned nothing; give a trained model')
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    saved = adapters.read(path, base) if base is not None else checkpoint.read(path, mapped)
    return Predictor(saved, sentence_files.read(Path(path)), chosen, engine, int8)


class Predictor:
    """Model, tokenizer and heads of one checkpoint; batches never change an answer."""

    def __init__(
        self,
        saved: checkpoint.Checkpoint,
        defaults: dict[str, Any] | None = None,
        device: str = "cpu",
        engine: str | None = "torch",  # None: module by module, as in training
        int8: bool = False,
    ):
        self.checkpoint = saved
        self.model = saved.model.to(device).eval()
        self.heads = {name: head.to(device).eval() for name, head in saved.heads.items()}
        self.defaults = defaults or {}
        self.device = device
        self.engine, self.int8 = "modules", int8
        if device == "cpu" and engine is not None:
            self.engine = attach(saved, engine, int8)
        elif int8 or engine not in (None, "torch", "auto"):
            raise UserError(f"engines and int8 are for the CPU, but the model is on {device}")

    @property
    def tokenizer(self) -> Tokenizer:
        if self.checkpoint.tokenizer is None:
            raise UserError("this model directory has no tokenizer (tokenizer.json or vocab.txt)")
        return self.checkpoint.tokenizer

    @cached_property
    def task(self) -> Task:
        """What the model was fine-tuned for."""
        return task_of(self.checkpoint)

    @overload
    def __call__(self, inputs: str | Mapping[str, Any]) -> dict[str, Any]: ...
    @overload
    def __call__(self, inputs: Sequence[Any]) -> list[dict[str, Any]]: ...
    def __call__(self, inputs: Any) -> Any:
        """What the model says of a text, a pair of texts as ("a", "b"), a record, or a list of
        these."""
        single = isinstance(inputs, str | Mapping | tuple)
        records = [_record(one) for one in ([inputs] if single else inputs)]
        rows = [make_row(r, self.task.columns(), n) for n, r in enumerate(records, 1)]
        wrong = next((row for row in rows if isinstance(row, UserError)), None)
        if wrong is not None:
            raise wrong
        found = self.predict([row for row in rows if isinstance(row, Row)])
        return found[0] if single else found

    def predict(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """One answer per row, in order."""
        if not rows:
            return []
        answers = answer(self.checkpoint, self.task, rows, self.task_limit, self.device)
        return self.task.predict(rows, answers, self.checkpoint.about.get("decision") or {})

    @property
    def task_limit(self) -> int:
        """How many tokens the task was trained to read."""
        return reading_limit(
            self.checkpoint, self.task, int(self.checkpoint.about.get("limit") or 0)
        )

    @property
    def limit(self) -> int:
        """The most tokens a text may have."""
        return int(self.model.config.positions)

    def save(self, path: str | Path) -> None:
        """Writes the checkpoint in the public layout."""
        checkpoint.write(path, self.checkpoint)

    def generate(
        self,
        text: str | Sequence[str],
        *,
        stop: Sequence[str] = (),
        tell: Callable[[int, str], None] | None = None,
        **how: Any,
    ) -> Any:
        """What the model writes behind a text, as `text` and `ids` (lists for a list of texts).

        `how`: longest, temperature, top_k, top_p, min_p, beams, length_penalty, repetition,
        no_repeat, seed. `stop`: strings that end a text. `tell` hears (number, text so far).
        """
        from tianci.serve.continuing import continue_texts

        if isinstance(text, str):
            return continue_texts(self, [text], stop, tell, how)[0]
        return continue_texts(self, list(text), stop, tell, how)

    @overload
    def fill(self, text: str, top: int = 5) -> Candidates: ...
    @overload
    def fill(self, text: list[str], top: int = 5) -> list[Candidates]: ...
    def fill(self, text: str | list[str], top: int = 5) -> Candidates | list[Candidates]:
        """For each mask in a text the `top` candidates with probabilities."""
        if isinstance(text, str):
            return self.fill([text], top)[0]
        if "causal" in self.heads and "masked" not in self.heads:
            raise UserError(
                "this model reads from left to right, so it cannot fill in a mask; write the "
                "candidates out and compare them with tianci score"
            )
        if "generation" in self.heads:
            raise UserError(
                "a T5 fills in by writing: put <extra_id_0> where something is missing and use "
                "tianci generate"
            )
        if "masked" not in self.heads:
            raise UserError(
                "this model has no masked-language-model head, so it cannot fill in; use the model "
                "that it was fine-tuned from"
            )
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

    @overload
    def score(self, text: str, whole_words: bool = False) -> Scored: ...
    @overload
    def score(self, text: list[str], whole_words: bool = False) -> list[Scored]: ...
    def score(self, text: str | list[str], whole_words: bool = False) -> Scored | list[Scored]:
        """How likely the model finds a text: its pseudo-log-likelihood (Salazar and others, 2020).

        Each token is masked in turn and judged by the log-probability of the right one; `score` is
        the sum, `mean` the mean. With `whole_words` the later pieces of the same word are masked
        too (Kauf and Ivanova, 2023): otherwise a rare long word is easy, because its end gives its
        beginning away. A causal model reads the text once, from left to right: its log-likelihood.
        """
        if isinstance(text, str):
            return next(self.scores([text], whole_words))
        return list(self.scores(text, whole_words))

    def scores(self, texts: Iterable[str], whole_words: bool = False) -> Iterator[Scored]:
        """The same for a stream of texts, in order; what comes again is not computed again."""
        judge = self._judge(whole_words)
        known: dict[str, Scored] = {}
        waiting: list[str] = []
        new: dict[str, Encoded] = {}
        size = 0
        for text in texts:
            waiting.append(text)
            if text not in known and text not in new:
                new[text] = self.tokenizer.encode([text])[0]
                length = min(len(new[text]), self.limit)
                size += length * len(new[text])
            if size >= SCORED_AT_ONCE or len(waiting) >= WAITING:
                yield from _score_all(waiting, new, known, judge)
                waiting, new, size = [], {}, 0
        yield from _score_all(waiting, new, known, judge)

    def _judge(self, whole_words: bool) -> Judge:
        """How this model finds the log-probability of each token that is not special."""
        if "causal" in self.heads and "masked" not in self.heads:
            if whole_words:
                raise UserError("whole words are for masked models; this one reads left to right")
            begin = begin_token(self.tokenizer)
            return lambda rows: log_likelihoods(
                self.checkpoint, [_inner(row) for row in rows], begin, self.limit, self.limit // 2
            )
        if "generation" in self.heads:
            raise UserError(
                "a T5 judges a target by its source, not a text by itself; compare texts with "
                "tianci rank SOURCE TARGET..."
            )
        if "masked" not in self.heads:
            raise UserError(
                "this model has no language-model head, so it cannot score; use the model that it "
                "was fine-tuned from"
            )
        mask = self.tokenizer.mask
        if mask is None:
            raise UserError("this model's vocabulary has no mask token, so it cannot score")
        return lambda rows: self._token_scores(rows, mask, whole_words)

    def _token_scores(
        self, rows: Sequence[Encoded], mask: int, whole_words: bool
    ) -> list[list[float]]:
        """The log-probability of each token that is not special, masked one at a time."""
        results = [[0.0] * (len(row) - sum(row.special)) for row in rows]
        questions: list[_Question] = []
        for number, row in enumerate(rows):
            questions += _questions(row, number, self.limit, whole_words)
        for numbers in by_budget([len(q.ids) for q in questions], BATCH_TOKENS):
            asked = [questions[n] for n in numbers]
            tokens = torch.tensor([i for q in asked for i in q.ids], dtype=torch.int64)
            layout = Layout([len(q.ids) for q in asked])
            starts = layout.starts.tolist()
            hidden = [start + p for start, q in zip(starts, asked, strict=False) for p in q.hidden]
            places = layout.first() + torch.tensor([q.hidden[0] for q in asked])
            answers = tokens[places]
            tokens[torch.tensor(hidden)] = mask
            segments = torch.tensor([i for q in asked for i in q.segments], dtype=torch.int64)
            batch = Batch(tokens, layout, segments).to(self.device)
            with torch.inference_mode():
                states = self.model(batch).last[places.to(self.device)]
                logits = self.heads["masked"](states, self.model.token_table()).float()
                right = logits.gather(1, answers.to(self.device)[:, None]).squeeze(1)
                scores = (right - logits.logsumexp(-1)).tolist()
            for question, score in zip(asked, scores, strict=True):
                results[question.row][question.place] = score
        return results

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
        own = self.heads.get(checkpoint.OWN)
        # a head without outputs was trained to give vectors, whatever it is made of
        trained = own if isinstance(own, PlannedHead) and not own.plan.outputs else None
        kind = pooling or self.defaults.get("pooling", "mean")
        known = self.defaults.get("normalize", trained is not None)
        unit = known if normalize is None else normalize
        limit = self.defaults.get("limit") or (self.task_limit if trained else self.limit)
        encoded = self.tokenizer.ids(texts, limit=min(self.limit, limit))

        def answer(states: Any, batch: Batch) -> Iterator[Tensor]:
            if pooling is None and trained is not None:
                vectors = trained(states.layers, states.layout).float()
            else:
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


class _Question(NamedTuple):
    """A text with one token hidden (and perhaps the rest of its word)."""

    row: int  # which text
    place: int  # which of its tokens
    ids: list[int]
    segments: list[int]
    hidden: list[int]  # places in ids; the first is the one that is asked for


def _questions(row: Encoded, number: int, limit: int, whole_words: bool) -> Iterator[_Question]:
    """One question per token; of a text that is too long, the tokens around the one in question."""
    inner = [i for i, special in enumerate(row.special) if not special]
    if not inner:
        return
    first, last = inner[0], inner[-1] + 1  # the template stands around the text
    room = min(limit - (len(row) - len(inner)), len(inner))
    for place, at in enumerate(inner):
        start = first + min(max(0, place - room // 2), len(inner) - room)
        stop = start + room
        keep = [*range(first), *range(start, stop), *range(last, len(row))]
        end = at + 1
        while whole_words and end < stop and row.words[end] == row.words[at] is not None:
            end += 1
        yield _Question(
            number,
            place,
            [row.ids[i] for i in keep],
            [row.segments[i] for i in keep],
            [i - start + first for i in range(at, end)],
        )


def _inner(row: Encoded) -> list[int]:
    return [i for i, special in zip(row.ids, row.special, strict=True) if not special]


def _score_all(
    texts: list[str], new: dict[str, Encoded], known: dict[str, Scored], judge: Judge
) -> Iterator[Scored]:
    """Scores what is new, then answers for all."""
    if len(known) > REMEMBERED:
        for text in set(known) - set(texts):
            del known[text]
    answers = judge(list(new.values()))
    for (text, row), found in zip(new.items(), answers, strict=True):
        tokens = [t for t, special in zip(row.tokens, row.special, strict=True) if not special]
        total = math.fsum(found)
        known[text] = {
            "score": total,
            "mean": total / len(found) if found else 0.0,
            "tokens": tokens,
            "token_scores": found,
        }
    for text in texts:
        yield dict(known[text])


def _record(value: Any) -> Mapping[str, Any]:
    """A call's input as a record: a text, a pair, or a mapping as it is."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, tuple) and len(value) == 2:
        return {"text": value[0], "pair": value[1]}
    if isinstance(value, Mapping):
        return value
    raise UserError(f"give a text, a pair of texts or a record, not a {type(value).__name__}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
