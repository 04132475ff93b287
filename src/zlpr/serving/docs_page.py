"""The page `/docs`: the routes as a list that needs no script and nothing from elsewhere."""

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>zlpr: routes</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css"></head>
<body><header class="top"><h1>Routes</h1></header><main class="docs">
<p>What programs can ask of this server. <a href="/">The page for people</a>,
<a href="/openapi.json">the same as OpenAPI</a>.</p>
<p>Where the server was started with <code>--token-file</code>, add
<code>-H 'Authorization: Bearer TOKEN'</code>. Faults are JSON: <code>{"error": "…"}</code>.</p>
"""


def docs_page(openapi: Mapping[str, Any]) -> str:
    """The routes of an OpenAPI document as HTML.

    Args:
        openapi: the document.
    """
    by_tag: dict[str, list[str]] = {}
    for path, method, route in _routes(openapi):
        tag = (route.get("tags") or [""])[0]
        by_tag.setdefault(tag, []).append(_route(openapi, path, method, route))
    sections = [f"<h2>{html.escape(tag)}</h2>{''.join(rows)}" for tag, rows in by_tag.items()]
    return f"{_HEAD}{''.join(sections)}</main></body></html>"


def _routes(openapi: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            yield path, method, route


def _route(openapi: Mapping[str, Any], path: str, method: str, route: Mapping[str, Any]) -> str:
    fields = list(_fields(openapi, route))
    rows = "".join(
        f"<tr><th scope='row'><code>{html.escape(name)}</code></th><td>{html.escape(kind)}</td>"
        f"<td>{html.escape(words)}</td></tr>"
        for name, kind, words in fields
    )
    table = f"<div class='scroll'><table><tbody>{rows}</tbody></table></div>" if rows else ""
    words = html.escape(route.get("description") or "")
    return (
        f"<section class='route'><h3><code>{method.upper()} {html.escape(path)}</code></h3>"
        f"<p>{html.escape(route.get('summary', ''))}. {words}</p>{table}"
        f"<pre><code>{html.escape(_curl(openapi, path, method, route))}</code></pre></section>"
    )


def _schema(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a route's body may hold; empty where it has none."""
    content = route.get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    name = reference.rpartition("/")[2]
    schema: Mapping[str, Any] = openapi.get("components", {}).get("schemas", {}).get(name, {})
    return schema


def _fields(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, kind and meaning of every parameter and every field of the body."""
    for parameter in route.get("parameters", ()):
        needed = "" if parameter.get("required") else ", may be left out"
        yield parameter["name"], f"in the {parameter['in']}{needed}", ""
    schema = _schema(openapi, route)
    for name, field in schema.get("properties", {}).items():
        needed = "" if name in schema.get("required", ()) else ", may be left out"
        kind = field.get("type") or " or ".join(
            str(one.get("type")) for one in field.get("anyOf", ())
        )
        yield name, f"{kind}{needed}", field.get("description", "")


def _curl(openapi: Mapping[str, Any], path: str, method: str, route: Mapping[str, Any]) -> str:
    """The route as a command line."""
    address = f"http://127.0.0.1:8000{path}"
    if method == "get":
        return f"curl {address}"
    if path.endswith("/infer"):
        body: Any = {
            "inputs": [
                {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["Arrived broken."]}
            ]
        }
    else:
        schema = _schema(openapi, route)
        body = {
            name: field["examples"][0]
            for name, field in schema.get("properties", {}).items()
            if field.get("examples")
        }
    return f"curl {address} -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
