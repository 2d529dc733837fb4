"""The page: files of the folder `page`, which hold no secrets, and what it asks first."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tianci import __version__
from tianci.serve.models import Models, Served
from tianci.serve.service import Service
from tianci.serve.writing import continues

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """Content and type by path; all that can be asked for without a key."""
    found = {
        f"/page/{one.relative_to(FOLDER).as_posix()}": (one.read_bytes(), TYPES[one.suffix])
        for one in sorted(FOLDER.rglob("*"))
        if one.suffix in TYPES
    }
    return {"/": found["/page/index.html"], **found}


def page_info(service: Service, models: Models) -> dict[str, Any]:
    """What the page can offer: models with their abilities, and views."""
    abilities = {ability for one in models.served for ability in one.abilities}
    views = ["playground"] if models.served else []
    views += ["attention"] if "attention" in abilities else []
    views += ["runs", "report"] if service.runs is not None else []
    views += ["map"] if "embed" in abilities else []
    limits = service.limits
    return {
        "version": __version__,
        "models": [_about(one) for one in models.served],
        "views": views,
        "limits": {"inputs": limits.inputs, "new_tokens": limits.new_tokens},
        "key_needed": service.key is not None,
    }


def _about(model: Served) -> dict[str, Any]:
    tokenizer = model.predictor.tokenizer
    mask = tokenizer.mask
    return {
        **model.about,
        "mask": None if mask is None else tokenizer.token(mask),
        "continues": continues(model.predictor),  # what it writes goes on behind the text
    }
