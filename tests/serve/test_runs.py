"""Training runs by HTTP: found below a directory, read in increments, streamed without a gap."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from starlette.testclient import TestClient  # noqa: E402

from tests.serve.conftest import wait  # noqa: E402
from tests.serve.run_server import RunServer, make_service  # noqa: E402
from tianci.cli import main  # noqa: E402
from tianci.serve import run_routes, runs  # noqa: E402
from tianci.serve.refusal import Refusal  # noqa: E402
from tianci.serve.run_digest import Best, Digest  # noqa: E402
from tianci.serve.run_log import START, clean, parse_cursor, plain, read_after  # noqa: E402
from tianci.serve.runs import Runs  # noqa: E402
from tianci.serve.server import make_app  # noqa: E402
from tianci.train.journal import Journal  # noqa: E402

LONG_AGO = 1_000_000_000


def step(number: int, loss: float = 2.0) -> dict[str, Any]:
    # the clock reading is what makes lines of two sittings differ
    return {"event": "step", "step": number, "loss": loss, "parts": {"masked": loss},
            "seconds": time.perf_counter()}  # fmt: skip


def write(path: Path, *entries: dict[str, Any], tail: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries) + tail)


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A pre-training run, and a fine-tuning run with a trial."""
    found = tmp_path / "runs"
    write(
        found / "mini" / "log.jsonl",
        {"event": "start", "step": 0, "lr": 0.001, "unigram_entropy": 6.5},
        step(1, 9.0),
        {"event": "held", "step": 1, "held": {"masked": {"loss": 8.0, "accuracy": 0.1}}},
        step(2, 7.0),
        {"event": "held", "step": 2, "held": {"masked": {"loss": 6.0, "accuracy": 0.2}}},
        step(3, 5.5),
    )
    (found / "mini" / "run.json").write_text('{"seed": 3, "settings": {"train": {"length": 64}}}')
    tuned = found / "hotel"
    trial = tuned / "trials" / "lr-1" / "log.jsonl"
    write(
        trial,
        {"event": "start", "step": 0, "lr": 0.5, "metric": "f1"},
        {"event": "dev", "step": 4, "scores": {"accuracy": 0.9, "f1": 0.5}},
        {"event": "dev", "step": 8, "scores": {"accuracy": 0.8, "f1": 0.7}},
        {"event": "end", "step": 8},
    )
    (tuned / "run.json").write_text('{"task": "classify", "settings": {"epochs": 2}}')
    (tuned / "scores.json").write_text(json.dumps(RECORD))
    for path in found.rglob("*.json*"):
        if "hotel" in path.parts:
            os.utime(path, (LONG_AGO, LONG_AGO))
    return found


RECORD = {
    "task": "classify", "metric": "f1", "labels": ["no", "<b>yes</b>"], "model": "mini",
    "decision": {"threshold": 0.5}, "trials": [{"lr": 0.5, "seed": 0, "score": 0.75, "steps": 8}],
    "dev": {"scores": {"f1": 0.75}, "intervals": {"f1": [0.5, 1.0]}, "details": {
        "dev_probabilities": [0.9, 0.6, 0.4, 0.2], "dev_gold": [1, 0, 1, 0],
        "confusion": [[1, 1], [1, 1]],
        "errors": [{"text": "<script>bad()</script> \ud800", "label": "no", "predicted": "yes"}],
    }},
}  # fmt: skip


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(make_app(make_service(root)), base_url="http://localhost") as found:
        wait(lambda: found.get("/ready").status_code == 200)
        yield found


def by_name(client: TestClient) -> dict[str, Any]:
    return {one["name"]: one for one in client.get("/runs").json()["runs"]}


# ---------------------------------------------------------------- logs behind a cursor


def steps_of(lines: list[tuple[bytes, Any]]) -> list[int]:
    return [json.loads(line)["step"] for line, _ in lines]


