# SPDX-License-Identifier: MIT
"""Saves the files of one CCA in the state folder, and remembers which of them could not be saved.

A failure never stops the agent: it is logged once, the report names it, and the agent tries again at every check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from serving.agent.errors import StateDirError
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from serving.agent.log import EventLog
    from serving.agent.store import Request, Store


class CcaFiles:
    """The files of one CCA. No method raises where a file cannot be written."""

    def __init__(self, cca: str, *, store: Store, log: EventLog) -> None:
        self._cca = cca
        self._store = store
        self._log = log
        self._unsaved: dict[str, str] = {}

    @property
    def has_unsaved(self) -> bool:
        """Whether a file could not be saved, or a request could not be deleted."""
        return bool(self._unsaved)

    @property
    def why_unsaved(self) -> str | None:
        """The first failure, or None. That the report itself is not saved shows in the age of its file."""
        return next((text for name, text in self._unsaved.items() if name != STATE), None)

    def is_unsaved(self, name: str) -> bool:
        """Whether the last attempt to save this file failed."""
        return name in self._unsaved

    def save(self, name: str, data: object) -> bool:
        """Store a file, and return whether this succeeded."""
        try:
            self._store.save(self._cca, name, data)
        except StateDirError as error:
            self._note(name, error)
            return False
        self.ignore(name)
        return True

    def promote(self) -> bool:
        """Make `pending` the last known good table, and return whether this succeeded."""
        try:
            self._store.promote(self._cca)
        except StateDirError as error:
            self._note(LAST_KNOWN_GOOD, error)
            return False
        self.ignore(LAST_KNOWN_GOOD)
        return True

    def ignore(self, name: str) -> None:
        """Forget that a file is not saved, because nothing needs it any more."""
        self._unsaved.pop(name, None)

    def discard_pending(self) -> None:
        """Delete `pending`.

        A failure is only logged: the next start deletes the file, because the kernel does not hold its text.
        """
        self.ignore(PENDING)
        try:
            self._store.discard(self._cca, PENDING)
        except StateDirError as error:
            self._log.event("not_discarded", cca=self._cca, error=str(error))

    def confirm(self, name: str) -> None:
        """Renew the time of a file."""
        try:
            self._store.confirm(self._cca, name)
        except StateDirError as error:
            self._note(name, error)

    def take(self, request: Request) -> bool:
        """Whether an operator left this request. It is then deleted; one that cannot be deleted is not carried out."""
        if not self._store.is_asked_to(request, self._cca):
            return False
        try:
            self._store.withdraw(request, self._cca)
        except StateDirError as error:
            self._note(request, error)
            return False
        self.ignore(request)
        return True

    def tidy(self, damaged: Sequence[str]) -> None:
        """Delete temporary files of a killed agent, and rename damaged files. A failure is only logged."""
        try:
            for name in self._store.remove_leftovers(self._cca):
                self._log.event("leftover_removed", cca=self._cca, file=name)
            for name in damaged:
                self._store.set_aside(self._cca, name)
        except StateDirError as error:
            self._log.event("not_tidied", cca=self._cca, error=str(error))

    def _note(self, name: str, error: StateDirError) -> None:
        if self._unsaved.get(name) != str(error):
            self._log.event("not_kept", cca=self._cca, error=str(error))
        self._unsaved[name] = str(error)
