# SPDX-License-Identifier: MIT
"""What a form has sent.

Each form has a hidden field `csrf_token`, the word of the session that made the page. A page of another site cannot
know it. An open registry has no sessions: there the word belongs to the process.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import BaseModel, ValidationError

from serving.access.routes import read_body
from serving.errors import ForeignFormError, InvalidFormError
from serving.names import in_words

CSRF_STATE_KEY = "ccatune_csrf"
FIELD = "csrf_token"
HEADER = "x-csrf-token"
MAX_FORM_BYTES = 256 * 1024

_MAX_FIELDS = 200
_OF_PROCESS = secrets.token_urlsafe(32)

Model = TypeVar("Model", bound=BaseModel)


def csrf_token(request: Request) -> str:
    """Return the word that forms of this request's session must send."""
    return str(request.scope.get("state", {}).get(CSRF_STATE_KEY, _OF_PROCESS))


async def read_form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form (application/x-www-form-urlencoded), each with its values; no empty values.

    Raises:
        ForeignFormError: the form has not the word of the session.
        InvalidFormError: the body is no form.
        ContentTooLargeError: it exceeds MAX_FORM_BYTES.
    """
    body = await read_body(request.scope, request.receive, max_bytes=MAX_FORM_BYTES)
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidFormError(f"expected the fields of a form, got others ({error})") from error
    sent = fields.pop(FIELD, [request.headers.get(HEADER, "")])[0]
    if not hmac.compare_digest(sent.encode(), csrf_token(request).encode()):
        raise ForeignFormError("expected a form of a page that this session has loaded; load the page anew, and repeat")
    return {name: [value.strip() for value in values] for name, values in fields.items()}


def model_of(kind: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the values as a model of the API. Raises InvalidFormError, which names the first invalid field."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "form"
        raise InvalidFormError(f"{where}: {in_words(first)}") from error
