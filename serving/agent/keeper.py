# SPDX-License-Identifier: MIT
"""Keeps the table of one CCA: carries out the decisions of decide.py, and stores the result on disk.

A table is applied in this order, so that the agent may be killed at any moment without harm:

    save `pending` -> write to the kernel -> read back -> rename to `last-known-good` -> save `record`

If the agent is killed before the write to the kernel, the old table stays in force and stays the last known good.
If it is killed after the write, the kernel holds `pending`; the next start detects this and promotes the file.

A full disk does not delay a table: what cannot be saved is written to the kernel all the same. The report then says
that it is not saved, and the agent tries to save it at every check.
files.py saves the files, writing.py writes to the kernel, and publishing.py makes the reports.
All methods must be called from one thread.
"""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

from serving.agent.decide import NOT_TRUSTED, Decision, Record, Refusal, Situation, State, decide
from serving.agent.errors import KernelRefusedError, OfferRefusedError
from serving.agent.files import CcaFiles
from serving.agent.kernel import look_at_status, text_sha256
from serving.agent.publishing import CONFIRM_EVERY_S, Link, Publisher, Standing
from serving.agent.remembered import remember
from serving.agent.serials import Serials, check_registry_name
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, SERIALS
from serving.agent.writing import TableWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from serving.agent.kernel import KernelView
    from serving.agent.log import EventLog
    from serving.agent.report import CcaReport
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.agent.tree import Tree
    from serving.agent.trust import Trust

# After one of these errors the kernel may accept the same text later, so the agent retries.
# Any other refusal is final until the table in force, the offer or the module changes, or an operator resumes.
_TRANSIENT_ERRNOS = frozenset({errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN, errno.ENOENT, errno.ETIMEDOUT})


