# SPDX-License-Identifier: MIT
"""A table: one ensemble and its deployment. The registry offers it, the agent stores it and writes it to the kernel.

`Serials` protects against replayed offers. It holds the highest serial of each registry name and channel:

    serial < highest                       refused: an older deployment is offered again
    serial = highest, another digest       refused: one serial names one ensemble
    serial > highest + 2^32                refused: not plausible, it would lock out every later deployment
    otherwise                              accepted; the serial is remembered on disk before the table is written

With a root document the serials of each of the registry's keys are remembered apart. What counts is the highest one of
the keys that the document names, so that a signature by one key does not undo a later one by another. The serials of a
key that was removed bind nobody, which is the way out after a stolen key has signed a serial that is far too high.

A registry's name that was not seen before has the highest serial 0. The serials of a name stay known when the registry
changes, so that an old deployment cannot return by way of another name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from kmod.ensemble import Deployment, Ensemble, table_text, without_urgent_mark

# A registry that moves a channel every second reaches this distance after 136 years.
MAX_ADVANCE = 2**32
# Bounds the file of the serials. Each name comes from an offer.
MAX_NAMES = 256


def text_sha256(text: str) -> str:
    """Return the SHA-256 of a table's text, in hexadecimal.

    The mark `urgent` does not count: it says when flows apply a table, not which table it is.
    """
    return hashlib.sha256(without_urgent_mark(text).encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Signed:
    """The signatures that an offer had when the agent verified it. They are stored with the table.

    key_id: the registry's key that signed the deployment. expires_s: until when it holds, in seconds since 1970.
    pinned_sha256: SHA-256 of the pinned root document under whose chain the signatures were verified.
    deployment, ensemble: the envelopes, as JSON data. root_version: the version of the root document at that time.
    """

    key_id: str
    expires_s: int
    pinned_sha256: str
    deployment: dict[str, Any]
    ensemble: tuple[dict[str, Any], ...]
    root_version: int


@dataclass(frozen=True)
class Table:
    """An ensemble and the deployment that it belongs to.

    The constructor also makes the text, and raises EnsembleError where the text would exceed 256 KiB.
    signed: the verified signatures; None if the agent has no root document. They do not make it another table.
    """

    ensemble: Ensemble
    deployment: Deployment
    signed: Signed | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _ = self.text

    @cached_property
    def text(self) -> str:
        """The text that is written to the kernel, and that the kernel must read back."""
        return table_text(self.ensemble, self.deployment)

    @cached_property
    def text_sha256(self) -> str:
        """SHA-256 of the text without the mark `urgent`, in hexadecimal."""
        return text_sha256(self.text)

    @property
    def channel(self) -> str:
        """The registry's name and the channel, e.g. `local/champion`."""
        return f"{self.deployment.registry}/{self.deployment.channel}"

    @property
    def name(self) -> str:
        """A description of the table, e.g. `local/champion serial 3 (sha256:0123456789ab)`."""
        return f"{self.channel} serial {self.deployment.serial} ({self.ensemble.digest[:19]})"

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON data; the inverse of from_json."""
        signed = None if self.signed is None else asdict(self.signed)
        return {"ensemble": self.ensemble.to_json(), "deployment": asdict(self.deployment), "signed": signed}

    @staticmethod
    def from_json(data: Any) -> Table:
        """Build a table from JSON data, without verifying its signatures.

        Raises EnsembleError where a range or the digest is wrong, KeyError or TypeError where a field is missing or of
        another type.
        """
        ensemble, deployment = Ensemble.from_json(data["ensemble"]), Deployment(**data["deployment"])
        signed = data["signed"]
        if signed is not None:
            signed = Signed(**{**signed, "ensemble": tuple(signed["ensemble"])})
        return Table(ensemble, deployment, signed)


@dataclass(frozen=True)
class Seen:
    """The highest serial under one name, and the digest of its ensemble."""

    serial: int
    digest: str


@dataclass(frozen=True)
class Serials:
    """The highest serials by `REGISTRY/CHANNEL`, or `KEY_ID:REGISTRY/CHANNEL` of signed offers.

    No name can contain a slash or a colon.
    """

    highest: Mapping[str, Seen] = field(default_factory=dict)

    def why_refused(self, table: Table, *, key_ids: Collection[str] = ()) -> str | None:
        """Return why an offer of this table is refused, or None where it is accepted.

        key_ids: the registry's keys, by the root document.
        """
        name, offered = _name(table), table.deployment.serial
        if name not in self.highest and len(self.highest) >= MAX_NAMES:
            return (
                f"expected at most {MAX_NAMES} registry names, got {name} as well; set --registry-name, "
                "then `ccatune-agent forget`"
            )
        seen = self._highest_of(table, key_ids)
        if offered < seen.serial:
            return (
                f"expected serial {seen.serial} of {name} or a later one, got {offered}, which is older; "
                f"move the channel past {seen.serial}, or, if the registry was restored, `ccatune-agent forget`"
            )
        if offered == seen.serial and table.ensemble.digest != seen.digest:
            return (
                f"expected serial {offered} of {name} to name {seen.digest[:19]}, got {table.ensemble.digest[:19]}; "
                "move the channel once more, or, if the registry was made anew, `ccatune-agent forget`"
            )
        if offered > seen.serial + MAX_ADVANCE:
            return (
                f"expected a serial of {name} at most 2^32 above {seen.serial}, got {offered}, which is not plausible; "
                "examine the registry"
            )
        return None

    def _highest_of(self, table: Table, key_ids: Collection[str]) -> Seen:
        names = {_name(table)}
        if table.signed is not None:
            names |= {f"{key_id}:{table.channel}" for key_id in key_ids}
        seen = [self.highest[name] for name in sorted(names) if name in self.highest]
        return max(seen, key=lambda one: one.serial, default=Seen(serial=0, digest=""))

    def including(self, table: Table) -> Serials:
        """Return the serials after this table was offered."""
        seen = Seen(serial=table.deployment.serial, digest=table.ensemble.digest)
        return Serials({**self.highest, _name(table): seen})

    def to_json(self) -> dict[str, Any]:
        """Return the serials as JSON data; the inverse of from_json."""
        return {name: asdict(seen) for name, seen in self.highest.items()}

    @staticmethod
    def from_json(data: Any) -> Serials:
        """Build the serials from JSON data. Raises AttributeError or TypeError."""
        return Serials({name: Seen(**seen) for name, seen in data.items()})


def _name(table: Table) -> str:
    return table.channel if table.signed is None else f"{table.signed.key_id}:{table.channel}"
