"""Speed of writing beside transformers' generate: GPT-2's size, greedy, one prompt and eight.

    python benchmarks/generate.py [--rounds 7] [--seconds 10] [--threads 2]

Both get the same random weights (a token costs the same whatever it is), prompts of 32 tokens and
write 64 new ones; neither may end earlier. "Real tokens" are the new ones.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from arena import battle, machine, read_options

PROMPT, NEW = 32, 64


def ours(folder: str, batch: int, ragged: bool) -> tuple[Callable[[], object], int]:
    """What `tianci generate` does behind its tokenizer."""
    import numpy as np
    import torch

    from tianci import checkpoint
    from tianci.batch import Batch
    from tianci.goals import decoding
    from tianci.goals.decoding import Decoding
    from tianci.goals.writing import Allowed, next_scores
    from tianci.nn.inputs_first import lay_inputs_first

    saved = checkpoint.read(folder)
    model, head = saved.model.eval(), saved.heads["causal"]
    lay_inputs_first(model)
    rows = prompts(batch, ragged)
    order = sorted(range(batch), key=lambda n: -len(rows[n]))
    place = np.argsort(order).tolist()
    how, end = Decoding(longest=NEW), model.config.vocabulary - 1
    # the end is barred like the special tokens, so that all texts get as long as they may
    allowed = Allowed(end, (end,), model.config.vocabulary)

    @torch.inference_mode()
    def call() -> object:
        packed = Batch.of([rows[n] for n in order])
        scores = next_scores(model, head, packed, place, allowed, how, before=rows)
        found = decoding.write(scores, list(range(batch)), end, how)
        assert all(len(one.ids) == NEW for one in found)
        return found

    return call, batch * NEW


def transformers(folder: str, batch: int, ragged: bool) -> tuple[Callable[[], object], int]:
    """Their generate, with its own cache; prompts of different length are padded on the left."""
    import torch
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    rows = prompts(batch, ragged)
    longest, end = max(map(len, rows)), model.config.vocab_size - 1
    tokens = torch.tensor([[end] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])

    @torch.inference_mode()
    def call() -> object:
        found = model.generate(
            tokens, attention_mask=mask, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW,
            pad_token_id=end, eos_token_id=end,
        )  # fmt: skip
        assert found.shape == (batch, longest + NEW)
        return found

    return call, batch * NEW


def prompts(batch: int, ragged: bool) -> list[list[int]]:
    import numpy as np

    rng = np.random.default_rng(0)
    sizes = rng.integers(PROMPT // 4, PROMPT + 1, batch) if ragged else [PROMPT] * batch
    return [rng.integers(0, 50000, int(size)).tolist() for size in sizes]


def write_model(folder: Path, size: str) -> None:
    import torch

    from tianci import checkpoint
    from tianci.models import gpt2

    torch.manual_seed(0)
    checkpoint.write(folder, checkpoint.create("gpt2", gpt2.PRESETS[size], ("causal",)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", default="base", help="preset of gpt2: base is its small, 124 M")
    given = read_options(parser, rounds=2, seconds=2.0, size="tiny")
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        write_model(Path(place, "gpt2"), given.size)
        for batch, ragged in ((1, False), (8, False), (8, True)):
            settings = {"folder": str(Path(place, "gpt2")), "batch": batch, "ragged": ragged}
            kind = "prompts of 8 to 32 tokens" if ragged else "prompts of 32 tokens"
            battle(
                f"gpt2-{given.size}, batch {batch}, {kind}, {NEW} new tokens, greedy",
                [
                    ("transformers", "generate:transformers", settings),
                    ("tianci", "generate:ours", settings),
                ],
                given.rounds,
                given.seconds,
            )


if __name__ == "__main__":
    main()
