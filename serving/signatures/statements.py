# SPDX-License-Identifier: MIT
"""What is signed: an ensemble by its publishers, and a deployment by the registry.

    ensemble     {"cca", "digest"}                                      role publisher
    deployment   {"registry", "cca", "channel", "serial", "digest",
                  "hold_back_permille", "urgent", "issued", "expires"}  role registry

An ensemble's digest covers its whole content. Its signature does not expire: a publisher's key that is removed from the
root document ends it. A deployment's signature expires, so that a registry that is cut off or kept back is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kmod.ensemble import canonical_json
from serving.signatures._fields import (
    digest_of,
    name_of,
    parse_object,
    require_canonical,
    time_of,
    time_text,
    whole_number,
)
from serving.signatures.envelope import Envelope
from serving.signatures.errors import ExpiredError, SignatureError

if TYPE_CHECKING:
    from serving.signatures.keys import PrivateKey
    from serving.signatures.root import Root


ENSEMBLE_TYPE = "application/vnd.ccatune.ensemble+json"
DEPLOYMENT_TYPE = "application/vnd.ccatune.deployment+json"
# Clocks of servers differ. A statement from further in the future is refused, because it could outlive its keys.
_MAX_CLOCK_LEAD_S = 3600
# As many as a role has keys: each may come in an envelope of its own. More would only cost time.
_MAX_ENVELOPES = 64


@dataclass(frozen=True)
class EnsembleStatement:
    """A publisher vouches for the ensemble with this digest."""

    cca: str
    digest: str

    def to_payload(self) -> bytes:
        """Return the bytes that are signed."""
        return canonical_json(asdict(self))

    @staticmethod
    def from_envelope(envelope: Envelope) -> EnsembleStatement:
        """Read the statement, without verifying it. Raises SignatureError."""
        what = "ensemble's signature"
        top = parse_object(_payload(envelope, ENSEMBLE_TYPE), what, ("cca", "digest"))
        statement = EnsembleStatement(cca=name_of(top, "cca", what), digest=digest_of(top, "digest", what))
        require_canonical(envelope.payload, statement.to_payload(), what)
        return statement


@dataclass(frozen=True)
class DeploymentStatement:
    """The registry vouches that a channel stands at this deployment, from `issued_s` to `expires_s`."""

    registry: str
    cca: str
    channel: str
    serial: int
    digest: str
    hold_back_permille: int
    urgent: bool
    issued_s: int
    expires_s: int

    def to_payload(self) -> bytes:
        """Return the bytes that are signed."""
        fields = asdict(self)
        times = {"issued": time_text(fields.pop("issued_s")), "expires": time_text(fields.pop("expires_s"))}
        return canonical_json({**fields, **times})

    @staticmethod
    def from_envelope(envelope: Envelope) -> DeploymentStatement:
        """Read the statement, without verifying it. Raises SignatureError."""
        what = "deployment's signature"
        names = ("registry", "cca", "channel", "serial", "digest", "hold_back_permille", "urgent", "issued", "expires")
        top = parse_object(_payload(envelope, DEPLOYMENT_TYPE), what, names)
        if not isinstance(top["urgent"], bool):
            raise SignatureError(f"{what}: expected urgent as true or false, got {top['urgent']!r:.100}")
        statement = DeploymentStatement(
            registry=name_of(top, "registry", what),
            cca=name_of(top, "cca", what),
            channel=name_of(top, "channel", what),
            serial=whole_number(top, "serial", what, lowest=1),
            digest=digest_of(top, "digest", what),
            hold_back_permille=whole_number(top, "hold_back_permille", what, lowest=0, highest=1000),
            urgent=top["urgent"],
            issued_s=time_of(top, "issued", what),
            expires_s=time_of(top, "expires", what),
        )
        require_canonical(envelope.payload, statement.to_payload(), what)
        return statement


def sign_ensemble(statement: EnsembleStatement, keys: Iterable[PrivateKey]) -> Envelope:
    """Sign an ensemble with publishers' keys."""
    return Envelope.sign(ENSEMBLE_TYPE, statement.to_payload(), keys)


def sign_deployment(statement: DeploymentStatement, key: PrivateKey) -> Envelope:
    """Sign a deployment with the registry's key."""
    return Envelope.sign(DEPLOYMENT_TYPE, statement.to_payload(), [key])


def check_ensemble(root: Root, envelopes: Sequence[Envelope], *, cca: str, digest: str) -> frozenset[str]:
    """Return the publishers' key ids that signed this ensemble. Each envelope may hold some of the signatures.

    Raises:
        SignatureError: an envelope is of something else, or too few signatures hold.
    """
    if len(envelopes) > _MAX_ENVELOPES:
        raise SignatureError(f"ensemble: expected at most {_MAX_ENVELOPES} envelopes, got {len(envelopes)}")
    expected = EnsembleStatement(cca, digest)
    for envelope in envelopes:
        found = EnsembleStatement.from_envelope(envelope)
        if found != expected:
            raise SignatureError(
                f"ensemble's signature: expected one of {cca} {digest}, got one of {found.cca} {found.digest}"
            )
    return root.require_signers(list(envelopes), "publisher", f"ensemble {digest[:19]}")


def check_deployment(root: Root, envelope: Envelope, *, now_s: float) -> tuple[DeploymentStatement, str]:
    """Return the statement of a deployment, and the id of the registry's key that signed it.

    Raises:
        ExpiredError: the signature holds, but has expired.
        SignatureError: the signature does not hold, or the statement is of another registry or from the future.
            Two keys signed it: an agent keeps serials for each key, and a removed signature would change the key.
    """
    statement = DeploymentStatement.from_envelope(envelope)
    what = f"deployment {statement.channel} serial {statement.serial}"
    signers = root.require_signers([envelope], "registry", what)
    if len(signers) > 1:
        raise SignatureError(f"{what}: expected the signature of one key of the registry, got {len(signers)}")
    if statement.registry != root.registry:
        raise SignatureError(f"{what}: expected a deployment of registry {root.registry}, got {statement.registry}")
    if statement.issued_s > now_s + _MAX_CLOCK_LEAD_S:
        raise SignatureError(
            f"{what}: expected a signature from before {time_text(int(now_s))}, got one from "
            f"{time_text(statement.issued_s)}; compare the clocks of registry and agent"
        )
    if now_s >= statement.expires_s:
        raise ExpiredError(
            f"{what}: expected a signature that holds at {time_text(int(now_s))}, it expired at "
            f"{time_text(statement.expires_s)}; is the registry cut off, or a clock wrong?"
        )
    return statement, min(signers)


def _payload(envelope: Envelope, payload_type: str) -> bytes:
    if envelope.payload_type != payload_type:
        raise SignatureError(f"envelope: expected {payload_type}, got {envelope.payload_type!r:.100}")
    return envelope.payload
