# SPDX-License-Identifier: MIT
"""Keys, root documents and statements for tests. The keys are derived from their names and secret to nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from serving.signatures import DeploymentStatement, Envelope, PrivateKey, Role, RoleName, Root
from serving.signatures.root import ROOT_TYPE

NOW_S = 1_772_366_400  # 2026-03-01T12:00:00Z
DAY_S = 86_400
DIGEST = "sha256:" + "ab" * 32


@cache
def key(name: str) -> PrivateKey:
    """The key of this name."""
    return PrivateKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


def role(names: str, threshold: int = 1) -> Role:
    """A role of the keys of these names, separated by spaces."""
    return Role(frozenset(key(name).public.key_id for name in names.split()), threshold)


def make_root(
    version: int = 1,
    *,
    root: str = "r1",
    publisher: str = "p1",
    registry: str = "s1",
    thresholds: dict[RoleName, int] | None = None,
    of: str = "lab",
    expires_s: int = NOW_S + 365 * DAY_S,
) -> Root:
    """A root document with the keys of these names in its roles."""
    names = {"root": root, "publisher": publisher, "registry": registry}
    least = thresholds or {}
    public = [key(name).public for name in " ".join(names.values()).split()]
    return Root(
        registry=of,
        version=version,
        expires_s=expires_s,
        keys={one.key_id: one for one in public},
        roles={
            "root": role(root, least.get("root", 1)),
            "publisher": role(publisher, least.get("publisher", 1)),
            "registry": role(registry, least.get("registry", 1)),
        },
    )


def signed(root: Root, names: str) -> Envelope:
    """The root document with the signatures of the keys of these names."""
    return Envelope.sign(ROOT_TYPE, root.to_payload(), keys(names))


def keys(names: str) -> Iterable[PrivateKey]:
    """The keys of these names."""
    return [key(name) for name in names.split()]


def make_deployment(**changed: object) -> DeploymentStatement:
    """A deployment of registry `lab` that was signed a minute before NOW_S, for a week."""
    fields: dict[str, object] = {
        "registry": "lab",
        "cca": "gr",
        "channel": "champion",
        "serial": 7,
        "digest": DIGEST,
        "hold_back_permille": 100,
        "urgent": False,
        "issued_s": NOW_S - 60,
        "expires_s": NOW_S + 7 * DAY_S,
    }
    return DeploymentStatement(**{**fields, **changed})  # type: ignore[arg-type]
