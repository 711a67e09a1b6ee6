# SPDX-License-Identifier: MIT
"""Makes the page /v1/docs, which shows the API's OpenAPI document as HTML.

FastAPI's own pages load scripts from the Internet. This page loads nothing, because a registry may run on a network
without Internet access. Its links are relative, because a proxy may serve it below a prefix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from serving.http.openapi import example_of

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1a1a1a; }
h2 { border-top: 1px solid #ccc; padding-top: 1.2rem; margin-top: 2rem; }
h2, h3 { font: 600 1.05rem/1.4 ui-monospace, monospace; }
h2 b { display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; width: 100%; }
td { border-bottom: 1px solid #eee; padding: .25rem .75rem .25rem 0; vertical-align: top; }
td:first-child, code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
td:first-child { white-space: nowrap; }
pre { background: #f6f6f6; overflow-x: auto; padding: .5rem; }
"""

Json = dict[str, Any]


def docs_html(openapi: Json) -> str:
    """Return the page for an OpenAPI document."""
    info = openapi["info"]
    operations = [
        _operation(method, path, operation)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    ]
    schemas = [_schema(name, schema, openapi) for name, schema in sorted(openapi["components"]["schemas"].items())]
    headers = [_answer_header(name, header) for name, header in openapi["components"]["headers"].items()]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{_text(info.get('description', ''))}</p>"
        '<p>For programs: <a href="openapi.json">openapi.json</a>. '
        'The <a href="#bodies">bodies</a> follow the operations.</p>'
        f"<p>Every answer has this header:</p>{_table(headers)}"
        f'{"".join(operations)}<h1 id="bodies">Bodies</h1>{"".join(schemas)}</body></html>'
    )


def _operation(method: str, path: str, operation: Json) -> str:
    parameters = [
        [
            escape(parameter["name"].title() if parameter["in"] == "header" else parameter["name"]),
            parameter["in"] + (", required" if parameter.get("required") else ""),
            _text(parameter.get("description") or parameter["schema"].get("description", "")),
        ]
        for parameter in operation.get("parameters", [])
    ]
    answers = [
        [escape(code), _text(answer.get("description", "")), _content(answer), _headers(answer)]
        for code, answer in sorted(operation["responses"].items())
    ]
    return (
        f"<h2><b>{method.upper()}</b> {escape(path)}</h2><p>{_text(operation.get('description', ''))}</p>"
        f"{_table(parameters)}{_body(operation.get('requestBody'))}<p>Answers</p>{_table(answers)}"
    )


def _body(body: Json | None) -> str:
    if body is None:
        return ""
    (content,) = body["content"].values()
    said = content["schema"].get("description", "")
    return f"<p>Body: {_type(content['schema'])}. {_text(said)} For example:</p>{_example(content['example'])}"


def _content(answer: Json) -> str:
    return "".join(
        f"{_type(content['schema'])} as <code>{escape(kind)}</code>"
        for kind, content in answer.get("content", {}).items()
    )


def _headers(answer: Json) -> str:
    own = {name: header for name, header in answer["headers"].items() if "$ref" not in header}
    return "<br>".join(" ".join(_answer_header(name, header)[:2]) for name, header in own.items())


def _answer_header(name: str, header: Json) -> list[str]:
    return [f"<code>{escape(name)}: {escape(header['example'])}</code>", _text(header["description"])]


def _schema(name: str, schema: Json, openapi: Json) -> str:
    required = schema.get("required", [])
    fields = [
        [
            escape(field),
            _type(part) + (", required" if field in required else ""),
            _text(part.get("description", "")) + _default(part),
        ]
        for field, part in schema["properties"].items()
    ]
    return (
        f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{_text(schema.get("description", ""))}</p>'
        f"{_table(fields)}{_example(example_of(schema, openapi))}"
    )


def _type(schema: Json) -> str:
    """Return the type of a schema in words, with a link to the body that it refers to."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "prefixItems" in schema:
        return f"list of {' and '.join(map(_type, schema['prefixItems']))}"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return "time" if schema.get("format") == "date-time" else escape(str(schema.get("type", "any")))


def _default(part: Json) -> str:
    return f" (default {escape(json.dumps(part['default']))})" if "default" in part else ""


def _example(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1))}</pre>"


def _table(rows: Iterable[list[str]]) -> str:
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(said: str) -> str:
    """Return the text as HTML, with each part in backticks as a code element."""
    pieces = escape(said).split("`")
    return "".join(piece if index % 2 == 0 else f"<code>{piece}</code>" for index, piece in enumerate(pieces))
