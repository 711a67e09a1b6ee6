# SPDX-License-Identifier: MIT
"""The sums of flows' epochs that the kernel keeps by row, and the deltas of them that the agent reports.

The lines `row` of the kernel's `status` are cumulative since the table was taken (docs/proc.md). The agent reports by
how much they have grown:

    status  ->  pending  ->  outstanding  ->  acknowledged by the registry
            |            |
            |            a delta with the next sequence number, saved before it is sent for the first time
            what was added since the baseline, which then is what was read

One delta is outstanding at a time. It does not change until the registry acknowledges it, so the registry recognises a
repeated one by its series and sequence number. What the kernel counts meanwhile goes to the next delta.

The file `sums` holds the series, the sequence number, the baseline and both kinds of deltas. The baseline belongs to
one table of one load of the module. For any other table, and where a sum has become smaller, it is 0.
An agent that is killed continues with the saved baseline, so nothing counts twice. What it may lose are the sums of a
table that was replaced after the last save. Without the file, or if it is damaged, the agent begins another series, and
what the kernel has counted so far is not reported.

`flows=own` and `flows=followers` are separate groups of flows in the kernel, so they are added up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from operator import add, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from serving.agent.errors import DamagedFileError
from serving.agent.kernel import parse_status
from serving.agent.store import SUMS, CcaFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from serving.agent.kernel import Tree
    from serving.agent.log import EventLog
    from serving.agent.store import Store

# The kernel's names. `epochs` is the first, because a row without an epoch that has ended is not reported.
COUNTS = (
    "epochs",
    "visits",
    "time_us",
    "bytes",
    "segments",
    "retransmitted",
    "delay_samples",
    "delay_us",
    "within_target",
)
# The registry accepts no larger sum.
MAX_COUNT = 2**63 - 1
# The rows of a delta that keep their state, and the parts that it has: (table, group, class). With the merged rows of
# all parts a delta takes at most 80 KiB.
MAX_ROWS = 256
MAX_PARTS = 64

_GROUPS = {"ensemble": False, "held_back": True}
_SERIES_BYTES = 8
# A delta is formed this share of `report_every_s` after the last one was acknowledged: shortly before the next report,
# which comes after 0.8 of that time at the earliest.
_FORM_AFTER = 0.75

Counts = tuple[int, ...]
# A delta as JSON data.
Delta = dict[str, Any]
_NOTHING: Counts = (0,) * len(COUNTS)


class Row(NamedTuple):
    """A row of a table and a group of flows. delay_class: None without classes. state: None for merged rows."""

    held_back: bool
    delay_class: int | None
    state: int | None


class Deployed(NamedTuple):
    """The names of a table."""

    registry: str
    channel: str
    serial: int


@dataclass(frozen=True)
class Baseline:
    """The kernel's sums up to which everything is reported. They belong to one table of one load of the module."""

    instance: str = ""
    digest: str = ""
    table: Deployed | None = None
    rows: Mapping[Row, Counts] = field(default_factory=dict)

    def is_continued_by(self, now: Baseline) -> bool:
        """Whether `now` shows the same table of the same load, whose sums have not begun anew."""
        is_same = (self.instance, self.digest, self.table) == (now.instance, now.digest, now.table)
        return is_same and all(
            all(map(int.__le__, counts, now.rows.get(row, _NOTHING))) for row, counts in self.rows.items()
        )


def parse_sums(status: str) -> Baseline:
    """Return the sums in the text of the file `status`; no rows without a table. Raises ValueError."""
    of = parse_status(status)
    if not of.serial:
        return Baseline()
    rows: dict[Row, Counts] = {}
    for line in status.splitlines():
        if not line.startswith("row "):
            continue
        values = dict(part.split("=", 1) for part in line.split()[1:])
        if values.get("group") not in _GROUPS:
            continue
        delay_class = int(values["class"]) if "class" in values else None
        row = Row(_GROUPS[values["group"]], delay_class, int(values.get("state", 0)))
        counts = tuple(int(values.get(name, 0)) for name in COUNTS)
        rows[row] = tuple(map(add, rows.get(row, _NOTHING), counts))
    return Baseline(of.instance, of.digest, Deployed(of.registry, of.channel, of.serial), rows)


Pending = dict[tuple[Deployed, Row], Counts]


def bounded(pending: Pending) -> Pending:
    """Return the sums with at most MAX_PARTS parts and MAX_ROWS rows that have a state.

    The parts of the tables that were in force last are kept. Of the rows those with the most epochs are kept. The
    others are added up for each part, with the state None.
    """
    parts = list(dict.fromkeys((table, row[:2]) for table, row in pending))[-MAX_PARTS:]
    kept = {key: counts for key, counts in pending.items() if (key[0], key[1][:2]) in set(parts)}
    with_state = sorted((key for key in kept if key[1].state is not None), key=lambda key: kept[key][0], reverse=True)
    merged = set(with_state[MAX_ROWS:])
    found: Pending = {}
    for (table, row), counts in kept.items():
        key = (table, row._replace(state=None) if (table, row) in merged else row)
        found[key] = tuple(map(add, found.get(key, _NOTHING), counts))
    return found


