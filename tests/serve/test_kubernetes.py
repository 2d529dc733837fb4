"""The Kubernetes example of docs/serving.md says what the server understands."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("uvicorn")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

from tests.conftest import ROOT  # noqa: E402
from tianci.cli.serve import serve  # noqa: E402
from tianci.serve.gate import OPEN  # noqa: E402


def test_the_documented_pod() -> None:
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    found = re.search(r"### Kubernetes\n.*?```yaml\n(.*?)```", page, re.DOTALL)
    assert found
    pod = yaml.safe_load(found[1])
    (container,) = pod["containers"]
    program, name, *words = container["command"]
    assert (program, name) == ("tianci", "serve") and all(isinstance(one, str) for one in words)
    with serve.make_context("serve", words) as context:  # raises on options that do not exist
        assert context.params["host"] == "0.0.0.0"
        port = context.params["port"]
    assert [one["containerPort"] for one in container["ports"]] == [port]
    assert [one["name"] for one in container["env"]] == ["TIANCI_API_KEY"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port and asked["path"] in OPEN, probe  # probes have no key
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert waits < pod["terminationGracePeriodSeconds"]
