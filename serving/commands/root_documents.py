# SPDX-License-Identifier: MIT
"""Makes root documents and their next versions, and states what a document's signatures are worth.

A document needs the signatures of enough of its own root keys. From version 2 on it also needs enough of those of the
version before, which only that version can tell: commands take it as `--previous`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from serving.signatures import ROLES, Envelope, PublicKey, Role, RoleName, Root, SignatureError, SignedRoot

_KEY_ID = re.compile(r"[0-9a-f]{8,64}")

Keys = Mapping[RoleName, Iterable[PublicKey]]


def first_root(registry: str, keys: Keys, *, thresholds: Mapping[RoleName, int], expires_s: int) -> Root:
    """Return version 1 of a registry's root document. Raises SignatureError."""
    members = {name: {key.key_id: key for key in keys.get(name, ())} for name in ROLES}
    return _root(registry, 1, members, thresholds=thresholds, expires_s=expires_s)


def next_root(
    old: Root,
    *,
    added: Keys,
    removed: Mapping[RoleName, Iterable[str]],
    thresholds: Mapping[RoleName, int],
    expires_s: int,
) -> Root:
    """Return the version after `old`. Raises SignatureError.

    removed: the first digits of key ids, at least 8. thresholds: those that change.
    """
    members = {name: old.keys_of(name) for name in ROLES}
    for name in ROLES:
        for word in removed.get(name, ()):
            del members[name][_member(members[name], name, word)]
        for key in added.get(name, ()):
            if key.key_id in members[name]:
                raise SignatureError(f"role {name}: expected a key that it lacks, got {key.key_id[:16]}")
            members[name][key.key_id] = key
    kept = {name: old.roles[name].threshold for name in ROLES}
    return _root(old.registry, old.version + 1, members, thresholds={**kept, **thresholds}, expires_s=expires_s)


def require_previous(root: Root, previous: Root) -> None:
    """Check that `previous` is the version before `root`. Raises SignatureError."""
    if (previous.registry, previous.version + 1) != (root.registry, root.version):
        raise SignatureError(
            f"--previous: expected version {root.version - 1} of {root.registry}, got version {previous.version} of "
            f"{previous.registry}"
        )


def require_signed(envelope: Envelope) -> Root:
    """Return the document if enough of its own root keys have signed it. Raises SignatureError."""
    try:
        return SignedRoot.first(envelope).root
    except SignatureError as error:
        raise SignatureError(f"{error}; `ccatune root sign` adds signatures") from error


def status_of(root: Root, envelope: Envelope, *, previous: Root | None, now_s: float) -> dict[str, Any]:
    """Return the content of a document, and which of the needed signatures it has.

    Only root keys sign root documents, so `signed` is None for the other keys.
    `is_complete` is None where that depends on the previous version, which is not given.
    """
    signers = envelope.signers(root.keys_of("root"))
    needs = [_need(root, envelope)]
    if previous is not None:
        require_previous(root, previous)
        needs.append(_need(previous, envelope))
    is_known = root.version == 1 or previous is not None
    is_complete = all(need["is_met"] for need in needs)
    return {
        "registry": root.registry,
        "version": root.version,
        "expires": root.to_json()["expires"],
        "is_expired": root.is_expired(now_s=now_s),
        "thresholds": {name: root.roles[name].threshold for name in ROLES},
        "keys": [
            {
                "role": name,
                "key_id": key_id,
                "public": key.text,
                "signed": key_id in signers if name == "root" else None,
            }
            for name in ROLES
            for key_id, key in sorted(root.keys_of(name).items())
        ],
        "needs": needs,
        "is_complete": is_complete if is_known or not is_complete else None,
    }


def _need(root: Root, envelope: Envelope) -> dict[str, Any]:
    found = sorted(envelope.signers(root.keys_of("root")))
    needed = root.roles["root"].threshold
    return {"version": root.version, "needed": needed, "key_ids": found, "is_met": len(found) >= needed}


def _member(members: Mapping[str, PublicKey], name: RoleName, word: str) -> str:
    """Return the full id of the role's key whose id begins with `word`.

    Raises SignatureError unless `word` has at least 8 hexadecimal digits and exactly one key matches.
    """
    found = [key_id for key_id in members if _KEY_ID.fullmatch(word) and key_id.startswith(word)]
    if len(found) != 1:
        known = ", ".join(key_id[:16] for key_id in sorted(members)) or "none"
        raise SignatureError(
            f"role {name}: expected the id of one of its keys ({known}), at least 8 digits, got {word!r:.100}"
        )
    return found[0]


def _root(
    registry: str,
    version: int,
    members: Mapping[RoleName, Mapping[str, PublicKey]],
    *,
    thresholds: Mapping[RoleName, int],
    expires_s: int,
) -> Root:
    root = Root(
        registry=registry,
        version=version,
        expires_s=expires_s,
        keys={key_id: key for name in ROLES for key_id, key in members[name].items()},
        roles={name: Role(frozenset(members[name]), thresholds.get(name, 1)) for name in ROLES},
    )
    return Root.from_payload(root.to_payload())
