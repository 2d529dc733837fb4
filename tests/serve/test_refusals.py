"""What a family cannot do is said in one sentence with a way out, and the exit code is 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.goals import tiny
from tianci import checkpoint
from tianci.cli import main
from tianci.models import family
from tianci.text.tokenizer import Tokenizer

SIZES = {"width": 16, "layers": 1, "heads": 2, "hidden": 16, "positions": 24}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bert, gpt2, t5, and a gpt2 without a token to begin with."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = tiny.tokenizer()
    marks = {"begin": tokenizer.cls, "end": tokenizer.sep}
    own = {
        "bert": ("masked", {}),
        "gpt2": ("causal", marks),
        "t5": ("generation", {"decoder_layers": 1, "head_size": 8, **marks}),
    }
    for kind, (head, more) in own.items():
        config = family(kind).Config(vocabulary=len(tokenizer), **{**SIZES, **more})
        model = checkpoint.create(kind, config, (head,))
        model.tokenizer = tokenizer
        checkpoint.write(folder / kind, model)
    engine = tiny.tokenizer(["[UNK]", "<|endoftext|>", *tiny.CHINESE]).engine
    bare = Tokenizer(engine, config={"eos_token": "<|endoftext|>", "bos_token": "none"})
    config = family("gpt2").Config(vocabulary=len(bare), begin=None, end=1, **SIZES)
    model = checkpoint.create("gpt2", config, ("causal",))
    model.tokenizer = bare
    checkpoint.write(folder / "bare", model)
    (folder / "text.txt").write_text("我们的天气不错。\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "generate gpt2 我们的天气不错我们的天气不错 --max-new-tokens 20",
            "smaller --max-new-tokens",
        ),
        (
            "generate t5 我们的天气不错我们的天气不错我们的天气不错我们的天气不错",
            "shorten the text",
        ),
        ("generate bare EMPTY", "the text is empty, and this model has no token to begin with"),
        ("generate t5 EMPTY", "the text is empty; this model writes the target of a source"),
        ("generate gpt2 天 --temperature -1", "temperature and top_k must not be negative"),
        ("generate gpt2 天 --top-p 1.5", "top_p must be above 0, at most 1"),
        ("generate gpt2 天 --min-p 2", "min_p must be at least 0 and below 1"),
        ("generate gpt2 天 --beams 0", "beams must be at least 1, not 0"),
        ("generate gpt2 天 --repetition-penalty 0", "repetition above 0"),
        ("generate gpt2 天 --no-repeat -1", "no_repeat not negative"),
        ("generate gpt2 天 --beams 2 --temperature 1", "give one"),
        ("generate bert 天", "this model does not write texts; take a decoder"),
        ("fill gpt2 我们[MASK]天", "cannot fill in a mask; write the candidates out"),
        ("fill t5 我们[MASK]天", "put <extra_id_0> where something is missing"),
        ("score t5 我们", "tianci rank SOURCE TARGET"),
        ("evaluate bert TEXT --objective causal --length 16", "tianci score gives its pseudo"),
        ("evaluate t5 TEXT --objective causal --length 16", "without a causal head"),
    ],
)
def test_one_sentence_with_a_way_out(line: str, said: str, models: Path, capsys) -> None:
    places = {"EMPTY": "", "TEXT": str(models / "text.txt")}
    command, model, *rest = line.split()
    words = [command, str(models / model), *(places.get(word, word) for word in rest)]
    with pytest.raises(SystemExit) as stop:
        main(words)
    message = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and said in message and "\n" not in message
