# SPDX-License-Identifier: MIT
"""Completes the OpenAPI document that FastAPI makes: schemas of problems, headers of answers, and examples.

An example is composed from the examples of the fields, so it need not be repeated for each schema.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

Json = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_TIME: Final = "2026-03-01T12:00:00Z"


def _header(name: str, description: str, example: str) -> Json:
    return {name: {"description": description, "schema": {"type": "string"}, "example": example}}


ETAG: Final = _header("ETag", "Names this state. Send it as If-None-Match or If-Match.", '"local:3:-"')
LOCATION: Final = _header("Location", "Where it is, relative to the address of the request.", "roots/2")
RETRY_AFTER: Final = _header("Retry-After", "Seconds to wait before the request is repeated.", "1")
WWW_AUTHENTICATE: Final = _header("WWW-Authenticate", "How to authenticate.", "Bearer")
_REQUEST_ID: Final = _header(
    "X-Request-Id",
    "Names the request in the audit log. It is the request's own X-Request-Id if that has 1 to 64 of A-Z a-z 0-9 - _",
    "5f0c3a2b1d4e6f78",
)


def answered(description: str, *headers: Json, **more: Any) -> Json:
    """Return the description of an answer with these headers."""
    return {"description": description, "headers": {name: one for some in headers for name, one in some.items()}} | more


def complete(document: Json, *, problem: type[BaseModel]) -> Json:
    """Complete the document in place, and return it. problem: the model of the body of an error."""
    # The document may be served below any prefix, so its server is where the document is.
    document["servers"] = [{"url": "..", "description": "The registry that serves this document."}]
    schema = problem.model_json_schema(ref_template=_SCHEMAS + "{model}")
    schemas = document["components"]["schemas"]
    schemas |= {**schema.pop("$defs", {}), problem.__name__: schema}
    document["components"]["headers"] = _REQUEST_ID
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = list(operation["responses"].values())
            for answer in answers:
                answer.setdefault("headers", {})["X-Request-Id"] = {"$ref": "#/components/headers/X-Request-Id"}
            for part in (operation.get("requestBody", {}), *answers):
                for content in part.get("content", {}).values():
                    content["example"] = example_of(content["schema"], document)
    return document


def resolved(schema: Json, document: Json) -> Json:
    """Return the schema that a reference points to. Return any other schema unchanged."""
    if "$ref" not in schema:
        return schema
    found = document["components"]["schemas"][schema["$ref"].removeprefix(_SCHEMAS)]
    assert isinstance(found, dict)  # noqa: S101 - by the OpenAPI schema
    return found


def example_of(schema: Json, document: Json) -> Any:
    """Return a value that satisfies the schema."""
    schema = resolved(schema, document)
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "anyOf" in schema:
        # The last option of an optional value is null.
        bodies = [option for option in schema["anyOf"] if "$ref" in option]
        return example_of([*schema["anyOf"], *bodies][-1], document)
    kind = schema.get("type")
    if kind == "object":
        return {name: example_of(part, document) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema["items"], document)]
    if schema.get("format") == "date-time":
        return _TIME
    return {"boolean": True, "integer": 1, "number": 1.5, "null": None}.get(str(kind), "")