class Keeper:
    """Holds the state of one CCA. It is the only part of the agent that writes this CCA's table."""

    def __init__(
        self,
        cca: str,
        *,
        channel: str,
        tree: Tree,
        store: Store,
        log: EventLog,
        boot_id: str,
        registry_name: str = "",
        trust: Trust | None = None,
        run_id: str | None = None,
        confirm_every_s: float = CONFIRM_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the keeper. trust: the pinned root document, if there is one.

        registry_name: the only registry whose tables are applied; empty accepts any. run_id: see CcaReport.
        """
        self.cca = cca
        self._channel = channel
        self._registry_name = registry_name
        self._trust = trust
        self._good_is_trusted = True
        self._tree = tree
        self._store = store
        self._log = log
        self._boot_id = boot_id
        self._good: Table | None = None
        self._offer: Table | None = None
        self._refused_offer: tuple[Table, str] | None = None
        self._record: Record | None = None
        self._serials = Serials()
        self._refusal: Refusal | None = None
        self._resume = False
        self._link = Link(State.STARTING)
        self._blocked: Decision | None = None
        self._damaged: str | None = None
        self._writer = TableWriter(cca, tree=tree, log=log)
        self._files = CcaFiles(cca, store=store, log=log)
        self._publisher = Publisher(
            cca,
            channel=channel,
            run_id=run_id,
            trust=trust,
            files=self._files,
            log=log,
            confirm_every_s=confirm_every_s,
            clock=clock,
        )

    @property
    def _kernel(self) -> KernelView:
        return self._writer.kernel

    # -- events ----------------------------------------------------------------

    def start(self) -> None:
        """Recover from a kill of the previous run, then apply the last known good table immediately.

        Raises StateDirError where the folder cannot be read, or other users may write to it.
        """
        remembered = remember(self._store, self.cca)
        for name, message in remembered.damaged.items():
            self._log.event("damaged", cca=self.cca, file=name, error=message)
        self._files.tidy(list(remembered.damaged))
        self._damaged = remembered.damaged.get(LAST_KNOWN_GOOD)
        self._good, self._record = remembered.good, remembered.record
        self._writer.look()
        self._settle(remembered.pending)
        self._serials = remembered.serials_after(self._good)
        self._good_is_trusted = self._good is None or self._is_trusted(self._good)
        if not self._good_is_trusted:
            self._damaged = NOT_TRUSTED
            self._log.event("not_trusted", cca=self.cca, error=NOT_TRUSTED)
        if self._files.take("forget"):
            self.forget()
        self.step()

    def offered(self, table: Table) -> None:
        """Handle an offer of the registry. It is refused if its registry or its serial is not acceptable."""
        try:
            if self._trust is not None:
                self._trust.require(table)
            check_registry_name(table, self._registry_name)
            self._serials.check(table, key_ids=self._trust.registry_key_ids() if self._trust is not None else ())
        except OfferRefusedError as error:
            self._refused_offer = (table, str(error))
            self.no_offer(State.REJECTED, str(error))
            return
        self._refused_offer = None
        self._note_registry(table)
        serials = self._serials.including(table)
        if serials != self._serials:
            self._serials = serials
            self._files.save(SERIALS, serials.to_json())
        self._link = Link(State.IN_SYNC)
        self._offer = table
        self.step()

    def unchanged(self) -> None:
        """Handle the registry's answer that the last offer is still current."""
        link = Link(State.IN_SYNC)
        if self._refused_offer is not None:
            link = Link(State.REJECTED, self._refused_offer[1])
        if self._link != link:
            self._link = link
            self.step()

    def no_offer(self, state: State, error: str) -> None:
        """Handle an answer without an acceptable offer, or the lack of an answer. `state` names which of them."""
        self._link = Link(state, error)
        self.step()

    def resume(self) -> None:
        """Handle an operator's request to apply the agent's table, even if the kernel's serial rule rejects it."""
        self._log.event("resume", cca=self.cca)
        self._resume = True
        self.step()

    def forget(self) -> None:
        """Forget the highest serials at an operator's request, and examine a refused offer again."""
        self._log.event("forget", cca=self.cca)
        self._serials = Serials()
        self._files.save(SERIALS, self._serials.to_json())
        if self._refused_offer is not None:
            self.offered(self._refused_offer[0])

    def check(self) -> None:
        """Run a step if the kernel's status changed, a retry is due, or an operator requested it.

        Otherwise this costs one read of `status`.
        """
        if self._files.take("forget"):
            self.forget()
        if self._files.take("resume"):
            self.resume()
            return
        if self._publisher.is_outdated(self._standing()):
            self._publisher.publish(self._standing())
        retry = self._files.has_unsaved or (self._refusal is not None and self._refusal.retry)
        if retry or look_at_status(self._tree, self.cca) != self._kernel.status:
            self.step()
        self._publisher.confirm()

    def _note_registry(self, table: Table) -> None:
        before = self._offer if self._offer is not None else self._good
        if before is not None and before.deployment.registry != table.deployment.registry:
            self._log.event(
                "registry_changed",
                cca=self.cca,
                warning=f"the tables were of registry {before.deployment.registry}, "
                f"they are now of {table.deployment.registry}; --registry-name would refuse one of them",
            )

    # -- one step: read, decide, apply, publish --------------------------------

    def step(self) -> None:
        """Read the kernel's state, decide, carry out the decision, and publish the report."""
        self._writer.look()
        decision = decide(self._situation())
        if decision.action == "apply" and decision.table is not None:
            decision = self._apply(decision, decision.table)
        # A `resume` request stays pending until a decision has a table that it can apply to.
        self._resume = self._resume and decision.table is None
        self._blocked = decision if decision.blocked is not None else None
        if decision.blocked is None and decision.table is not None:
            self._keep(decision.table)
        if self._files.is_unsaved(SERIALS):
            self._files.save(SERIALS, self._serials.to_json())
        self._publisher.publish(self._standing())

    def _situation(self) -> Situation:
        return Situation(
            channel=self._channel,
            registry_name=self._registry_name,
            kernel=self._kernel,
            boot_id=self._boot_id,
            good=self._good,
            offer=self._offer,
            record=self._record,
            refusal=self._refusal,
            resume=self._resume,
            good_is_trusted=self._good_is_trusted,
            key_is_removed=self._is_key_removed(),
        )

    def _is_trusted(self, table: Table) -> bool:
        return self._trust is None or self._trust.vouches_for(table)

    def _is_key_removed(self) -> bool:
        good, offer = self._good, self._offer
        if self._trust is None or offer is None or good is None or good.signed is None:
            return False
        return self._trust.has_removed(good.signed.key_id)

    def _settle(self, pending: Table | None) -> None:
        """Finish an application that a kill interrupted.

        If the kernel holds `pending`, promote it to the last known good table; otherwise discard it.
        """
        if pending is None:
            return
        if not self._kernel.holds(pending):
            self._files.discard_pending()
            return
        self._files.promote()
        self._good = pending
        self._log.event("recovered", cca=self.cca, table=pending.name)

    def _apply(self, decision: Decision, table: Table) -> Decision:
        """Write the table and read it back.

        Returns a decision with the action `nothing`; it is blocked as Rejected if the table could not be applied.
        """
        before = self._kernel
        if not self._is_good(table):
            self._files.save(PENDING, table.to_json())
        try:
            written = self._writer.write_and_read_back(
                table,
                may_clear=decision.may_clear,
                why=decision.why,
                before_clear=lambda: self._save_record(self._record_of(table.text, taking_over=True)),
            )
        except KernelRefusedError as error:
            self._files.discard_pending()
            cause = error.__cause__
            self._refusal = Refusal(
                text_sha256=table.text_sha256,
                kernel_text_sha256=before.text_sha256,
                module=before.status.module if before.status is not None else "",
                why=str(error),
                retry=isinstance(cause, OSError) and cause.errno in _TRANSIENT_ERRNOS,
            )
            return Decision("nothing", str(error), table=table, blocked=State.REJECTED)
        self._refusal = None
        self._log_application(table, written, why=decision.why)
        return Decision("nothing", decision.why, table=table)

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

    # -- saved state and reports -----------------------------------------------

    def _keep(self, table: Table) -> None:
        """Store `table` as the last known good, and a new record, if the kernel holds it."""
        if not self._kernel.holds(table) or self._kernel.status is None:
            return
        if self._is_good(table) and not self._files.is_unsaved(LAST_KNOWN_GOOD):
            self._files.ignore(PENDING)
        elif self._files.save(PENDING, table.to_json()) and self._files.promote():
            self._good, self._damaged = table, None
            self._good_is_trusted = self._is_trusted(table)
        # The record says which table is the agent's, so that it is renewed even where the table could not be saved.
        self._save_record(self._record_of(self._kernel.text))

    def _is_good(self, table: Table) -> bool:
        good = self._good
        return good is not None and good.text == table.text and good.signed == table.signed

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
        if record != self._record or self._files.is_unsaved(RECORD):
            self._record = record
            self._files.save(RECORD, record.to_json())

    def report(self) -> CcaReport:
        """Return the current state as it is sent to the registry."""
        return self._publisher.report(self._standing())

    def _standing(self) -> Standing:
        return Standing(
            kernel=self._kernel,
            offer=self._offer,
            good=self._good,
            link=self._link,
            blocked=self._blocked,
            damaged=self._damaged,
        )
