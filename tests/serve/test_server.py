"""The routes: the same answers as the predictor, in the forms that clients know."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.conftest import LIMIT, Running
from tianci.data.rows import Row, make_row
from tianci.evaluate.tasks import answer_examples
from tianci.serve.mixed import make_pool
from tianci.serve.predictor import load

Start = Callable[..., Running]
TEXT = "今天天气不错"


def test_embed_equals_the_predictor(running: Start, folders: dict[str, Path]) -> None:
    server, model = running("base"), load(folders["base"])
    found = server.post("/embed", {"inputs": [TEXT, "我们"]})
    assert found.status_code == 200
    np.testing.assert_allclose(found.json(), model.embed([TEXT, "我们"], normalize=True), atol=1e-5)
    raw = server.post("/embed", {"inputs": TEXT, "normalize": False}).json()
    np.testing.assert_allclose(raw, [model.embed(TEXT, normalize=False)], atol=1e-5)
    ids = model.tokenizer.ids([TEXT])[0]
    for given in (ids, [ids]):  # ids are read as they are
        said = server.post("/embed", {"inputs": given, "normalize": False}).json()
        np.testing.assert_allclose(said, raw, atol=1e-5)
    cut = np.array(server.post("/embed", {"inputs": TEXT, "dimensions": 3}).json()[0])
    np.testing.assert_allclose(cut, np.array(raw[0][:3]) / np.linalg.norm(raw[0][:3]), atol=1e-5)
    every = np.array(server.post("/embed_all", {"inputs": TEXT}).json()[0])
    assert every.shape == (8, 32)  # six characters, [CLS], [SEP]
    np.testing.assert_allclose(every.mean(0), raw[0], atol=1e-5)


def test_similar_models_give_their_own_vectors(running: Start, folders: dict[str, Path]) -> None:
    server, model = running("similar"), load(folders["similar"])
    found = server.post("/embed", {"inputs": TEXT}).json()
    np.testing.assert_allclose(found[0], model.embed(TEXT), atol=1e-5)
    texts = ["今天天气不错", "我们大"]
    body = {"inputs": {"source_sentence": "今天", "sentences": texts}}
    expected = [model(("今天", text))["score"] for text in texts]
    np.testing.assert_allclose(server.post("/similarity", body).json(), expected, atol=1e-5)
    ranks = server.post("/rerank", {"query": "今天", "texts": texts, "return_text": True}).json()
    assert [one["index"] for one in ranks] == np.argsort([-s for s in expected]).tolist()
    assert ranks[0]["text"] == texts[ranks[0]["index"]]


def test_prompts_stand_before_texts(running: Start) -> None:
    server = running("similar")
    post = lambda path, body: server.post(path, body)  # noqa: E731
    refused = post("/embed", {"inputs": "天气", "prompt_name": "query"})
    assert refused.status_code == 422 and "has no prompts" in refused.json()["error"]
    server.service.models.served[0].predictor.defaults["prompts"] = {"query": "今天"}
    named = post("/embed", {"inputs": ["天气", [5, 6]], "prompt_name": "query"}).json()
    assert named == post("/embed", {"inputs": ["今天天气", [5, 6]]}).json()  # ids stay as they are
    inputs = {"source_sentence": "天气", "sentences": ["圆周"]}
    written = {"source_sentence": "今天天气", "sentences": ["今天圆周"]}
    behind = post("/similarity", {"inputs": inputs, "parameters": {"prompt_name": "query"}}).json()
    assert behind == post("/similarity", {"inputs": written}).json()
    assert behind != post("/similarity", {"inputs": inputs}).json()
    unknown = post("/embed_all", {"inputs": "天", "prompt_name": "other"})
    assert unknown.status_code == 422 and "known: query" in unknown.json()["error"]


def test_predict_in_teis_form(running: Start, folders: dict[str, Path]) -> None:
    server, model = running("classify"), load(folders["classify"])
    expected = model(TEXT)["scores"]
    single = server.post("/predict", {"inputs": TEXT}).json()
    assert [one["label"] for one in single] == sorted(expected, key=lambda k: -expected[k])
    for one in single:
        assert one["score"] == pytest.approx(expected[one["label"]], abs=1e-5)
    batch = server.post("/predict", {"inputs": [[TEXT], ["我们", "大"]]}).json()
    assert len(batch) == 2 and batch[0][0]["score"] == pytest.approx(single[0]["score"], abs=1e-5)
    pair = server.post("/predict", {"inputs": ["我们", "大"]}).json()  # one pair, not two texts
    assert pair[0]["label"] == batch[1][0]["label"]
    raw = server.post("/predict", {"inputs": TEXT, "raw_scores": True}).json()
    logits = {one["label"]: one["score"] for one in raw}
    # the temperature of the fixture is 2, so the difference of the logits is twice that of the logs
    gap = 2 * (np.log(expected["+"]) - np.log(expected["-"]))
    assert logits["+"] - logits["-"] == pytest.approx(gap, abs=1e-4)
    for wrong in ([["a", "b", "c"]], ["a", ["b"]], [[]]):
        assert server.post("/predict", {"inputs": wrong}).status_code == 422


def test_predict_without_a_name_asks_the_model_that_fits(running: Start) -> None:
    """Pairs go to the first model for pairs, single texts to the first one that is not."""
    server, pair = running("classify", "pair"), {"other", "same"}

    def labels(inputs: Any, **more: Any) -> set[str]:
        found = server.post("/predict", {"inputs": inputs, **more}).json()
        return {one["label"] for one in (found[0] if isinstance(found[0], list) else found)}

    assert labels(TEXT) == labels([[TEXT]]) == labels([[TEXT], [TEXT, TEXT]]) == {"-", "+"}
    assert labels([TEXT, TEXT]) == labels([[TEXT, TEXT]]) == pair
    assert labels([TEXT, TEXT], model="classify") == {"-", "+"}
    server = running("pair", "classify")
    assert labels(TEXT) == {"-", "+"} and labels([TEXT, TEXT]) == pair
    server = running("pair")
    assert server.post("/predict", {"inputs": TEXT}).status_code == 422  # nobody else is there


@pytest.mark.parametrize("kind", ["pair", "regress"])
def test_rerank_by_pairs(running: Start, folders: dict[str, Path], kind: str) -> None:
    server, model = running(kind), load(folders[kind])
    texts = ["我们", "天气", "今天天气"]
    said = [model(("今天", text)) for text in texts]
    scores = [one["scores"]["same"] if kind == "pair" else one["score"] for one in said]
    ranks = server.post("/rerank", {"query": "今天", "texts": texts}).json()
    assert [one["index"] for one in ranks] == np.argsort([-s for s in scores]).tolist()
    assert [one["score"] for one in ranks] == pytest.approx(sorted(scores, reverse=True), abs=1e-5)
    assert "text" not in ranks[0]


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("tag", TEXT),
        ("answer", {"question": "天气", "context": "今天天气不错，我们有伞" * 9}),
        ("choose", {"context": "今天", "choices": ["天气", "我们", "大"]}),
    ],
)
def test_own_tasks_equal_the_predictor(
    running: Start, folders: dict[str, Path], kind: str, record: Any
) -> None:
    server, model = running(kind), load(folders[kind])
    expected = model(record)
    single = server.post(f"/{kind}", {"inputs": record})
    assert single.status_code == 200, single.text
    assert single.json().keys() == expected.keys()
    both = server.post(f"/{kind}", {"inputs": [record, record]}).json()
    assert len(both) == 2
    for found in (single.json(), *both):
        close(found, json.loads(json.dumps(expected)))


def close(one: Any, other: Any) -> None:
    """Equal, numbers up to 1e-5."""
    if isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-5)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            close(a, b)
    else:
        assert one == other


def test_words_can_be_tagged(running: Start) -> None:
    found = running("tag").post("/tag", {"inputs": {"words": ["今天", "天气"]}}).json()
    assert found["words"] == ["今天", "天气"] and len(found["tags"]) == 2


def test_fill_and_score_equal_the_predictor(running: Start, folders: dict[str, Path]) -> None:
    server, model = running("base"), load(folders["base"])
    found = server.post("/fill", {"inputs": "今天[MASK]气", "top": 3}).json()
    close(found, model.fill("今天[MASK]气", 3))
    two = server.post("/fill", {"inputs": ["[MASK]天", "我[MASK]"]}).json()
    assert [len(one[0]) for one in two] == [5, 5]
    close(server.post("/score", {"inputs": [TEXT]}).json()[0], model.score(TEXT))
    missing = server.post("/fill", {"inputs": "今天"})
    assert missing.status_code == 422 and missing.json()["error_type"] == "Tokenizer"
    assert "no [MASK]" in missing.json()["error"]
    causal, decoder = running("gpt2"), load(folders["gpt2"])
    close(causal.post("/score", {"inputs": TEXT}).json(), decoder.score(TEXT))


def test_tokenize_and_info(running: Start) -> None:
    server = running("base", "classify")
    (tokens,) = server.post("/tokenize", {"inputs": "今 dogs"}).json()
    assert [t["text"] for t in tokens] == ["[CLS]", "今", "dog", "s", "[SEP]"]
    assert tokens[3] == {
        "id": tokens[3]["id"], "text": "s", "special": False, "start": 5, "stop": 6, "token": "##s"
    }  # fmt: skip
    assert tokens[0]["special"] and tokens[0]["start"] is None
    bare = server.post("/tokenize", {"inputs": ["今"], "add_special_tokens": False}).json()
    assert len(bare[0]) == 1
    info = server.client.get("/info").json()
    assert info["model_id"] == "base" and info["max_input_length"] == LIMIT
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert info["models"][1]["abilities"] == [
        "embed", "similarity", "tokenize", "predict", "attribute", "attention"
    ]  # fmt: skip
    assert info["models"][1]["labels"] == ["-", "+"] and info["models"][1]["threshold"] == 0.4


def test_openai_form(running: Start, folders: dict[str, Path]) -> None:
    server, model = running("base"), load(folders["base"])
    expected = model.embed([TEXT, "我们"], normalize=True)
    found = server.post("/v1/embeddings", {"input": [TEXT, "我们"], "model": "base"}).json()
    assert found["object"] == "list" and [one["index"] for one in found["data"]] == [0, 1]
    np.testing.assert_allclose([one["embedding"] for one in found["data"]], expected, atol=1e-5)
    assert found["usage"] == {"prompt_tokens": 12, "total_tokens": 12}  # 6 + 2 and 2 + 2
    packed = server.post("/v1/embeddings", {"input": TEXT, "encoding_format": "base64"}).json()
    vector = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(vector, expected[0], atol=1e-5)
    assert [one["id"] for one in server.client.get("/v1/models").json()["data"]] == ["base"]
    assert server.client.get("/v1/models/base").json()["object"] == "model"
    wrong = server.post("/v1/embeddings", {"input": TEXT, "model": "other"})
    assert wrong.status_code == 404
    assert wrong.json()["error"]["type"] == "not_found_error"
    assert server.post("/v1/embeddings", {"model": "base"}).json()["error"]["type"] == (
        "invalid_request_error"
    )


def test_the_model_field_and_its_default(running: Start) -> None:
    server = running("base", "tag", "pair")
    assert server.post("/tag", {"inputs": TEXT}).status_code == 200  # the first that can
    refused = server.post("/tag", {"inputs": TEXT, "model": "base"})
    assert refused.status_code == 424 and refused.json()["error_type"] == "Backend"
    assert "this model cannot tag" in refused.json()["error"]
    nobody = server.post("/answer", {"inputs": {"question": "a", "context": "b"}})
    assert nobody.status_code == 424 and "none of the models" in nobody.json()["error"]
    assert server.post("/tag", {"inputs": TEXT, "model": "x"}).status_code == 404


@pytest.mark.parametrize("kind", ["generate", "gpt2"])
def test_generate_streams_what_it_returns(
    running: Start, folders: dict[str, Path], kind: str
) -> None:
    server = running(kind)
    body = {"inputs": "今天天气", "max_new_tokens": 6}
    whole = server.post("/generate", body)
    assert whole.status_code == 200, whole.text
    assert 1 <= len(whole.json()["ids"]) <= 6
    if kind == "generate":
        assert whole.json() == load(folders[kind])({"source": "今天天气"})
    stream = server.post("/generate", {**body, "stream": True})
    assert stream.headers["content-type"].startswith("text/event-stream")
    *steps, last = stream.text.strip().split("\n\n")
    event, data = last.split("\n")
    assert event == "event: done" and json.loads(data.removeprefix("data: ")) == whole.json()
    ids = [json.loads(one.removeprefix("data: "))["id"] for one in steps]
    assert ids == whole.json()["ids"]  # each token has its event, also the last one
    drawn = {**body, "temperature": 1.5, "seed": 3}
    assert server.post("/generate", drawn).json() == server.post("/generate", drawn).json()
    beams = server.post("/generate", {**body, "beams": 3})
    assert beams.status_code == 200
    wrong = server.post("/generate", {**body, "beams": 2, "temperature": 1.0})
    assert wrong.status_code == 422 and "give one" in wrong.json()["error"]
    long = server.post("/generate", {"inputs": "天" * LIMIT, "max_new_tokens": 6})
    assert long.status_code == 413


def test_a_decoder_continues_greedily(running: Start, folders: dict[str, Path]) -> None:
    """Each token is the likeliest one when the whole text is read again."""
    import torch

    from tianci.batch import Batch

    model = load(folders["gpt2"])
    found = running("gpt2").post("/generate", {"inputs": "今天", "max_new_tokens": 5}).json()
    tokenizer = model.tokenizer
    assert tokenizer.cls is not None and tokenizer.sep is not None
    ids = [tokenizer.cls, *tokenizer.ids(["今天"], special=False)[0]]
    barred = sorted(tokenizer.special_ids - {tokenizer.sep})
    for token in found["ids"]:
        with torch.inference_mode():
            last = model.model(Batch.of([ids])).last[-1:]
            logits = model.heads["causal"](last, model.model.token_table())[0]
        logits = logits.clone()
        logits[barred] = -torch.inf
        assert int(logits.argmax()) == token
        ids.append(token)


def test_adapters_share_their_base_and_their_batches(
    running: Start, folders: dict[str, Path]
) -> None:
    server = running("base", "first", "second", "classify")
    _, first, second, alone = server.service.models.served
    tables = {one.predictor.model.token_table().data_ptr() for one in (first, second)}
    assert len(tables) == 1
    assert first.pool is second.pool is not None and alone.pool is None
    expected = {name: load(folders[name]) for name in ("first", "second")}
    for name, model in expected.items():
        found = server.post("/predict", {"inputs": TEXT, "model": name}).json()
        assert {o["label"]: o["score"] for o in found} == pytest.approx(
            model(TEXT)["scores"], abs=1e-5
        )
    # one batch of both, in any order, says what each says alone
    texts = [TEXT, "我", "我们大", "天气" * 9, "今天", "你"]
    items, right = [], []
    for n, text in enumerate(texts):
        one = (first, second)[n % 2]
        task = one.predictor.task
        row = make_row({"text": text}, task.columns(), 1)
        assert isinstance(row, Row)
        (example,) = task.examples([row], one.predictor.tokenizer, LIMIT, labelled=False)
        items.append((one.member, example))
        right.append(answer_examples(one.predictor.checkpoint, task, [example])[0])
    np.testing.assert_allclose(first.pool.run(items, lambda: None), right, atol=1e-5)
    assert np.abs(np.array(right[0]) - right[1]).max() > 1e-2  # they do differ


def test_adapters_that_cannot_be_mixed_run_for_themselves(folders: dict[str, Path]) -> None:
    first, second = load(folders["first"]), load(folders["second"])
    second.model.keep_layers(1)
    assert make_pool([first, second]) is None and make_pool([first]) is None


def test_openapi_and_docs(running: Start) -> None:
    server = running("base")
    document = server.client.get("/openapi.json").json()
    assert "/embed" in document["paths"] and "/v1/embeddings" in document["paths"]
    asked = document["paths"]["/embed"]["post"]["requestBody"]["content"]["application/json"]
    assert asked["schema"]["$ref"].endswith("/EmbedRequest")
    assert document["components"]["schemas"]["EmbedRequest"]["required"] == ["inputs"]
    page = server.client.get("http://127.0.0.1:8765/docs")
    assert "<pre>curl 127.0.0.1:8765/info</pre>" in page.text and ":8000" not in page.text
    assert "{question: string, context: string}" in page.text and "`" not in page.text
    assert "<p>Answer: <code>[{score: number, label: string}]" in page.text
    assert "POST /rerank" in page.text and "<script" not in page.text
    assert "http" not in page.text.replace("http-equiv", "")  # nothing from elsewhere
    assert server.client.get("/docs.css").headers["content-type"].startswith("text/css")
    for path in ("/health", "/ready"):
        assert server.client.get(path).status_code == 200
    metrics = server.client.get("/metrics").text
    assert 'tianci_requests_total{method="GET",route="/docs",status="200"} 1.0' in metrics
