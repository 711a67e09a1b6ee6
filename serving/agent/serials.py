# SPDX-License-Identifier: MIT
"""Protection against replayed offers: the highest serial that was offered under each registry name and channel.

    serial < highest                       refused: an older deployment is offered again
    serial = highest, another digest       refused: one serial names one ensemble
    serial > highest + 2^32                refused: not plausible, it would lock out every later deployment
    otherwise                              accepted; the serial is remembered on disk before the table is written

With a root document the serials of each of the registry's keys are remembered apart. What counts is the highest one of
the keys that the document names, so that a signature by one key does not undo a later one by another. The serials of a
key that was removed bind nobody, which is the way out after a stolen key has signed a serial that is far too high.

A registry's name that was not seen before has the highest serial 0. The serials of a name stay known when the registry
changes, so that an old deployment cannot return by way of another name. An operator can delete them by
`ccatune-agent forget`. Where the state folder has no file of them, the last known good table gives the first entry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from serving.agent.errors import OfferRefusedError

if TYPE_CHECKING:
    from serving.agent.table import Table

# A registry that moves a channel every second reaches this distance after 136 years.
MAX_ADVANCE = 2**32
# Bounds the file. Each name comes from an offer.
MAX_NAMES = 256


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

    def check(self, table: Table, *, key_ids: Collection[str] = ()) -> None:
        """Raise OfferRefusedError where an offer of this table is refused. key_ids: as for why_refused."""
        why = self.why_refused(table, key_ids=key_ids)
        if why is not None:
            raise OfferRefusedError(f"the registry's offer is refused: {why}")

    def _highest_of(self, table: Table, key_ids: Collection[str]) -> Seen:
        names = {_name(table)}
        if table.signed is not None:
            names |= {f"{key_id}:{_channel(table)}" for key_id in key_ids}
        seen = [self.highest[name] for name in sorted(names) if name in self.highest]
        return max(seen, key=lambda one: one.serial, default=Seen(serial=0, digest=""))

    def including(self, table: Table) -> Serials:
        """Return the serials after this table was offered."""
        seen = Seen(serial=table.deployment.serial, digest=table.ensemble.digest)
        return Serials({**self.highest, _name(table): seen})

    def to_json(self) -> dict[str, Any]:
        """Return the serials as JSON data; the inverse of from_json."""
        return {name: {"serial": seen.serial, "digest": seen.digest} for name, seen in self.highest.items()}

    @staticmethod
    def from_json(data: Any) -> Serials:
        """Build the serials from JSON data. Raises AttributeError, KeyError, TypeError or ValueError."""
        return Serials(
            {str(name): Seen(serial=int(seen["serial"]), digest=str(seen["digest"])) for name, seen in data.items()}
        )


def check_registry_name(table: Table, registry_name: str) -> None:
    """Raise OfferRefusedError unless the table is of this registry. An empty name accepts any registry."""
    came = table.deployment.registry
    if registry_name and came != registry_name:
        raise OfferRefusedError(
            f"the registry's offer is refused: expected the registry's name {registry_name}, got {came}; "
            "correct --registry-name, or --url"
        )


def _name(table: Table) -> str:
    key = "" if table.signed is None else f"{table.signed.key_id}:"
    return f"{key}{_channel(table)}"


def _channel(table: Table) -> str:
    return f"{table.deployment.registry}/{table.deployment.channel}"
