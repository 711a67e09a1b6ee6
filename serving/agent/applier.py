# SPDX-License-Identifier: MIT
"""Applies the tables of one CCA: carries out the decisions of state.py, stores the result on disk, and reports.

A table is applied in this order, so that the agent may be killed at any moment without harm:

    save `serials`, `pending` -> write to the kernel -> read back -> rename to `last-known-good` -> save `record`

If the agent is killed before the write to the kernel, the old table stays in force and stays the last known good.
If it is killed after the write, the kernel holds `pending`; the next start detects this and promotes the file.

A full disk does not delay a table: what cannot be saved is written to the kernel all the same. The report then says
that it is not saved, and the agent tries to save it at every check.
"""

from __future__ import annotations

import errno
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from serving.agent.errors import KernelRefusedError
from serving.agent.kernel import errno_in_words, first_difference, look, look_at_status
from serving.agent.state import NOT_TRUSTED, CcaState, Decision, PollResult, Record, Refusal, State
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, SERIALS, STATE, CcaFiles
from serving.agent.sums import SumsLedger
from serving.agent.table import Serials, text_sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    from serving.agent.kernel import Tree
    from serving.agent.log import EventLog
    from serving.agent.settings import AgentSettings
    from serving.agent.state import CcaReport
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.agent.trust import Trust

# The state file is confirmed at most this often, to spare the disk.
_CONFIRM_EVERY_S = 10.0

_CLEAR_TEXT = "clear\n"
# The kernel's serial rule rejects a table with one of these errors. Where a decision permits it (may_clear), the agent
# then clears the table in force.
_IN_THE_WAY_ERRNOS = frozenset({errno.EEXIST, errno.ESTALE})
# After one of these errors the kernel may accept the same text later, so the agent retries.
# Any other refusal is final until the table in force, the offer or the module changes, or an operator resumes.
_TRANSIENT_ERRNOS = frozenset({errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOENT, errno.ETIMEDOUT})


