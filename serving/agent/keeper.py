# SPDX-License-Identifier: MIT
"""Keeps the table of one CCA: carries out the decisions of decide.py, and stores the result on disk.

A table is applied in this order, so that the agent may be killed at any moment without harm:

    save `pending` -> write to the kernel -> read back -> rename to `last-known-good` -> save `record`

If the agent is killed before the write to the kernel, the old table stays in force and stays the last known good.
If it is killed after the write, the kernel holds `pending`; the next start detects this and promotes the file.
All methods must be called from one thread.
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

# After one of these errors the kernel may accept the same text later, so the agent retries.
# Any other refusal is final until the table in force, the offer or the module changes, or an operator resumes.
_TRANSIENT_ERRNOS = frozenset({errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOENT})
_MAX_ERROR_CHARACTERS = 1000
# The kernel's serial rule rejects a table with one of these errors. After an operator's `resume` the agent may
# then clear the table in force.
_IN_THE_WAY_ERRNOS = frozenset({errno.EEXIST, errno.ESTALE})


@dataclass(frozen=True)
class CcaReport:
    """The state of one CCA, as sent to the registry and shown by `status`.

    The fields `offered_*` describe the registry's offer, the fields `effective_*` the table in force.
    If there is no table, its digest is None and its serial is 0. `error` is None when nothing is wrong.
    effective_urgent: whether the table in force has the mark `urgent`. `status` shows it; the registry ignores it.
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
    """The state according to the registry's last answer. The agent reports it unless its last decision is blocked."""

    state: State
    error: str | None = None


@dataclass(frozen=True)
class Remembered:
    """The contents of the state folder for one CCA. `damaged` maps the name of each unusable file to a message."""

    good: Table | None
    pending: Table | None
    record: Record | None
    damaged: dict[str, str]


def remember(store: Store, cca: str) -> Remembered:
    """Load the files of one CCA from the state folder. A damaged file counts as missing and is listed in `damaged`.

    Raises StateDirError where a file cannot be read.
    """
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
    """Holds the state of one CCA. It is the only part of the agent that writes this CCA's table."""

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
        """Recover from a kill of the previous run, then apply the last known good table immediately."""
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
        """Handle an offer of the registry that passed the agent's checks."""
        self._link = _Link(State.IN_SYNC)
        self._offer = table
        self.step()

    def unchanged(self) -> None:
        """Handle the registry's answer that the last offer is still current."""
        if self._link.state is not State.IN_SYNC:
            self._link = _Link(State.IN_SYNC)
            self.step()

    def offer_refused(self, error: str) -> None:
        """Handle an offer that failed the agent's own checks."""
        self._link = _Link(State.REJECTED, error)
        self.step()

    def unavailable(self, error: str) -> None:
        """Handle the lack of a usable answer from the registry."""
        self._link = _Link(State.OFFLINE, error)
        self.step()

    def resume(self) -> None:
        """Handle an operator's request to apply the agent's table, even if the kernel's serial rule rejects it."""
        self._log.event("resume", cca=self.cca)
        self._resume = True
        self.step()

    def check(self) -> None:
        """Run a step if the kernel's status changed, a retry is due, or an operator requested `resume`.

        Otherwise this costs one read of `status`.
        """
        if self._store.is_asked_to_resume(self.cca):
            self._store.forget_resume(self.cca)
            self.resume()
            return
        retry = self._refusal is not None and self._refusal.retry
        if retry or look_at_status(self._tree, self.cca) != self._kernel.status:
            self.step()

    # -- one step: read, decide, apply, publish --------------------------------

    def step(self) -> None:
        """Read the kernel's state, decide, carry out the decision, and publish the report."""
        self._kernel = look(self._tree, self.cca)
        decision = decide(self._situation())
        if decision.action == "apply" and decision.table is not None:
            decision = self._apply(decision, decision.table)
        # A `resume` request stays pending until a decision has a table that it can apply to.
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
        """Finish an application that a kill interrupted.

        If the kernel holds `pending`, promote it to the last known good table; otherwise discard it.
        """
        if pending is None:
            return
        if self._kernel.holds(pending):
            self._store.promote(self.cca)
            self._good = pending
            self._log.event("recovered", cca=self.cca, table=pending.name)
        else:
            self._discard_pending()

    def _apply(self, decision: Decision, table: Table) -> Decision:
        """Write the table and read it back.

        Returns a decision with the action `nothing`; it is blocked as Rejected if the table could not be applied.
        """
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
        """Write the table, read it back, and return the text that was written.

        Raises KernelRefusedError where the kernel refuses the table or reads back a different text.
        """
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
        """Write the table and return the text that the kernel accepted. Raises OSError.

        If the kernel refuses the mark `urgent`, the text is written again without it.
        """
        try:
            self._tree.write(self.cca, ENSEMBLE_FILE, table.text)
        except OSError as error:
            if error.errno != errno.EINVAL or not table.deployment.urgent:
                raise
        else:
            return table.text
        # A module older than the mark rejects it with EINVAL, the errno of every malformed line.
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
        """Clear the table in force, write `table`, and return the text that was written.

        Called only after an operator's `resume`. If the kernel refuses `table`, the operator's table is restored.
        The kernel treats every `clear` as urgent.
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

    # -- saved state and reports -----------------------------------------------

    def _keep(self, table: Table) -> None:
        """Store `table` as the last known good, and a new record, if the kernel holds it. Logs a failure to store."""
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
        """Delete `pending`.

        A failure is only logged: the next start deletes the file, because the kernel does not hold its text.
        """
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
        """Return the current state as it is sent to the registry."""
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
        """Log and store the report if it differs from the last published one."""
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
    """Return the version of the installed package: `ccatune-agent`, else `ccatune`, else None."""
    # importlib.metadata accounts for a quarter of the agent's imports, and applying a table does not need it.
    from importlib import metadata

    for distribution in ("ccatune-agent", "ccatune"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None