def test_a_log_is_read_in_increments(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write(log, step(1), step(2), tail='{"event": "step", "st')
    first = read_after(log)
    assert steps_of(first.lines) == [1, 2] and not first.reset and not first.more
    assert read_after(log, first.cursor).lines == []  # half a line waits
    append(log, 'ep": 3}\n')
    second = read_after(log, first.cursor)
    assert steps_of(second.lines) == [3] and not second.reset
    behind_one = parse_cursor(str(first.lines[0][1]))
    assert behind_one is not None
    assert steps_of(read_after(log, behind_one).lines) == [2, 3]


def test_a_log_is_read_in_parts(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write(log, *(step(n) for n in range(200)))
    cursor, more, seen = START, True, []
    while more:
        part = read_after(log, cursor, most=1000)
        cursor, more = part.cursor, part.more
        seen += steps_of(part.lines)
        assert not part.reset
    assert seen == list(range(200)) and cursor.offset == log.stat().st_size


def test_a_resume_cuts_the_log_back(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write(log, *(step(n) for n in range(1, 41)), tail='{"half')
    seen = read_after(log)
    at_thirty = seen.lines[29][1]
    Journal(log, 30).close()  # as a resumed run does
    assert read_after(log, seen.cursor).reset
    kept = read_after(log, at_thirty)  # who had read no further has missed nothing
    assert not kept.reset and kept.lines == []
    # grown beyond the old end: still not what was there
    append(log, "".join(json.dumps(step(n)) + "\n" for n in range(31, 60)))
    again = read_after(log, seen.cursor)
    assert again.reset and steps_of(again.lines) == list(range(1, 60))


def test_lines_that_are_no_entries(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"x" * 5000 + b'\n{"a": NaN}\r\n[1]\n\n{"b": "\\ud800\\n", "c": 1e999}\n')
    cursor, found, more = START, [], True
    while more:
        part = read_after(log, cursor, most=1000)  # shorter than the first line
        found += [entry for line, _ in part.lines if (entry := clean(line))]
        cursor, more = part.cursor, part.more
    assert found == [b'{"a":null}', b'{"b":"?\\n","c":null}']
    assert clean(b"[" * 100_000) is None and clean(b'{"a":' + b"9" * 5000 + b"}") is None
    assert plain({"a": [float("nan"), (1, True)]}) == {"a": [None, [1, True]]}


@pytest.mark.parametrize(
    "text", ["", "1", "1-2", "-1-00000000", "1-zzzzzzzz", "9" * 20, "1-00000000x"]
)
def test_no_cursor(text: str) -> None:
    assert parse_cursor(text) is None


def test_pipes_and_links_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"step": 1}\n')
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")  # opening it for reading would wait for ever
    for name in ("link", "pipe", "missing"):
        with pytest.raises(OSError):
            read_after(tmp_path / name)


def test_a_digest_reads_on(tmp_path: Path) -> None:
    log, digest = tmp_path / "log.jsonl", Digest()
    digest.update(log)  # nothing there yet
    write(log, {"event": "start", "step": 0, "metric": "f1"}, step(1, 3.0), step(2, 2.5))
    digest.update(log)
    assert (digest.steps, digest.loss, digest.ended, digest.best()) == (2, 2.5, False, None)
    append(log, json.dumps({"event": "dev", "step": 2, "scores": {"a": 0.9, "f1": 0.4}}) + "\n")
    append(log, json.dumps({"event": "dev", "step": 4, "scores": {"a": 0.8, "f1": 0.3}}) + "\n")
    append(log, json.dumps({"event": "end", "step": 4}) + "\n")
    digest.update(log)
    assert digest.ended and digest.steps == 4 and digest.best() == Best("f1", 0.4, 2, True)
    Journal(log, 1).close()
    digest.update(log)
    assert (digest.steps, digest.loss, digest.ended, digest.best()) == (1, 3.0, False, None)


# ---------------------------------------------------------------- which runs there are


def test_the_list(client: TestClient) -> None:
    found = by_name(client)
    assert set(found) == {"mini", "hotel", "hotel/trials/lr-1"}
    mini, hotel, trial = found["mini"], found["hotel"], found["hotel/trials/lr-1"]
    assert (mini["kind"], mini["state"], mini["steps"], mini["loss"]) == (
        "pretrain",
        "running",
        3,
        5.5,
    )
    assert mini["best"] == {"name": "masked loss", "value": 6.0, "step": 2, "higher": False}
    assert (trial["kind"], trial["state"], trial["parent"]) == ("trial", "finished", hotel["id"])
    assert trial["best"] == {"name": "f1", "value": 0.7, "step": 8, "higher": True}
    assert (hotel["kind"], hotel["state"], hotel["steps"]) == ("finetune", "finished", 8)
    assert hotel["best"]["value"] == 0.75 and hotel["report"] and not hotel["log"]


def test_a_silent_run_counts_as_stopped(client: TestClient, root: Path) -> None:
    for name in ("log.jsonl", "run.json"):
        os.utime(root / "mini" / name, (LONG_AGO, LONG_AGO))
    assert by_name(client)["mini"]["state"] == "stopped"


def test_one_run(client: TestClient) -> None:
    found = by_name(client)
    mini = client.get(f"/runs/{found['mini']['id']}").json()
    assert mini["settings"] == {"seed": 3, "train.length": 64, "taken.lr": 0.001}
    assert [one["event"] for one in mini["events"]] == ["start", "held", "held"]
    hotel = client.get(f"/runs/{found['hotel']['id']}").json()
    assert hotel["scores"] == {"dev": {"f1": 0.75}}
    assert hotel["trials"] == [found["hotel/trials/lr-1"]["id"]]
    trial = client.get(f"/runs/{found['hotel/trials/lr-1']['id']}").json()
    assert trial["settings"] == {"seed": None, "epochs": 2, "taken.lr": 0.5}


def test_nothing_outside_is_found(tmp_path: Path, root: Path) -> None:
    write(tmp_path / "outside" / "log.jsonl", step(1))
    (root / "linked").symlink_to(tmp_path / "outside")
    (root / "file").mkdir()
    (root / "file" / "log.jsonl").symlink_to(tmp_path / "outside" / "log.jsonl")
    write(root / ".hidden" / "log.jsonl", step(1))
    write(root / "mini" / "checkpoints" / "step-1" / "log.jsonl", step(1))
    write(root.joinpath(*"abcdefghij", "log.jsonl"), step(1))
    shown = Runs(root)
    assert {one.name for one in shown.found().runs} == {"mini", "hotel", "hotel/trials/lr-1"}
    found = next(one for one in shown.found().runs if one.name == "mini")
    (root / "mini").rename(tmp_path / "moved")
    (root / "mini").symlink_to(tmp_path / "outside")  # between the list and the question
    with pytest.raises(Refusal):
        shown.find(found.id)


def test_hostile_names_are_only_names(root: Path, client: TestClient) -> None:
    names = ["<script>alert(1)<script>", "x..", "a b", "%2e%2e", "'\"&", "名"]
    for number, name in enumerate(names):
        write(root / name / "log.jsonl", step(number))
    found = by_name(client)
    for number, name in enumerate(names):
        identity = found[name]["id"]
        assert identity.isalnum() and len(identity) == 16
        log = client.get(f"/runs/{identity}/log").json()
        assert [one["step"] for one in log["entries"]] == [number]


def test_a_name_that_is_no_text(root: Path, client: TestClient) -> None:
    folder = os.fsencode(root) + b"/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/log.jsonl", "wb") as file:
        file.write(b'{"event": "step", "step": 5}\n')
    found = by_name(client)["\ufffd\ufffd"]
    assert found["steps"] == 5 and client.get(f"/runs/{found['id']}").status_code == 200


def test_paths_are_no_ids(client: TestClient) -> None:
    paths = ("../mini", "..%2fmini", "mini", "mini/log.jsonl", "%00", "a" * 16, "..%2f..%2fetc")
    for path in paths:
        for end in ("", "/log", "/stream", "/report"):
            assert client.get(f"/runs/{path}{end}").status_code == 404


def test_too_many_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST", 2)
    found = Runs(root).found()
    assert found.runs[0].name == "mini" and len(found.runs) == 2 and found.more


def test_many_pages_make_one_look(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Runs(root)
    first = shown.found()
    assert all(shown.found() is first for _ in range(50))
    monkeypatch.setattr(runs, "KEPT", -1.0)
    assert shown.found() is not first


# ---------------------------------------------------------------- routes


def test_the_log_route(root: Path, client: TestClient) -> None:
    mini = by_name(client)["mini"]["id"]
    first = client.get(f"/runs/{mini}/log").json()
    assert [one["step"] for one in first["entries"]] == [0, 1, 1, 2, 2, 3]
    assert not first["reset"] and not first["more"]
    append(root / "mini" / "log.jsonl", json.dumps(step(4)) + "\n" + '{"half')
    second = client.get(f"/runs/{mini}/log", params={"after": first["cursor"]}).json()
    assert [one["step"] for one in second["entries"]] == [4]
    Journal(root / "mini" / "log.jsonl", 1).close()
    third = client.get(f"/runs/{mini}/log", params={"after": second["cursor"]}).json()
    assert third["reset"] and [one["step"] for one in third["entries"]] == [0, 1, 1]
    assert client.get(f"/runs/{mini}/log", params={"after": "x"}).status_code == 422
    hotel = by_name(client)["hotel"]["id"]
    refused = client.get(f"/runs/{hotel}/log")
    assert refused.status_code == 404 and "its trials have" in refused.json()["error"]


def test_the_report_route(client: TestClient) -> None:
    found = by_name(client)
    report = client.get(f"/runs/{found['hotel']['id']}/report").json()
    sweep = report["sweep"]
    assert sweep["names"] == ["no", "<b>yes</b>"] and sweep["stops"][sweep["at"]] == 0.5
    counts = dict(zip(sweep["stops"], zip(sweep["true"], sweep["false"], strict=True), strict=True))
    # probabilities of the positives: .9 and .4; of the negatives: .6 and .2
    assert [counts[at] for at in (0.0, 0.3, 0.5, 0.7, 1.0)] == [
        (2, 2),
        (2, 1),
        (1, 1),
        (1, 0),
        (0, 0),
    ]
    assert report["confusion"][0]["counts"] == [[1, 1], [1, 1]]
    errors = next(one for one in report["tables"] if one["key"] == "errors")
    assert errors["rows"][0][0] == ["<script>bad()</script> ?", ""]
    scores = next(one for one in report["tables"] if one["key"] == "scores")
    assert scores["rows"] == [[["f1", ""], ["0.7500", "0.500–1.000"]]]
    assert client.get(f"/runs/{found['mini']['id']}/report").status_code == 404


def test_odd_files_are_no_fault(root: Path, client: TestClient) -> None:
    (root / "hotel" / "run.json").write_text("[" * 100_000)
    (root / "mini" / "run.json").write_text('{"settings": {"a": "\\ud800", "b": NaN}, "task": 5}')
    (root / "hotel" / "scores.json").write_text('{"dev": 3, "trials": [1, {"steps": "x"}]}')
    for one in by_name(client).values():
        assert client.get(f"/runs/{one['id']}").status_code == 200
        assert client.get(f"/runs/{one['id']}/report").status_code == (
            200 if one["report"] else 404
        )


def test_without_runs_and_without_a_key(root: Path) -> None:
    with TestClient(make_app(make_service(None)), base_url="http://localhost") as bare:
        wait(lambda: bare.get("/ready").status_code == 200)
        for path in ("/runs", "/runs/0", "/runs/0/log", "/runs/0/stream", "/runs/0/report"):
            answer = bare.get(path)
            assert answer.status_code == 404 and "--runs" in answer.json()["error"]
        assert bare.get("/info").json()["models"] == []
    guarded = TestClient(make_app(make_service(root, key="12345678")), base_url="http://localhost")
    with guarded:
        assert guarded.get("/runs").status_code == 401
        assert guarded.get("/runs/0/stream").status_code == 401
    with TestClient(make_app(make_service(root)), base_url="http://evil.example") as other:
        assert other.get("/runs").status_code == 421


def test_the_document_names_the_routes(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    stream = paths["/runs/{id}/stream"]["get"]
    assert set(stream["responses"]["200"]["content"]) == {"text/event-stream"}
    assert [(one["name"], one["in"]) for one in stream["parameters"]] == [
        ("id", "path"), ("after", "query"), ("last-event-id", "header"),
    ]  # fmt: skip
    assert "/runs/{id}/log" in client.get("/docs").text
    assert client.get("/page/info").json()["views"] == ["runs", "report"]


# ---------------------------------------------------------------- the stream, by a real server


@pytest.fixture
def live(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunServer]:
    monkeypatch.setattr(run_routes, "POLL", 0.05)
    server = RunServer(root)
    yield server
    server.end()


class Events:
    """A client of a stream that reads so many events."""

    def __init__(self, server: RunServer, name: str, last: str | None = None):
        found = httpx.get(f"{server.url}/runs").json()["runs"]
        identity = next(one["id"] for one in found if one["name"] == name)
        headers = {"Last-Event-ID": last} if last else {}
        self.context = httpx.stream(
            "GET", f"{server.url}/runs/{identity}/stream", headers=headers, timeout=10
        )
        self.answer = self.context.__enter__()
        self.lines = self.answer.iter_lines()

    def read(self, count: int) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        one: dict[str, str] = {}
        for line in self.lines:
            if line:
                name, _, value = line.partition(": ")
                one[name] = value
            elif "data" in one:
                found.append(one)
                one = {}
                if len(found) == count:
                    return found
            else:
                one = {}
        return found

    def close(self) -> None:
        self.context.__exit__(None, None, None)


def told(events: list[dict[str, str]]) -> list[int]:
    return [json.loads(one["data"])["step"] for one in events]


def test_the_stream_follows_the_log(live: RunServer, root: Path) -> None:
    log = root / "mini" / "log.jsonl"
    events = Events(live, "mini")
    assert events.answer.headers["content-type"].startswith("text/event-stream")
    assert told(events.read(6)) == [0, 1, 1, 2, 2, 3]
    append(log, '{"event": "step", "ste')
    time.sleep(0.2)
    append(log, 'p": 4}\n{"event": "step", "step": 5}\n')
    last = events.read(2)
    assert told(last) == [4, 5]
    events.close()
    append(log, '{"event": "step", "step": 6}\n')
    again = Events(live, "mini", last[0]["id"])  # behind step 4
    assert told(again.read(2)) == [5, 6]
    again.close()


def test_the_stream_begins_anew_after_a_cut(live: RunServer, root: Path) -> None:
    events = Events(live, "mini")
    last = events.read(6)[-1]["id"]
    journal = Journal(root / "mini" / "log.jsonl", 2)
    journal.write("resume", step=2)
    found = events.read(7)
    assert found[0]["event"] == "reset" and told(found[1:]) == [0, 1, 1, 2, 2, 2]
    events.close()
    late = Events(live, "mini", last)  # whoever was away hears the same
    found = late.read(7)
    assert found[0]["event"] == "reset" and told(found[1:]) == [0, 1, 1, 2, 2, 2]
    late.close()
    journal.close()


def test_a_stream_does_not_hold_up_the_end(root: Path) -> None:
    server = RunServer(root)
    events = Events(server, "mini")
    events.read(6)
    begun = time.monotonic()
    server.end()
    assert events.read(1) == [] and time.monotonic() - begun < 5
    events.close()


def test_streams_are_limited_and_freed(
    live: RunServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_routes, "STREAMS", 2)
    shown = live.service.runs
    assert shown is not None
    one, two = Events(live, "mini"), Events(live, "mini")
    one.read(1), two.read(1)
    refused = Events(live, "mini")
    assert refused.answer.status_code == 429 and refused.answer.headers["retry-after"] == "5"
    refused.close()
    one.close()
    wait(lambda: shown.streams == 1, 10)
    two.close()


def test_a_run_that_vanishes_ends_its_stream(live: RunServer, root: Path) -> None:
    events = Events(live, "mini")
    events.read(6)
    (root / "mini" / "log.jsonl").unlink()
    assert events.read(1) == []
    events.close()


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["page", "."], "needs a key"),
        (["page", "missing"], "does not exist"),
    ],
)
def test_tianci_page_refuses(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIANCI_API_KEY", raising=False)
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--host", "0.0.0.0"])
    assert ended.value.code == 2 and said in capsys.readouterr().err