class SumsLedger:
    """The sums of one CCA. All methods belong to the agent's main thread; any thread may read `outstanding`.

    outstanding: the delta to report, as JSON data, or None.
    """

    def __init__(self, cca: str, *, tree: Tree, store: Store, log: EventLog, every_s: float) -> None:
        """Create the ledger. every_s: the time between two reports."""
        self.outstanding: Delta | None = None
        self._cca = cca
        self._tree = tree
        self._store = store
        self._log = log
        # A full disk delays the sums, and nothing else: these failures do not enter the report.
        self._files = CcaFiles(cca, store=store, log=log)
        self._form_after_s = every_s * _FORM_AFTER
        self._form_at_s = 0.0
        self._series = ""
        self._sequence = 0
        self._baseline = Baseline()
        self._pending: Pending = {}
        self._error = ""

    def load(self) -> bool:
        """Read the file of the sums, or begin another series. Return whether there was a file that is not damaged.

        Raises StateDirError where the file is unreadable.
        """
        try:
            if self._store.load(self._cca, SUMS, self._restore):
                return True
        except DamagedFileError as error:
            self._log.event("damaged", cca=self._cca, file=SUMS, error=str(error))
            self._files.tidy([SUMS])
        self.outstanding, self._pending, self._sequence = None, {}, 0
        self._series = os.urandom(_SERIES_BYTES).hex()
        self._baseline = self._read() or Baseline()
        return False

    def collect(self) -> None:
        """Add what the kernel has counted since the baseline. Call this also before another table is written."""
        now = self._read()
        if now is None:
            return
        before = self._baseline.rows if self._baseline.is_continued_by(now) else {}
        rows: dict[Row, Counts] = {}
        for row, counts in now.rows.items():
            rows[row] = before.get(row, _NOTHING)
            grown = tuple(map(sub, counts, rows[row]))
            if now.table is not None and grown[0]:
                key = (now.table, row)
                self._pending[key] = tuple(map(add, self._pending.get(key, _NOTHING), grown))
                rows[row] = counts
        self._baseline = Baseline(now.instance, now.digest, now.table, rows)
        self._pending = bounded(self._pending)

    def of_table(self) -> Baseline:
        """Read the kernel's sums since it took the table in force, and return them."""
        self.collect()
        return self._baseline

    def save(self) -> bool:
        """Store the sums, and return whether this succeeded."""
        return self._files.save(SUMS, self._to_json(self.outstanding))

    def form_if_due(self, now_s: float) -> None:
        """Form the next delta if it is due and none is outstanding."""
        if self.outstanding is None and now_s >= self._form_at_s:
            self._form_at_s = now_s + self._form_after_s
            self.form()

    def form(self) -> None:
        """Form the next delta, unless one is outstanding, nothing was counted, or it cannot be saved."""
        if self.outstanding is not None:
            return
        self.collect()
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        self._sequence += 1
        delta = delta_json(self._series, self._sequence, pending)
        # After a kill, sums of a delta that is not on disk would be reported again under another number.
        if self._files.save(SUMS, self._to_json(delta)):
            self.outstanding = delta
        else:
            self._pending, self._sequence = pending, self._sequence - 1

    def acknowledge(self, sequence: int, now_s: float) -> None:
        """Note that the registry has this delta. The next one is formed when the next report is near."""
        if self.outstanding is not None and self.outstanding["sequence"] == sequence:
            self.outstanding = None
            self._form_at_s = now_s + self._form_after_s

    def _read(self) -> Baseline | None:
        try:
            found, self._error = parse_sums(self._tree.read(self._cca, "status")), ""
        except OSError:
            # The state of the CCA says what is wrong.
            return None
        except (KeyError, ValueError) as error:
            if self._error != str(error):
                self._log.event("sums_unreadable", cca=self._cca, error=str(error))
            self._error = str(error)
            return None
        return found

    def _to_json(self, outstanding: Delta | None) -> dict[str, Any]:
        baseline = self._baseline
        return {
            "series": self._series,
            "sequence": self._sequence,
            "outstanding": outstanding,
            "baseline": {
                "instance": baseline.instance,
                "digest": baseline.digest,
                "table": baseline.table,
                "rows": [[*row, *counts] for row, counts in baseline.rows.items()],
            },
            "pending": [[*table, *row, *counts] for (table, row), counts in self._pending.items()],
        }

    def _restore(self, data: Any) -> bool:
        of = data["baseline"]
        table = None if of["table"] is None else Deployed(*of["table"])
        self._baseline = Baseline(of["instance"], of["digest"], table, {Row(*r[:3]): tuple(r[3:]) for r in of["rows"]})
        self._pending = {(Deployed(*r[:3]), Row(*r[3:6])): tuple(r[6:]) for r in data["pending"]}
        self._series, self._sequence, self.outstanding = data["series"], data["sequence"], data["outstanding"]
        return True


def delta_json(series: str, sequence: int, pending: Mapping[tuple[Deployed, Row], Counts]) -> Delta:
    """Return a delta as the registry's API takes it: each field is a column, with an entry for each row."""
    tables = list(dict.fromkeys(table for table, _ in pending))
    return {
        "series": series,
        "sequence": sequence,
        "tables": [table._asdict() for table in tables],
        "table": [tables.index(table) for table, _ in pending],
        "held_back": [row.held_back for _, row in pending],
        "class": [row.delay_class for _, row in pending],
        "state": [row.state for _, row in pending],
        **dict(zip(COUNTS, _columns(pending.values()), strict=True)),
    }


def _columns(rows: Iterable[Counts]) -> list[list[int]]:
    return [[min(count, MAX_COUNT) for count in column] for column in zip(*rows, strict=True)]
