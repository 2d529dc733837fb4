"""The OpenAPI document as a page to read: no script, nothing from other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from tianci.serve.routes import Route

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-top: 1px solid #8884; padding-top: 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: #8882; padding: .8rem; overflow-x: auto; border-radius: .4rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0 }
td, th { border-bottom: 1px solid #8883 }
code { overflow-wrap: anywhere }
nav a { margin-right: .8rem }
"""


ADDRESS = "127.0.0.1:8000"  # in the examples; who shows the page knows the real one


def page(routes: Sequence[Route], document: dict[str, Any]) -> str:
    """HTML."""
    links = "".join(
        f'<a href="#{_anchor(one)}"><code>{escape(one.path)}</code></a> ' for one in routes
    )
    parts = "".join(_section(one, document) for one in routes)
    about = _prose(document["info"]["description"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tianci: routes</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" '
        'href="/docs.css"><link rel="icon" href="/page/icon.svg"></head><body>'
        f"<h1>tianci {escape(document['info']['version'])}</h1>"
        f'<p>{about}</p><p>For programs: <a href="/openapi.json">/openapi.json</a>. '
        "Besides: <code>/health</code>, <code>/ready</code>, <code>/metrics</code>.</p>"
        f"<nav>{links}</nav>{parts}</body></html>"
    )


def _anchor(route: Route) -> str:
    return f"{route.method}{route.path}".lower().translate(str.maketrans("/{}", "---"))


def _section(route: Route, document: dict[str, Any]) -> str:
    title = f"{route.method} {route.path}"
    text = f'<h2 id="{_anchor(route)}"><code>{escape(title)}</code></h2>'
    text += f"<p>{_prose(route.summary)}</p>"
    schemas = document["components"]["schemas"]
    if route.asked is not None:
        schema = schemas[route.asked.__name__]
        needed = schema.get("required", ())
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td>"
            f"<td><code>{escape(shown(one, schemas))}</code></td>"
            f"<td>{'needed' if name in needed else escape(json.dumps(one.get('default')))}</td>"
            "</tr>"
            for name, one in schema["properties"].items()
        )
        text += f"<table><tr><th>field</th><th>type</th><th>default</th></tr>{rows}</table>"
        body = json.dumps(route.example, ensure_ascii=False)
        text += (
            f"<pre>curl {ADDRESS}{escape(route.path)} -H 'Content-Type: application/json' \\\n"
            f"  -d '{escape(body, quote=False)}'</pre>"
        )
    else:
        text += f"<pre>curl {ADDRESS}{escape(route.path)}</pre>"
    answers = document["paths"][route.path][route.method.lower()]["responses"]["200"]["content"]
    told = " or ".join(
        f"<code>{escape(shown(one['schema'], schemas))}</code>"
        if kind == "application/json"
        else f"<code>{escape(kind)}</code>"
        for kind, one in answers.items()
    )
    return text + f"<p>Answer: {told}</p>"


def _prose(text: str) -> str:
    """HTML of a sentence; what stands between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def shown(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """A schema in a few words; objects with their fields, those that may be left out with a ?."""
    if "anyOf" in schema:
        return " | ".join(shown(one, schemas) for one in schema["anyOf"])
    if "$ref" in schema:
        return shown(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(shown(one, schemas) for one in schema['prefixItems'])}]"
        return f"[{shown(schema.get('items') or {}, schemas)}]"
    if "properties" in schema:
        needed = schema.get("required", ())
        fields = (
            f"{name}{'' if name in needed else '?'}: {shown(one, schemas)}"
            for name, one in schema["properties"].items()
        )
        return f"{{{', '.join(fields)}}}"
    return str(schema.get("type", "anything"))
