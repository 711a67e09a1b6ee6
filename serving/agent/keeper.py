# SPDX-License-Identifier: MIT
"""Keeps the table of one CCA: carries out what decide.py says, and remembers it on disk.

The order of an application is what makes a kill at any moment harmless:

    save `pending` -> write to the kernel -> read back -> rename to `last-known-good` -> save `record`

A kill before the kernel's write leaves the old table in force and the old last
known good; after it, the kernel holds `pending`, which the next start finds
and promotes. Everything here is called from one thread.
"""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from serving.agent.decide import Decision, Record, Refusal, Situation, State, decide
from serving.agent.errors import DamagedFileError, KernelRefusedError, StateDirError
from serving.agent.kernel import KernelView, errno_in_words, first_difference, look, look_at_status, text_sha256
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, STATE

if TYPE_CHECKING:
    from serving.agent.log import EventLog
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.agent.tree import Tree

ENSEMBLE_FILE = "ensemble"
CLEAR_TEXT = "clear\n"

# The kernel may take the same text later; any other refusal stays until table, offer or module changes.
_TRANSIENT_ERRNOS = frozenset({errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOENT})
_MAX_ERROR_CHARACTERS = 1000
# An operator's `resume` may clear a table in the way: these say that one is.
_IN_THE_WAY_ERRNOS = frozenset({errno.EEXIST, errno.ESTALE})


@dataclass(frozen=True)
class CcaReport:
    """What is told to the registry and shown by `status`: what was offered, what is in force, and what is wrong.

    Digests are None and serials 0 where there is no table; `error` is None when nothing is wrong.
    effective_urgent: whether the table in force bears the mark `urgent`. `status` shows it; a registry leaves it aside.
    """

    cca: str
    channel: str
    offered_digest: str | None
    offered_serial: int
    effective_digest: str | None
    effective_serial: int
    effective_urgent: bool
    state: State
    error: str | None
    kernel_version: str
    module_version: str | None
    agent_version: str | None

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class _Link:
    """What the registry last said: `state` holds where nothing of the kernel's stands in the way."""

    state: State
    error: str | None = None


@dataclass(frozen=True)
class Remembered:
    """What the state folder holds of one CCA; `damaged` are the messages of files that were not used."""

    good: Table | None
    pending: Table | None
    record: Record | None
    damaged: dict[str, str]


def remember(store: Store, cca: str) -> Remembered:
    """Load what the state folder holds; damaged files count as missing and are named."""
    damaged: dict[str, str] = {}
    tables: dict[str, Table | None] = {}
    for name in (LAST_KNOWN_GOOD, PENDING):
        try:
            tables[name] = store.load_table(cca, name)
        except DamagedFileError as error:
            tables[name] = None
            damaged[name] = str(error)
    record = None
    try:
        data = store.load(cca, RECORD)
        record = Record.from_json(data) if data is not None else None
    except DamagedFileError as error:
        damaged[RECORD] = str(error)
    except (KeyError, TypeError, ValueError) as error:
        damaged[RECORD] = f"{RECORD} of {cca} holds no record and is not used: {error!r}"
    return Remembered(good=tables[LAST_KNOWN_GOOD], pending=tables[PENDING], record=record, damaged=damaged)


