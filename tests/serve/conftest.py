"""Tiny models of every kind, written once, and a server around them."""

from __future__ import annotations

import io
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.goals import tiny
from tests.parity.family import loud
from tests.serve.browser import chromium, opened  # noqa: F401  (fixtures)
from tianci import adapters, checkpoint, files
from tianci.checkpoint import OWN, Checkpoint
from tianci.goals.tasks import make_task
from tianci.models import bert, gpt2
from tianci.nn import adapter
from tianci.nn.task_heads import HeadPlan

LIMIT = 48  # tokens that the tiny models read
KINDS: dict[str, dict[str, Any]] = {
    "classify": {"labels": ["-", "+"]},
    "pair": {"labels": ["other", "same"]},
    "regress": {"low": 0.0, "high": 5.0},
    "tag": {"labels": ["O", "B-PER", "I-PER"], "unit": "character", "decoding": "valid"},
    "answer": {"longest": 5},
    "choose": {},
    "similar": {},
    "generate": {"longest": 6},
}


def encoder(heads: tuple[str, ...] = ()) -> Checkpoint:
    tokenizer = tiny.tokenizer()
    config = bert.Config(
        vocabulary=len(tokenizer), width=32, layers=2, heads=2, hidden=64, positions=LIMIT
    )
    made = checkpoint.create("bert", config, heads)
    made.tokenizer = tokenizer
    loud(made.model, 1)
    return made


def fine_tuned(kind: str, settings: dict[str, Any]) -> Checkpoint:
    """A model with loud random weights that says it was fine-tuned for a task."""
    model, task = encoder(), make_task(kind, settings)
    config = model.model.config
    if kind == "similar":
        name, head = OWN, checkpoint.planned_head(config, HeadPlan(outputs=0, pooling="mean"))
    elif kind == "generate":
        name, head = "masked", checkpoint.fresh_head("bert", config, "masked")
    else:
        name = task.head_kind
        head = checkpoint.fresh_task_head("bert", config, name, task.outputs)
    loud(head, 2)
    model.heads = {name: head}
    model.about = {"task": task.as_table(), "limit": LIMIT}
    if kind in ("classify", "pair"):
        model.about["decision"] = {"temperature": 2.0, "threshold": 0.4}
    if task.labels:
        model.name_labels(task.labels)
    return model


def write_adapter(folder: Path, base: Path, seed: int, size: int) -> None:
    """An adapter directory: bottlenecks, norms and a head that learned."""
    model = checkpoint.read(base)
    task = make_task("classify", {"labels": ["a", "b", "c"]})
    head = checkpoint.fresh_task_head("bert", model.model.config, "sequence", 3)
    loud(head, seed)
    model.heads = {"sequence": head}
    adapter.insert(model.model, model.model.config.width, size)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.model.named_parameters():
        learns = adapter.is_adapter(name) or ".norm." in name
        parameter.requires_grad_(learns)
        if learns:
            parameter.data += torch.randn(parameter.shape, generator=generator) * 0.3
    model.about = {"task": task.as_table(), "limit": LIMIT}
    model.name_labels(task.labels)
    adapters.write(folder, model, base)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A directory of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync", lambda path: None)  # nobody needs them after a power cut
        return _write_all(tmp_path_factory.mktemp("served"))


def _write_all(root: Path) -> dict[str, Path]:
    torch.manual_seed(0)
    base = encoder(("masked", "next_sentence"))
    for head in base.heads.values():
        loud(head, 3)
    checkpoint.write(root / "base", base)
    for kind, settings in KINDS.items():
        checkpoint.write(root / kind, fine_tuned(kind, settings))
    vocabulary = tiny.tokenizer()
    config = gpt2.Config(
        vocabulary=len(vocabulary), width=32, layers=2, heads=2, hidden=64, positions=LIMIT,
        begin=vocabulary.cls, end=vocabulary.sep,
    )  # fmt: skip
    decoder = checkpoint.create("gpt2", config, ("causal",))
    decoder.tokenizer = vocabulary
    loud(decoder.model, 4)
    checkpoint.write(root / "gpt2", decoder)
    write_adapter(root / "first", root / "base", 5, 4)
    write_adapter(root / "second", root / "base", 6, 8)
    names = ["base", *KINDS, "gpt2", "first", "second"]
    return {name: root / name for name in names}


class Running:
    """An application with its client and its log."""

    def __init__(self, client: Any, service: Any, written: io.StringIO):
        self.client, self.service, self.written = client, service, written

    def post(self, path: str, body: Any, **more: Any) -> Any:
        return self.client.post(path, json=body, **more)


@pytest.fixture
def running(folders: dict[str, Path]) -> Iterator[Callable[..., Running]]:
    """Starts applications around some of the models, and ends them after the test."""
    pytest.importorskip("starlette")
    from starlette.testclient import TestClient

    from tianci.serve.limits import Limits
    from tianci.serve.log import AccessLog
    from tianci.serve.models import read_models
    from tianci.serve.server import make_app
    from tianci.serve.service import Service

    open_clients = []

    def start(*names: str, limits: dict[str, Any] | None = None, key: str | None = None) -> Running:
        written = io.StringIO()
        models = read_models([str(folders[name]) for name in names], "cpu")
        service = Service(lambda: models, Limits(**(limits or {})), key, log=AccessLog(written))
        client = TestClient(make_app(service), base_url="http://localhost")
        client.__enter__()
        open_clients.append(client)
        while service.models is None:
            pass
        return Running(client, service, written)

    yield start
    for client in open_clients:
        client.__exit__(None, None, None)


class Live:
    """A server in a thread of this process."""

    def __init__(self, service: Any):
        from tianci.serve.process import Server, config_of
        from tianci.serve.run import bind
        from tianci.serve.server import make_app

        self.service = service
        self.server = Server(config_of(make_app(self.service)), self.service)
        at = bind("127.0.0.1", 0)
        self.port = at.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [at]})
        self.thread.start()
        wait(lambda: self.service.ready and self.server.started)

    def end(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)
        self.thread.join(20)
        assert not self.thread.is_alive()


def wait(done: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.005)


@pytest.fixture
def live(folders: dict[str, Path]) -> Iterator[Callable[..., Live]]:
    pytest.importorskip("uvicorn")
    from tianci.serve.limits import Limits
    from tianci.serve.log import Silence
    from tianci.serve.models import read_models
    from tianci.serve.service import Service

    started: list[Live] = []

    def start(*names: str, **limits: Any) -> Live:
        models = read_models([str(folders[name]) for name in names], "cpu")
        started.append(Live(Service(lambda: models, Limits(**limits), log=Silence())))
        return started[-1]

    yield start
    for one in started:
        if one.thread.is_alive():
            one.end()


def mark_more(models: Any) -> None:
    """Makes the random tag model find something."""
    head: Any = models.find(None, "tag").predictor.heads["token"]
    head.linear.bias.data += torch.tensor([-9.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def page_models(folders: dict[str, Path]) -> Any:
    """One of each kind, for the page."""
    pytest.importorskip("uvicorn")
    from tianci.serve.models import read_models

    names = ["base", *KINDS, "gpt2"]
    found = read_models([str(folders[name]) for name in names], "cpu")
    mark_more(found)
    return found


@pytest.fixture(scope="module")
def page_server(page_models: Any) -> Iterator[Live]:
    from tianci.serve.limits import Limits
    from tianci.serve.log import Silence
    from tianci.serve.service import Service

    started = Live(Service(lambda: page_models, Limits(), log=Silence()))
    yield started
    started.end()
