# SPDX-License-Identifier: MIT
"""Reads the fields of signed JSON documents. Unknown, missing and repeated fields are errors.

A payload has one form: the canonical JSON of its content. Two payloads with the same meaning are the same bytes.

Times are whole seconds since 1970 in the program and RFC 3339 in UTC in a document: `2026-11-26T19:40:00Z`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from serving.signatures.errors import SignatureError

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_SERIAL = 2**63 - 1
_MAX_TIME_S = 253_402_300_799  # 9999-12-31T23:59:59Z


def parse_object(payload: bytes, what: str, names: Collection[str]) -> dict[str, Any]:
    """Return a JSON object that has exactly these fields. Raises SignatureError."""
    try:
        data = json.loads(payload, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise SignatureError(f"{what}: expected JSON, got {payload[:60]!r} ({error})") from error
    return require_object(data, what, names)


def require_object(data: object, what: str, names: Collection[str]) -> dict[str, Any]:
    """Return the data if it is an object with exactly these fields. Raises SignatureError."""
    if not isinstance(data, dict) or data.keys() != set(names):
        # A document's own names may contain characters that control a terminal, so they are shown as `repr` does.
        found = f"{sorted(data)!r:.200}" if isinstance(data, dict) else type(data).__name__
        raise SignatureError(f"{what}: expected the fields {', '.join(sorted(names))}, got {found}")
    return data


def require_canonical(payload: bytes, canonical: bytes, what: str) -> None:
    """Check that a payload is the canonical form of what was read from it. Raises SignatureError."""
    if payload != canonical:
        raise SignatureError(f"{what}: expected canonical JSON {canonical[:60]!r}, got another form {payload[:60]!r}")


def whole_number(data: dict[str, Any], name: str, what: str, *, lowest: int, highest: int = _MAX_SERIAL) -> int:
    """Return an integer field within its range. Raises SignatureError."""
    value = data[name]
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise SignatureError(f"{what}: expected {name} from {lowest} to {highest}, got {value!r:.100}")
    return value


def text(data: dict[str, Any], name: str, what: str) -> str:
    """Return a text field. Raises SignatureError."""
    value = data[name]
    if not isinstance(value, str):
        raise SignatureError(f"{what}: expected {name} as text, got {value!r:.100}")
    return value


def name_of(data: dict[str, Any], name: str, what: str) -> str:
    """Return a field with a registry's, a channel's or an algorithm's name. Raises SignatureError."""
    return require_name(text(data, name, what), name, what)


def require_name(value: str, name: str, what: str) -> str:
    """Return a registry's, a channel's or an algorithm's name. Raises SignatureError."""
    if not _NAME.fullmatch(value) or value in {".", ".."}:
        raise SignatureError(
            f"{what}: expected {name} of 1 to 63 of A-Z a-z 0-9 . _ - (and not . or ..), got {value!r:.100}"
        )
    return value


def digest_of(data: dict[str, Any], name: str, what: str) -> str:
    """Return a field with an ensemble's digest. Raises SignatureError."""
    value = text(data, name, what)
    if not _DIGEST.fullmatch(value):
        raise SignatureError(f"{what}: expected {name} as sha256: and 64 hexadecimal digits, got {value!r:.100}")
    return value


def time_of(data: dict[str, Any], name: str, what: str) -> int:
    """Return a time field in seconds since 1970. Raises SignatureError."""
    value = text(data, name, what)
    try:
        if not _TIME.fullmatch(value):
            raise ValueError("another form")
        seconds = int(datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
        if seconds < 0:
            raise ValueError("before 1970")
        return seconds
    except ValueError as error:
        raise SignatureError(f"{what}: expected {name} as 2026-11-26T19:40:00Z, got {value!r:.100}") from error


def time_text(seconds: int) -> str:
    """Return the time in a document's form. Raises SignatureError outside of the years 1970 to 9999."""
    if not 0 <= seconds <= _MAX_TIME_S:
        raise SignatureError(f"time: expected 0 to {_MAX_TIME_S} s after 1970, got {seconds!r:.100}")
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice")
    return found
