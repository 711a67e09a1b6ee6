# SPDX-License-Identifier: MIT
"""How `ccatune publish` uploads the signatures beside an ensemble, and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kmod.terminal import echo, echo_wrapped
from serving.client import RegistryClient
from serving.commands.printing import print_move
from serving.commands.signed_files import signature_path
from serving.errors import RegistryClientError
from serving.signatures import Envelope

__all__ = ["print_published", "upload_signatures"]

Json = dict[str, Any]


def upload_signatures(client: RegistryClient, path: Path, *, digest: str, envelope: Envelope) -> Json:
    """Upload the signatures of a published ensemble. Raises RegistryClientError, which says what is done already."""
    try:
        return client.add_signature(digest, envelope)
    except RegistryClientError as error:
        raise RegistryClientError(f"{error} ({path} is published, {signature_path(path)} is not)") from error


def print_published(results: Sequence[Json]) -> None:
    """Print a line about each published file and the move of its channel, and last what its training lacks."""
    for result in results:
        echo(_published_in_words(result))
        if "deployment" in result:
            print_move(result["deployment"])
    for result in results:
        for warning in result["warnings"]:
            echo_wrapped(f"{result['file']}: {warning}")


def _published_in_words(result: Json) -> str:
    """Return the line about one published file."""
    line = f"{result['file']}: {'published' if result['created'] else 'published before'} {result['digest']}"
    if (found := result.get("signatures")) is None:
        return line
    n_valid = sum(row.get("counts") is True for row in found["signatures"])
    return f"{line}, signed by {n_valid} of {found['threshold']} needed publishers"