class Applier:
    """The only part of the agent that writes the table of its CCA. All methods must be called from one thread.

    sums: the sums of flows, of which the old table's are read before another one is written.
    """

    def __init__(
        self,
        cca: str,
        *,
        settings: AgentSettings,
        tree: Tree,
        store: Store,
        log: EventLog,
        boot_id: str,
        trust: Trust | None = None,
        run_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the applier. trust: the pinned root document, if there is one. run_id: as in CcaReport."""
        self.cca = cca
        self._state = CcaState(cca, settings, boot_id, trust=trust)
        self._tree = tree
        self._store = store
        self._log = log
        self._run_id = run_id
        self._confirm_every_s = max(_CONFIRM_EVERY_S, settings.interval_s)
        self._clock = clock
        self._confirm_at_s = clock() + self._confirm_every_s
        self._published: CcaReport | None = None
        self._files = CcaFiles(cca, store=store, log=log)
        self.sums = SumsLedger(cca, tree=tree, store=store, log=log, every_s=settings.report_every_s)

    # -- events ----------------------------------------------------------------

    def start(self) -> None:
        """Recover from a kill of the previous run, then apply the last known good table immediately.

        Raises StateDirError where the folder cannot be read, or other users may write to it.
        """
        state = self._state
        state.load(self._store, self._tree)
        for name, message in state.damaged.items():
            self._log.event("damaged", cca=self.cca, file=name, error=message)
        self._files.tidy(state.damaged)
        if state.pending is not None and state.pending is state.good:
            self._files.promote()
            self._log.event("recovered", cca=self.cca, table=state.pending.name)
        elif state.pending is not None:
            self._files.discard_pending()
        if not state.good_is_trusted:
            self._log.event("not_trusted", cca=self.cca, error=NOT_TRUSTED)
        has_sums = self.sums.load()
        self._forget_if_requested()
        self._step()
        if not has_sums:
            self.sums.save()

    def receive(self, result: PollResult) -> None:
        """Handle the registry's answer, or the lack of one."""
        state = self._state
        answer, offer, serials = state.answer, state.offer, state.serials
        state.receive(result)
        if result.table is not None and state.offer is result.table:
            self._log_change_of_registry(offer if offer is not None else state.good, result.table)
            if state.serials != serials:
                self._files.save(SERIALS, state.serials.to_json())
        elif result.state is State.IN_SYNC and state.answer == answer:
            return
        self._step()

    def resume(self) -> None:
        """Handle an operator's request to apply the agent's table, even if the kernel's serial rule rejects it.

        The request stays in the state folder until it is carried out, so that a restart does not lose it.
        """
        self._log.event("resume", cca=self.cca)
        self._state.resume = True
        self._step()

    def forget(self) -> None:
        """Forget the highest serials at an operator's request, and examine a refused offer again."""
        self._log.event("forget", cca=self.cca)
        self._state.serials = Serials()
        self._files.save(SERIALS, {})
        if self._state.refused_offer is not None:
            self.receive(PollResult(State.IN_SYNC, self._state.refused_offer.table))

    def check(self) -> None:
        """Run a step if the kernel's status changed, a retry is due, or an operator requested it.

        Otherwise this costs one read of `status`.
        """
        self._forget_if_requested()
        if not self._state.resume and self._files.is_requested("resume"):
            self.resume()
            return
        # A signature may have expired meanwhile.
        if self._published is not None and self.report() != self._published:
            self._publish()
        refusal = self._state.refusal
        retry = self._files.is_unsaved() or (refusal is not None and refusal.retry)
        if retry or look_at_status(self._tree, self.cca) != self._state.kernel.status:
            self._step()
        self.sums.form_if_due(self._clock())
        self._confirm()

    def report(self) -> CcaReport:
        """Return the current state as it is sent to the registry."""
        return self._state.report(run_id=self._run_id, unsaved=self._files.why_unsaved)

    def _forget_if_requested(self) -> None:
        if self._files.is_requested("forget"):
            self.forget()
            self._files.complete("forget")

    def _log_change_of_registry(self, before: Table | None, table: Table) -> None:
        if before is not None and before.deployment.registry != table.deployment.registry:
            warning = (
                f"the tables were of registry {before.deployment.registry}, they are now of "
                f"{table.deployment.registry}; --registry-name would refuse one of them"
            )
            self._log.event("registry_changed", cca=self.cca, warning=warning)

    # -- one step: read, decide, apply, publish --------------------------------

    def _step(self) -> None:
        state = self._state
        state.kernel = look(self._tree, self.cca)
        decision = state.decide()
        if decision.action == "apply" and decision.table is not None:
            decision = self._apply(decision, decision.table)
        state.blocked = decision if decision.blocked is not None else None
        if decision.blocked is None and decision.table is not None:
            self._keep(decision.table)
        if self._files.is_unsaved(SERIALS):
            self._files.save(SERIALS, state.serials.to_json())
        # A `resume` request stays pending until a decision has a table that it can apply to.
        if state.resume and decision.table is not None:
            state.resume = False
            self._files.complete("resume")
        self._publish()

    def _apply(self, decision: Decision, table: Table) -> Decision:
        """Write the table and read it back.

        Returns a decision with the action `nothing`; it is blocked as Rejected if the table could not be applied.
        """
        before = self._state.kernel
        self.sums.collect()
        if not self._is_good(table):
            self._files.save(PENDING, table.to_json())
        try:
            self._write_and_read_back(table, decision)
        except KernelRefusedError as error:
            self._files.discard_pending()
            cause = error.__cause__
            self._state.refusal = Refusal(
                text_sha256=table.text_sha256,
                kernel_text_sha256=before.text_sha256,
                module=before.status.module if before.status is not None else "",
                why=str(error),
                retry=isinstance(cause, OSError) and cause.errno in _TRANSIENT_ERRNOS,
            )
            return Decision("nothing", str(error), table=table, blocked=State.REJECTED)
        self.sums.save()
        self._state.refusal = None
        urgent = table.deployment.urgent or None
        self._log.event("applied", cca=self.cca, table=table.name, urgent=urgent, why=decision.why)
        return Decision("nothing", decision.why, table=table)

    def _write_and_read_back(self, table: Table, decision: Decision) -> None:
        """Write the table; another one may be cleared first if the decision permits it.

        Raises KernelRefusedError where the kernel refuses the table or reads back a different text.
        """
        try:
            self._tree.write(self.cca, "ensemble", table.text)
        except OSError as error:
            if not (decision.may_clear and error.errno in _IN_THE_WAY_ERRNOS):
                raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self._state.kernel = look(self._tree, self.cca)
        if self._state.kernel.text != table.text and decision.may_clear:
            self._take_over(table, decision.why)
        if self._state.kernel.text != table.text:
            raise KernelRefusedError(
                f"the kernel took {table.name} but reads back another text "
                f"({first_difference(self._state.kernel.text, table.text)}); "
                "`ccatune-agent resume` clears it and writes anew"
            )

    def _take_over(self, table: Table, why: str) -> None:
        """Clear the table in force, and write `table`. If the kernel refuses it, the other table is restored.

        Called only after an operator's `resume`, or after a new root document has removed the key that signed the table
        in force. The kernel treats every `clear` as urgent.
        """
        other_text = self._state.kernel.text
        self._save_record(self._record_of(table.text, taking_over=True))
        self._log.event("clearing", cca=self.cca, why=why)
        try:
            self._tree.write(self.cca, "ensemble", _CLEAR_TEXT)
            self._tree.write(self.cca, "ensemble", table.text)
        except OSError as error:
            self._put_back(other_text)
            raise KernelRefusedError(f"the kernel refused {table.name}: {errno_in_words(error)}") from error
        self._state.kernel = look(self._tree, self.cca)

    def _put_back(self, text: str) -> None:
        try:
            self._tree.write(self.cca, "ensemble", text)
        except OSError as error:
            self._log.event("put_back_failed", cca=self.cca, error=errno_in_words(error))

    # -- saved state -----------------------------------------------------------

    def _keep(self, table: Table) -> None:
        """Store `table` as the last known good, and a new record, if the kernel holds it."""
        state = self._state
        if not state.kernel.holds(table):
            return
        if self._is_good(table) and not self._files.is_unsaved(LAST_KNOWN_GOOD):
            self._files.ignore(PENDING)
        elif self._files.save(PENDING, table.to_json()) and self._files.promote():
            state.good, state.good_is_trusted = table, state.is_trusted(table)
            state.damaged.pop(LAST_KNOWN_GOOD, None)
        # The record says which table is the agent's, so that it is renewed even where the table could not be saved.
        self._save_record(self._record_of(state.kernel.text))

    def _is_good(self, table: Table) -> bool:
        good = self._state.good
        return good is not None and good.text == table.text and good.signed == table.signed

    def _record_of(self, text: str, *, taking_over: bool = False) -> Record:
        status = self._state.kernel.status
        return Record(
            boot_id=self._state.boot_id,
            instance=status.instance if status is not None else "",
            generation=status.generation if status is not None else 0,
            text_sha256=text_sha256(text),
            taking_over=taking_over,
        )

    def _save_record(self, record: Record) -> None:
        if record != self._state.record or self._files.is_unsaved(RECORD):
            self._state.record = record
            self._files.save(RECORD, asdict(record))

    def _publish(self) -> None:
        """Log and store the report if it differs from the last published one, or if that one is not stored."""
        report = self.report()
        if report != self._published:
            serials = {"offered": report.offered_serial, "effective": report.effective_serial}
            self._log.event("state", cca=report.cca, state=report.state, **serials, error=report.error)
        elif not self._files.is_unsaved(STATE):
            return
        self._published = report
        self._files.save(STATE, {**asdict(report), "confirmed_every_s": self._confirm_every_s})
        self._confirm_at_s = self._clock() + self._confirm_every_s

    def _confirm(self) -> None:
        """Renew the time of the state file when that is due and the file holds the last published report."""
        if not self._files.is_unsaved(STATE) and self._clock() >= self._confirm_at_s:
            self._confirm_at_s = self._clock() + self._confirm_every_s
            self._files.confirm(STATE)
