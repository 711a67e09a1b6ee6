# SPDX-License-Identifier: MIT
"""Writes tables of one CCA to the kernel, and reads them back."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from serving.agent.errors import KernelRefusedError
from serving.agent.kernel import KernelView, errno_in_words, first_difference, look

if TYPE_CHECKING:
    from collections.abc import Callable

    from serving.agent.log import EventLog
    from serving.agent.table import Table
    from serving.agent.tree import Tree

ENSEMBLE_FILE = "ensemble"
CLEAR_TEXT = "clear\n"

# The kernel's serial rule rejects a table with one of these errors. Where a decision permits it (may_clear), the agent
# then clears the table in force.
_IN_THE_WAY_ERRNOS = frozenset({errno.EEXIST, errno.ESTALE})


class TableWriter:
    """Access to the table of one CCA. `kernel` is what was read last."""

    def __init__(self, cca: str, *, tree: Tree, log: EventLog) -> None:
        self._cca = cca
        self._tree = tree
        self._log = log
        self.kernel = KernelView(status=None, text="", parameters={})

    def look(self) -> KernelView:
        """Read the kernel's state, keep it as `kernel`, and return it."""
        self.kernel = look(self._tree, self._cca)
        return self.kernel

    def write_and_read_back(self, table: Table, *, may_clear: bool, why: str, before_clear: Callable[[], None]) -> str:
        """Write the table, read it back, and return the text that was written.

        may_clear: another table may be cleared first, for the reason `why`; `before_clear` is called before that.
        Raises KernelRefusedError where the kernel refuses the table or reads back a different text.
        """
        written = table.text
        try:
            written = self._write(table)
        except OSError as error:
            if not (may_clear and error.errno in _IN_THE_WAY_ERRNOS):
                raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self.look()
        if self.kernel.text != written and may_clear:
            written = self._take_over(table, why, before_clear)
        if self.kernel.text != written:
            raise KernelRefusedError(
                f"the kernel took {table.name} but reads back another text "
                f"({first_difference(self.kernel.text, written)}); "
                "`ccatune-agent resume` clears it and writes anew"
            )
        return written

    def _write(self, table: Table) -> str:
        """Write the table and return the text that the kernel accepted. Raises OSError.

        If the kernel refuses the mark `urgent`, the text is written again without it.
        """
        try:
            self._tree.write(self._cca, ENSEMBLE_FILE, table.text)
        except OSError as error:
            if error.errno != errno.EINVAL or not table.deployment.urgent:
                raise
        else:
            return table.text
        # A module older than the mark rejects it with EINVAL, the errno of every malformed line.
        self._tree.write(self._cca, ENSEMBLE_FILE, table.unmarked_text)
        return table.unmarked_text

    def _take_over(self, table: Table, why: str, before_clear: Callable[[], None]) -> str:
        """Clear the table in force, write `table`, and return the text that was written.

        Called only after an operator's `resume`, or after a new root document has removed the key that signed the table
        in force. If the kernel refuses `table`, the other one is restored.
        The kernel treats every `clear` as urgent.
        """
        theirs = self.kernel.text
        before_clear()
        self._log.event("clearing", cca=self._cca, why=why)
        try:
            self._tree.write(self._cca, ENSEMBLE_FILE, CLEAR_TEXT)
            written = self._write(table)
        except OSError as error:
            self._put_back(theirs)
            raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self.look()
        return written

    def _put_back(self, text: str) -> None:
        try:
            self._tree.write(self._cca, ENSEMBLE_FILE, text)
        except OSError as error:
            self._log.event("put_back_failed", cca=self._cca, error=errno_in_words(error))
