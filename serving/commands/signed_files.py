# SPDX-License-Identifier: MIT
"""Files with DSSE envelopes as JSON: the signatures beside an ensemble, and root documents."""

from __future__ import annotations

import json
from pathlib import Path

from kmod.ensemble import Ensemble, write_atomically
from serving.signatures import EnsembleStatement, Envelope, Root, SignatureError
from serving.signatures.envelope import MAX_ENVELOPE_BYTES
from serving.signatures.root import ROOT_TYPE


def signature_path(path: Path) -> Path:
    """Return where the signatures of an ensemble's file are."""
    return path.with_name(f"{path.name}.sig")


def read_signature(path: Path, ensemble: Ensemble) -> Envelope | None:
    """Return the signatures beside an ensemble's file, or None where there are none.

    They are not verified, because that needs a root document. Raises SignatureError for those of another ensemble.
    """
    place = signature_path(path)
    if not place.exists():
        return None
    try:
        envelope = _read(place)
        found = EnsembleStatement.from_envelope(envelope)
    except SignatureError as error:
        raise SignatureError(f"{place}: {error}") from error
    if found != EnsembleStatement(ensemble.cca, ensemble.digest):
        raise SignatureError(
            f"{place}: expected signatures of {ensemble.cca} {ensemble.digest}, got those of {found.cca} "
            f"{found.digest}; remove the file and sign the ensemble again"
        )
    return envelope


def read_root(path: Path) -> tuple[Root, Envelope]:
    """Return a root document and its envelope, without verifying its signatures. Raises SignatureError."""
    try:
        envelope = _read(path)
        if envelope.payload_type != ROOT_TYPE:
            raise SignatureError(f"expected a root document, got {envelope.payload_type}")
        return Root.from_payload(envelope.payload), envelope
    except SignatureError as error:
        raise SignatureError(f"{path}: {error}") from error


def write_envelope(path: Path, envelope: Envelope) -> None:
    """Replace the file atomically. Raises SignatureError."""
    try:
        write_atomically(path, _text(envelope))
    except OSError as error:
        raise SignatureError(f"{path}: expected to write it, got {error.strerror}") from error


def write_new_envelope(path: Path, envelope: Envelope) -> None:
    """Write a new file. Raises SignatureError; it replaces no file, because signatures would be lost."""
    try:
        path.open("xb").close()
    except FileExistsError as error:
        raise SignatureError(f"{path}: expected no file of this name; remove it or choose another") from error
    except OSError as error:
        raise SignatureError(f"{path}: expected to write it, got {error.strerror}") from error
    try:
        write_envelope(path, envelope)
    except SignatureError:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> Envelope:
    try:
        with path.open("rb") as file:
            return Envelope.parse(file.read(MAX_ENVELOPE_BYTES + 1))
    except OSError as error:
        raise SignatureError(f"expected a file with an envelope, got {error.strerror}") from error


def _text(envelope: Envelope) -> bytes:
    return json.dumps(envelope.to_json(), indent=1, sort_keys=True).encode() + b"\n"
