# SPDX-License-Identifier: MIT
"""The static files: our style sheet and scripts, and in `static/vendor` those that the set-up brings by npm's lock.

A link names a file with the digest of its content, so browsers may keep it for ever.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response

router = APIRouter(prefix="/ui/static", include_in_schema=False)

_FOLDER = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_HEADERS: Final = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@functools.cache
def _files() -> dict[str, tuple[str, bytes]]:
    """Return type and content of each file, by its name below the folder."""
    return {
        path.relative_to(_FOLDER).as_posix(): (_TYPES[path.suffix], path.read_bytes())
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }


@functools.cache
def versioned(name: str) -> str | None:
    """Return the link to a file relative to /ui/, or None if it is not there, as without npm at the set-up."""
    if name not in _files():
        return None
    return f"static/{name}?v={hashlib.sha256(_files()[name][1]).hexdigest()[:16]}"


@router.get("/{name:path}")
async def static_file(name: str) -> Response:
    """Return a static file."""
    if name not in _files():
        return Response(status_code=404)
    media_type, content = _files()[name]
    return Response(content, media_type=media_type, headers=_HEADERS)
