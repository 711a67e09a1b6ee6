# SPDX-License-Identifier: MIT
"""Signatures in the answers to agents: the registry's of the deployment, and the publishers' of the ensemble.

    step_s   = signature_validity_s // 8
    issued   = now_s - now_s % step_s        the begin of the current step
    expires  = issued + signature_validity_s

A deployment's signature is made once for each step. All processes on one database with the same key make the same
bytes, because a step begins at a multiple of its length and an Ed25519 signature depends on nothing but key and text.
A step ends no held poll. When an agent fetches a signature, at least 7/8 of its validity are left. Its next poll
follows after `max_wait_s` at most.

Limits: near the end of a step, processes whose clocks differ make signatures of different steps. Both are valid.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from serving.database import DeploymentRow
from serving.ensembles import signing as ensemble_signing
from serving.roots import service as roots
from serving.signatures import DeploymentStatement, PrivateKey, Root, sign_deployment

_STEPS_PER_VALIDITY = 8
_TAG_CHARS = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signatures:
    """The part `signatures` of an answer as JSON, and its part of the ETag ("" if nothing is signed)."""

    text: str
    tag: str


class OfferSigner:
    """Signs one registry's deployments. Without a key it signs nothing. May be called from any thread."""

    def __init__(
        self, key: PrivateKey | None, *, registry: str, validity_s: int, clock: Callable[[], datetime]
    ) -> None:
        self._key = key
        self._registry = registry
        self._validity_s = validity_s
        self._step_s = validity_s // _STEPS_PER_VALIDITY
        self._clock = clock
        self._logged_version = 0

    @property
    def key_id(self) -> str | None:
        """The id of the registry's key, or None."""
        return None if self._key is None else self._key.public.key_id

    def require_named(self, session: Session) -> None:
        """Raise SettingsError if the newest root document does not name the key."""
        trusted = roots.trusted(session)
        if trusted is None:
            return
        if self.key_id is None:
            _log.warning(
                "the registry has a root document but no signing_key_file: agents with a root document refuse its "
                "offers"
            )
            return
        roots.require_named(trusted.root, self.key_id)

    def issued_s(self) -> int:
        """Return the begin of the current step in seconds since 1970, or 0 without a key."""
        if self._key is None:
            return 0
        now_s = int(self._clock().timestamp())
        return now_s - now_s % self._step_s

    def signatures(self, session: Session, row: DeploymentRow, *, issued_s: int) -> Signatures:
        """Return the signatures of a deployment and its ensemble. The row's channel must be loaded."""
        trusted = roots.trusted(session)
        root = None if trusted is None else trusted.root
        if root is None and self._key is None:
            return Signatures(_json(None, [], None), "")
        of_ensemble = [] if root is None else ensemble_signing.envelopes_under(session, root, digest=row.digest)
        text = _json(
            self._of_deployment(root, row, issued_s=issued_s),
            [envelope.to_json() for envelope in of_ensemble],
            None if root is None else root.version,
        )
        return Signatures(text, hashlib.sha256(text.encode("ascii")).hexdigest()[:_TAG_CHARS])

    def _of_deployment(self, root: Root | None, row: DeploymentRow, *, issued_s: int) -> dict[str, Any] | None:
        if self._key is None or not self._may_sign(root):
            return None
        statement = DeploymentStatement(
            registry=self._registry,
            cca=row.channel.cca,
            channel=row.channel.name,
            serial=row.serial,
            digest=row.digest,
            hold_back_permille=row.hold_back_permille,
            urgent=row.urgent,
            issued_s=issued_s,
            expires_s=issued_s + self._validity_s,
        )
        return sign_deployment(statement, self._key).to_json()

    def _may_sign(self, root: Root | None) -> bool:
        """Whether the root document names the key. Another process may have added one that does not."""
        if root is None or self.key_id in root.keys_of("registry"):
            return True
        if self._logged_version != root.version:
            self._logged_version = root.version
            _log.error(
                "version %d of the root document does not name the signing key %s, so deployments are not signed; "
                "set signing_key_file to a key that it names, and restart",
                root.version,
                self.key_id,
            )
        return False


def _json(deployment: dict[str, Any] | None, ensemble: list[dict[str, Any]], root_version: int | None) -> str:
    return json.dumps({"deployment": deployment, "ensemble": ensemble, "root_version": root_version})
