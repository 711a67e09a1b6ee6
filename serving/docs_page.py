# SPDX-License-Identifier: MIT
"""Makes the page /v1/docs, which shows the API's OpenAPI document as HTML.

FastAPI's own pages load scripts from the Internet. This page loads nothing, because a registry may run on a network
without Internet access.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

__all__ = ["docs_html"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem; color: #1a1a1a; }
h2 { font: 600 1.05rem/1.4 ui-monospace, monospace; border-top: 1px solid #ccc; padding-top: 1.2rem; margin-top: 2rem; }
h2 b { display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; width: 100%; }
td { border-bottom: 1px solid #eee; padding: .25rem .75rem .25rem 0; vertical-align: top; }
td:first-child, code { font-family: ui-monospace, monospace; font-size: .9em; white-space: nowrap; }
"""


def docs_html(openapi: dict[str, Any]) -> str:
    """Return the page for an OpenAPI document."""
    info = openapi["info"]
    sections = [
        _operation(method, path, operation, openapi)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{_text(info.get('description', ''))}</p>"
        '<p>For programs: <a href="/v1/openapi.json">/v1/openapi.json</a>.</p>'
        f"{''.join(sections)}</body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any], openapi: dict[str, Any]) -> str:
    rows = [_parameter_row(parameter) for parameter in operation.get("parameters", [])]
    rows += _body_rows(operation, openapi)
    answers = [
        f"<tr><td>{escape(code)}</td><td>{_text(answer.get('description', ''))}</td></tr>"
        for code, answer in sorted(operation["responses"].items())
    ]
    return (
        f"<h2><b>{method.upper()}</b> {escape(path)}</h2><p>{_text(operation.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table><p>Answers</p><table>{''.join(answers)}</table>"
    )


def _parameter_row(parameter: dict[str, Any]) -> str:
    schema = parameter.get("schema", {})
    said = parameter.get("description") or schema.get("description", "")
    where = parameter["in"] + (", required" if parameter.get("required") else "")
    return f"<tr><td>{escape(parameter['name'])}</td><td>{escape(where)}</td><td>{_text(said)}</td></tr>"


def _body_rows(operation: dict[str, Any], openapi: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return []
    schema = _resolved(content["schema"], openapi)
    required = schema.get("required", [])
    if "properties" not in schema:
        return [f"<tr><td>(body)</td><td>body</td><td>{_text(schema.get('description', ''))}</td></tr>"]
    return [
        f"<tr><td>{escape(name)}</td><td>body{', required' if name in required else ''}</td>"
        f"<td>{_text(part.get('description', ''))}{_default(part)}</td></tr>"
        for name, part in schema["properties"].items()
    ]


def _resolved(schema: dict[str, Any], openapi: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference points to, also for `reference or null`. Return any other schema unchanged."""
    for option in schema.get("anyOf", []):
        if "$ref" in option:
            schema = option
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rsplit("/", 1)[-1]
    found = openapi["components"]["schemas"][name]
    assert isinstance(found, dict)  # noqa: S101 - by the OpenAPI schema
    return found


def _default(part: dict[str, Any]) -> str:
    return f" (default {escape(json.dumps(part['default']))})" if "default" in part else ""


def _text(said: str) -> str:
    """Return the text as HTML, with each part in backticks as a code element."""
    pieces = escape(said).split("`")
    return "".join(piece if index % 2 == 0 else f"<code>{piece}</code>" for index, piece in enumerate(pieces))
