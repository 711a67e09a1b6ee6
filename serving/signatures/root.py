# SPDX-License-Identifier: MIT
"""The root document: the keys of each role, and the chain of its versions (as in The Update Framework).

    {"registry": NAME, "version": N, "expires": TIME,
     "keys":  {KEY_ID: PUBLIC_KEY, ...},
     "roles": {"root":      {"key_ids": [...], "threshold": T},      signs the next root document
               "publisher": {"key_ids": [...], "threshold": T},      signs ensembles, offline
               "registry":  {"key_ids": [...], "threshold": 1}}}     signs deployments, on the registry's server

Version N+1 follows version N if it is of the same registry, and enough root keys of N and of N+1 have signed it.
The registry's key is on a server that others reach, so it holds no other role, and one signature of it is enough.
A role may have no keys, except `root`. Nothing is then accepted in that role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kmod.ensemble import canonical_json
from serving.signatures._fields import (
    name_of,
    parse_object,
    require_canonical,
    require_name,
    require_object,
    time_of,
    time_text,
    whole_number,
)
from serving.signatures.envelope import Envelope
from serving.signatures.errors import SignatureError
from serving.signatures.keys import PublicKey

ROOT_TYPE = "application/vnd.ccatune.root+json"
RoleName = Literal["root", "publisher", "registry"]
ROLES: tuple[RoleName, ...] = ("root", "publisher", "registry")
_MAX_KEYS = 64


@dataclass(frozen=True)
class Role:
    """The keys that may sign, and how many of them must."""

    key_ids: frozenset[str]
    threshold: int = 1


@dataclass(frozen=True)
class Root:
    """The content of a root document. Raises SignatureError where a rule of this module is broken."""

    registry: str
    version: int
    expires_s: int
    keys: Mapping[str, PublicKey]
    roles: Mapping[RoleName, Role]

    def __post_init__(self) -> None:
        require_name(self.registry, "registry", "root")
        if len(self.keys) > _MAX_KEYS:
            raise SignatureError(f"root: expected at most {_MAX_KEYS} keys, got {len(self.keys)}")
        for key_id, key in self.keys.items():
            if key.key_id != key_id:
                raise SignatureError(f"root: expected the id {key.key_id} of a key, got {key_id!r:.100}")
        for name in ROLES:
            self._check_role(name)
        others = self.roles["root"].key_ids | self.roles["publisher"].key_ids
        if shared := others & self.roles["registry"].key_ids:
            raise SignatureError(
                f"root: expected the registry's key in no other role, got {min(shared)[:16]}; make a key for it alone"
            )

    def _check_role(self, name: RoleName) -> None:
        role = self.roles[name]
        if not role.key_ids <= self.keys.keys():
            raise SignatureError(f"root: expected the role {name} to name keys from `keys`, it names another one")
        most = max(1, len(role.key_ids))
        if not 1 <= role.threshold <= most:
            raise SignatureError(f"root: expected a threshold of {name} from 1 to {most}, got {role.threshold}")
        if name == "root" and not role.key_ids:
            raise SignatureError("root: expected at least one root key, got none")
        if name == "registry" and role.threshold != 1:
            raise SignatureError(f"root: expected the threshold 1 of the role registry, got {role.threshold}")

    def keys_of(self, role: RoleName) -> dict[str, PublicKey]:
        """Return the keys of a role, by id."""
        return {key_id: self.keys[key_id] for key_id in self.roles[role].key_ids}

    def is_expired(self, *, now_s: float) -> bool:
        """Whether the document may not be used any more."""
        return now_s >= self.expires_s

    def require_signers(self, envelopes: list[Envelope], role: RoleName, what: str) -> frozenset[str]:
        """Return the keys of the role that signed the payload of all these envelopes.

        Raises SignatureError where they are too few, or where the envelopes are of different payloads.
        """
        if len({(envelope.payload_type, envelope.payload) for envelope in envelopes}) > 1:
            raise SignatureError(f"{what}: expected signatures of one payload, got several payloads")
        keys = self.keys_of(role)
        found = frozenset[str]().union(*(envelope.signers(keys) for envelope in envelopes))
        needed = self.roles[role].threshold
        if len(found) < needed:
            raise SignatureError(
                f"{what}: expected the signature of {needed} of the {len(keys)} keys of the role {role} in version "
                f"{self.version} of the root document of {self.registry}, got {len(found)} that hold"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the document as JSON data; the inverse of from_payload."""
        return {
            "registry": self.registry,
            "version": self.version,
            "expires": time_text(self.expires_s),
            "keys": {key_id: key.text for key_id, key in self.keys.items()},
            "roles": {
                name: {"key_ids": sorted(self.roles[name].key_ids), "threshold": self.roles[name].threshold}
                for name in ROLES
            },
        }

    def to_payload(self) -> bytes:
        """Return the bytes that are signed."""
        return canonical_json(self.to_json())

    @staticmethod
    def from_payload(payload: bytes) -> Root:
        """Build the document from an envelope's payload. Raises SignatureError."""
        top = parse_object(payload, "root", ("registry", "version", "expires", "keys", "roles"))
        keys, roles = top["keys"], require_object(top["roles"], "root: roles", ROLES)
        if not isinstance(keys, dict) or len(keys) > _MAX_KEYS:
            raise SignatureError(f"root: expected keys as an object of at most {_MAX_KEYS} key ids")
        root = Root(
            registry=name_of(top, "registry", "root"),
            version=whole_number(top, "version", "root", lowest=1),
            expires_s=time_of(top, "expires", "root"),
            keys={key_id: PublicKey.from_text(key) for key_id, key in keys.items()},
            roles={name: _role(roles[name], name) for name in ROLES},
        )
        require_canonical(payload, root.to_payload(), "root")
        return root


@dataclass(frozen=True)
class SignedRoot:
    """A root document with the signatures that make it valid."""

    root: Root
    envelope: Envelope

    @staticmethod
    def first(envelope: Envelope) -> SignedRoot:
        """Return a document that is trusted because an operator chose it. Raises SignatureError.

        Enough of its own root keys must have signed it, so that a damaged file is refused.
        """
        root = _content(envelope)
        root.require_signers([envelope], "root", f"root document {root.version}")
        return SignedRoot(root, envelope)

    def next(self, envelope: Envelope) -> SignedRoot:
        """Return the document of the next version. Raises SignatureError where it does not follow this one."""
        root = _content(envelope)
        if root.registry != self.root.registry:
            raise SignatureError(f"root: expected a document of {self.root.registry}, got one of {root.registry}")
        if root.version != self.root.version + 1:
            raise SignatureError(f"root: expected version {self.root.version + 1}, got {root.version}")
        for keys in (self.root, root):
            keys.require_signers([envelope], "root", f"root document {root.version}")
        return SignedRoot(root, envelope)


def _content(envelope: Envelope) -> Root:
    if envelope.payload_type != ROOT_TYPE:
        raise SignatureError(f"root: expected an envelope of {ROOT_TYPE}, got {envelope.payload_type!r:.100}")
    return Root.from_payload(envelope.payload)


def _role(data: object, name: RoleName) -> Role:
    what = f"root: role {name}"
    top = require_object(data, what, ("key_ids", "threshold"))
    ids = top["key_ids"]
    is_list = isinstance(ids, list) and all(isinstance(key_id, str) for key_id in ids)
    if not is_list or ids != sorted(set(ids)):
        raise SignatureError(f"{what}: expected key_ids as a sorted list that names each key once")
    return Role(frozenset(ids), whole_number(top, "threshold", what, lowest=1, highest=_MAX_KEYS))
