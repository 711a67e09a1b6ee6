# SPDX-License-Identifier: MIT
"""Entity tags (RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2)."""

from __future__ import annotations

import re

IF_NONE_MATCH = "Entity tags that the caller holds: with one of them current the answer is 304."
IF_MATCH = 'The move is made only where this is current: an ETag, `"SERIAL"`, or `"0"` for a channel without any.'
IF_NONE_MATCH_MOVE = (
    "The move is not made where this is current: an ETag, or `*` for a channel that has any deployment."
)

_TAG = re.compile(r'(W/)?("[^"]*")')


def quoted(opaque: str) -> str:
    """Return a strong entity tag."""
    return f'"{opaque}"'


def names_a_tag(header: str) -> bool:
    """Whether the header contains an entity tag. A word without quotes is not one."""
    return _TAG.search(header) is not None


def matches_weakly(header: str | None, etag: str) -> bool:
    """Whether an If-None-Match header is `*` or contains the tag, as a weak or a strong one."""
    if header is None:
        return False
    return header.strip() == "*" or any(tag == etag for _, tag in _TAG.findall(header))


def matches_strongly(header: str, etags: frozenset[str]) -> bool:
    """Whether an If-Match header contains one of the tags. A weak tag never matches."""
    return any(not weak and tag in etags for weak, tag in _TAG.findall(header))
