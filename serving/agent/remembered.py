# SPDX-License-Identifier: MIT
"""Loads what the state folder holds on one CCA. A damaged file counts as missing, and its damage is described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from serving.agent.decide import Record
from serving.agent.errors import DamagedFileError
from serving.agent.serials import Serials
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, SERIALS

if TYPE_CHECKING:
    from serving.agent.store import Store
    from serving.agent.table import Table

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Remembered:
    """The contents of the state folder for one CCA. `damaged` maps the name of each unusable file to a message.

    serials: None if the folder has no usable file of them, as one of an agent from before this file existed.
    """

    good: Table | None
    pending: Table | None
    record: Record | None
    serials: Serials | None
    damaged: dict[str, str]

    def serials_after(self, good: Table | None) -> Serials:
        """Return the serials, or those that follow from the last known good table where there is no file of them."""
        if self.serials is not None:
            return self.serials
        return Serials() if good is None else Serials().including(good)


def remember(store: Store, cca: str) -> Remembered:
    """Load the files of one CCA.

    Raises StateDirError where a file cannot be read, or where other users may write to the folder.
    """
    store.require_private(cca)
    damaged: dict[str, str] = {}

    def table(name: str) -> Table | None:
        try:
            return store.load_table(cca, name)
        except DamagedFileError as error:
            damaged[name] = str(error)
            return None

    def parsed(name: str, parse: Callable[[object], _Kind]) -> _Kind | None:
        try:
            data = store.load(cca, name)
            return parse(data) if data is not None else None
        except DamagedFileError as error:
            damaged[name] = str(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            damaged[name] = f"{name} of {cca} holds no {name} and is not used: {error!r}"
        return None

    return Remembered(
        good=table(LAST_KNOWN_GOOD),
        pending=table(PENDING),
        record=parsed(RECORD, Record.from_json),
        serials=parsed(SERIALS, Serials.from_json),
        damaged=damaged,
    )
