# SPDX-License-Identifier: MIT
"""How `ccatune publish` uploads the signatures beside an ensemble, and says how many of them hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serving._signed_files import signature_path
from serving.client import RegistryClient
from serving.errors import RegistryClientError
from serving.signatures import Envelope

__all__ = ["published_in_words", "upload_signatures"]

Json = dict[str, Any]


def upload_signatures(client: RegistryClient, path: Path, *, digest: str, envelope: Envelope) -> Json:
    """Upload the signatures of a published ensemble. Raises RegistryClientError, which says what is done already."""
    try:
        return client.add_signature(digest, envelope)
    except RegistryClientError as error:
        raise RegistryClientError(f"{error} ({path} is published, {signature_path(path)} is not)") from error


def published_in_words(result: Json) -> str:
    """Return the line about one published file."""
    line = f"{result['file']}: {'published' if result['created'] else 'published before'} {result['digest']}"
    if (found := result.get("signatures")) is None:
        return line
    n_valid = sum(row.get("counts") is True for row in found["signatures"])
    return f"{line}, signed by {n_valid} of {found['threshold']} needed publishers"
