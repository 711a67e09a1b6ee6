# SPDX-License-Identifier: MIT
"""Reads the body of a request, once the request itself is known to be permitted.

A body over the limit is refused with 413, with or without a Content-Length header.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from serving.errors import ContentTooLargeError

__all__ = ["SMALL_BODY_BYTES", "read_body", "replaying"]

# Only ensembles are larger. The largest other body is an envelope, with a payload of up to 128 KiB.
SMALL_BODY_BYTES = 160 * 1024


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Return the whole body.

    Raises:
        ContentTooLargeError: the body is larger than `max_bytes`.
        ClientDisconnect: before the end of the body. Half of a body must not reach the application.
    """
    declared = Headers(scope=scope).get("content-length", "0")
    size_bytes = int(declared) if declared.isdecimal() else max_bytes + 1
    parts: list[bytes] = []
    is_ended = False
    while size_bytes <= max_bytes and not is_ended:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size_bytes = sum(map(len, parts))
        is_ended = not message.get("more_body", False)
    if size_bytes > max_bytes:
        raise ContentTooLargeError(f"expected a body of at most {max_bytes} bytes, got a larger one")
    return b"".join(parts)


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body, already read, and then further messages (a disconnect)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