class Keeper:
    """The state of one CCA and the only writer of its table."""

    def __init__(self, cca: str, *, channel: str, tree: Tree, store: Store, log: EventLog, boot_id: str) -> None:
        self.cca = cca
        self._channel = channel
        self._tree = tree
        self._store = store
        self._log = log
        self._boot_id = boot_id
        self._good: Table | None = None
        self._offer: Table | None = None
        self._record: Record | None = None
        self._refusal: Refusal | None = None
        self._resume = False
        self._link = _Link(State.STARTING)
        self._blocked: Decision | None = None
        self._damaged: str | None = None
        self._kernel = KernelView(status=None, text="", parameters={})
        self._published: CcaReport | None = None

    # -- events ----------------------------------------------------------------

    def start(self) -> None:
        """Recover from whatever the last run was killed in, and apply the last known good at once."""
        for name in self._store.remove_leftovers(self.cca):
            self._log.event("leftover_removed", cca=self.cca, file=name)
        remembered = remember(self._store, self.cca)
        for name, message in remembered.damaged.items():
            self._log.event("damaged", cca=self.cca, file=name, error=message)
            self._store.set_aside(self.cca, name)
        self._damaged = remembered.damaged.get(LAST_KNOWN_GOOD)
        self._good, self._record = remembered.good, remembered.record
        self._kernel = look(self._tree, self.cca)
        self._settle(remembered.pending)
        self.step()

    def offered(self, table: Table) -> None:
        """The registry offers this table."""
        self._link = _Link(State.IN_SYNC)
        self._offer = table
        self.step()

    def unchanged(self) -> None:
        """The registry says that the last offer still stands."""
        if self._link.state is not State.IN_SYNC:
            self._link = _Link(State.IN_SYNC)
            self.step()

    def offer_refused(self, error: str) -> None:
        """An offer came that failed the agent's own checks."""
        self._link = _Link(State.REJECTED, error)
        self.step()

    def unavailable(self, error: str) -> None:
        """No usable answer came from the registry."""
        self._link = _Link(State.OFFLINE, error)
        self.step()

    def resume(self) -> None:
        """An operator gives the table back to the agent, also where the kernel's serial rule forbids it."""
        self._log.event("resume", cca=self.cca)
        self._resume = True
        self.step()

    def check(self) -> None:
        """Look whether anything changed below us or an operator asks to resume; cheap when nothing did."""
        if self._store.is_asked_to_resume(self.cca):
            self._store.forget_resume(self.cca)
            self.resume()
            return
        retry = self._refusal is not None and self._refusal.retry
        if retry or look_at_status(self._tree, self.cca) != self._kernel.status:
            self.step()

    # -- the one step ----------------------------------------------------------

    def step(self) -> None:
        """Look at the kernel, decide, do it, and tell."""
        self._kernel = look(self._tree, self.cca)
        decision = decide(self._situation())
        if decision.action == "apply" and decision.table is not None:
            decision = self._apply(decision, decision.table)
        # An operator's word holds until there is a table that it can be spent on.
        self._resume = self._resume and decision.table is None
        self._blocked = decision if decision.blocked is not None else None
        if decision.blocked is None and decision.table is not None:
            self._keep(decision.table)
        self._publish()

    def _situation(self) -> Situation:
        return Situation(
            channel=self._channel,
            kernel=self._kernel,
            boot_id=self._boot_id,
            good=self._good,
            offer=self._offer,
            record=self._record,
            refusal=self._refusal,
            resume=self._resume,
        )

    def _settle(self, pending: Table | None) -> None:
        """Finish an application that a kill interrupted: what the kernel took is good, anything else is dropped."""
        if pending is None:
            return
        if self._kernel.holds(pending):
            self._store.promote(self.cca)
            self._good = pending
            self._log.event("recovered", cca=self.cca, table=pending.name)
        else:
            self._discard_pending()

    def _apply(self, decision: Decision, table: Table) -> Decision:
        """Write the table and read it back; returns the decision as it came out."""
        before = self._kernel
        try:
            if self._good is None or self._good.text != table.text:
                self._store.save(self.cca, PENDING, table.to_json())
            written = self._write_and_read_back(table, may_clear=decision.may_clear)
        except (KernelRefusedError, StateDirError) as error:
            self._discard_pending()
            cause = error.__cause__
            retry = isinstance(error, StateDirError) or (
                isinstance(cause, OSError) and cause.errno in _TRANSIENT_ERRNOS
            )
            self._refusal = Refusal(
                text_sha256=table.text_sha256,
                kernel_text_sha256=before.text_sha256,
                module=before.status.module if before.status is not None else "",
                why=str(error),
                retry=retry,
            )
            return Decision("nothing", str(error), table=table, blocked=State.REJECTED)
        self._refusal = None
        self._log_application(table, written, why=decision.why)
        return Decision("nothing", decision.why, table=table)

    def _write_and_read_back(self, table: Table, *, may_clear: bool) -> str:
        """Return the text written. Raises KernelRefusedError unless the kernel reads it back byte for byte."""
        written = table.text
        try:
            written = self._write(table)
        except OSError as error:
            if not (may_clear and error.errno in _IN_THE_WAY_ERRNOS):
                raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self._kernel = look(self._tree, self.cca)
        if self._kernel.text != written and may_clear:
            written = self._take_over(table)
        if self._kernel.text != written:
            raise KernelRefusedError(
                f"the kernel took {table.name} but reads back another text "
                f"({first_difference(self._kernel.text, written)}); "
                "`ccatune agent resume` clears it and writes anew"
            )
        return written

    def _write(self, table: Table) -> str:
        """Return the text that the kernel took: without the mark `urgent` where it refuses the mark. Raises OSError."""
        try:
            self._tree.write(self.cca, ENSEMBLE_FILE, table.text)
        except OSError as error:
            if error.errno != errno.EINVAL or not table.deployment.urgent:
                raise
        else:
            return table.text
        # A module that was made before the mark has no other errno for it than for any malformed line.
        self._tree.write(self.cca, ENSEMBLE_FILE, table.unmarked_text)
        return table.unmarked_text

    def _log_application(self, table: Table, written: str, *, why: str) -> None:
        is_marked = written == table.text and table.deployment.urgent
        self._log.event("applied", cca=self.cca, table=table.name, urgent=is_marked or None, why=why)
        if written != table.text:
            module = self._kernel.status.module if self._kernel.status is not None else "unknown"
            self._log.event(
                "urgent_refused",
                cca=self.cca,
                table=table.name,
                warning=f"the running module ({module}) does not know the mark `urgent`: the table is in force without "
                "it, and running flows take it only at the end of their epoch, which may last an hour; "
                "install the current modules (dkms install ccatune)",
            )

    def _take_over(self, table: Table) -> str:
        """Clear the table in the way, on an operator's word, and write the offered one; returns the text written.

        The operator's table is put back if the offered one is refused. The kernel takes every `clear` as urgent.
        """
        theirs = self._kernel.text
        self._save_record(self._record_of(table.text, taking_over=True))
        self._log.event("clearing", cca=self.cca, why="an operator gave the table back to the agent")
        try:
            self._tree.write(self.cca, ENSEMBLE_FILE, CLEAR_TEXT)
            written = self._write(table)
        except OSError as error:
            self._put_back(theirs)
            raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self._kernel = look(self._tree, self.cca)
        return written

    def _put_back(self, text: str) -> None:
        try:
            self._tree.write(self.cca, ENSEMBLE_FILE, text)
        except OSError as error:
            self._log.event("put_back_failed", cca=self.cca, error=errno_in_words(error))

    # -- memory and reports ----------------------------------------------------

    def _keep(self, table: Table) -> None:
        """The kernel reads back `table` (or its own earlier table stands where there is nothing to apply)."""
        if not self._kernel.holds(table) or self._kernel.status is None:
            return
        try:
            if self._good is None or self._good.text != table.text:
                self._store.save(self.cca, PENDING, table.to_json())
                self._store.promote(self.cca)
                self._good, self._damaged = table, None
            self._save_record(self._record_of(self._kernel.text))
        except StateDirError as error:
            self._log.event("not_kept", cca=self.cca, error=str(error))

    def _discard_pending(self) -> None:
        """Left behind, it would be dropped at the next start: the kernel does not hold its text."""
        try:
            self._store.discard(self.cca, PENDING)
        except StateDirError as error:
            self._log.event("not_discarded", cca=self.cca, error=str(error))

    def _record_of(self, text: str, *, taking_over: bool = False) -> Record:
        status = self._kernel.status
        return Record(
            boot_id=self._boot_id,
            generation=status.generation if status is not None else 0,
            text_sha256=text_sha256(text),
            taking_over=taking_over,
            instance=status.instance if status is not None else "",
        )

    def _save_record(self, record: Record) -> None:
        if record != self._record:
            self._store.save(self.cca, RECORD, record.to_json())
            self._record = record

    def report(self) -> CcaReport:
        """Return the state as it is told to the registry."""
        status = self._kernel.status
        effective = status if status is not None and self._kernel.has_table else None
        state, error = self._state_and_error()
        return CcaReport(
            cca=self.cca,
            channel=self._channel,
            offered_digest=self._offer.ensemble.digest if self._offer is not None else None,
            offered_serial=self._offer.deployment.serial if self._offer is not None else 0,
            effective_digest=effective.digest if effective is not None else None,
            effective_serial=effective.serial if effective is not None else 0,
            effective_urgent=effective is not None and effective.urgent,
            state=state,
            error=error[:_MAX_ERROR_CHARACTERS] if error is not None else None,
            kernel_version=os.uname().release,
            module_version=status.module if status is not None else None,
            agent_version=_agent_version(),
        )

    def _state_and_error(self) -> tuple[State, str | None]:
        if self._blocked is not None and self._blocked.blocked is not None:
            return self._blocked.blocked, self._blocked.why
        return self._link.state, self._link.error or self._damaged

    def _publish(self) -> None:
        """Log and store the report if it changed."""
        report = self.report()
        if report == self._published:
            return
        self._log.event(
            "state",
            cca=report.cca,
            state=report.state,
            offered=report.offered_serial,
            effective=report.effective_serial,
            error=report.error,
        )
        self._published = report
        try:
            self._store.save(self.cca, STATE, report.to_json())
        except StateDirError as error:
            self._log.event("not_kept", cca=self.cca, error=str(error))


@cache
def _agent_version() -> str | None:
    """Version of the installation: the agent's own wheel, or the whole of ccatune."""
    # A quarter of what the agent imports, and not needed to put a table in force.
    from importlib import metadata

    for distribution in ("ccatune-agent", "ccatune"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None
