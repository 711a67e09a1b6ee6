# SPDX-License-Identifier: MIT
"""The agent's figures as a file for the textfile collector of Prometheus' node exporter.

    ccatune_agent_state{cca, channel, state}                        1 for the state of the CCA, 0 for the others
    ccatune_agent_error{cca, channel}                               1 while something is wrong; the log says what
    ccatune_agent_offered_serial, ..._effective_serial              what the registry offers, what the kernel runs
    ccatune_agent_last_contact_timestamp_seconds                    when the registry last answered
    ccatune_agent_*_total{cca, channel, serial, group, class}       the kernel's sums since it took the table
    ccatune_agent_prefix_*{prefix, unit}                            clients of R-TCP by prefix (prefixes.py), if set

The file is written when a report changes and every `EVERY_S`, so its age says whether the agent runs. It is replaced
atomically, with the mode 0644, and removed when the agent ends in order. A file that cannot be written is logged once,
and changes nothing else.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kmod.ensemble import write_atomically
from serving.agent.errors import AgentError
from serving.agent.state import State
from serving.agent.sums import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from serving.agent.kernel import Tree
    from serving.agent.log import EventLog
    from serving.agent.prefixes import ByPrefix
    from serving.agent.state import CcaReport, PollResult
    from serving.agent.sums import Baseline, Row

EVERY_S: Final = 15.0
# Reading the clients of R-TCP takes longer than the rest. It takes at most this share of the time, and two readings
# begin at least so many seconds apart.
PREFIXES_SHARE: Final = 0.005
PREFIXES_EVERY_S: Final = 60.0

_GROUPS = {False: "ensemble", True: "held_back"}
# The counter's name, the kernel's sum, and what it is.
_COUNTERS: Final = (
    ("epochs", "epochs", "Epochs of flows that ended."),
    ("delivered_bytes", "bytes", "Bytes that flows delivered."),
    ("sent_segments", "segments", "Segments that flows sent, with the retransmitted ones."),
    ("retransmitted_segments", "retransmitted", "Segments that flows retransmitted."),
    ("delay_samples", "delay_samples", "Samples of the queueing delay."),
    ("delay_samples_within_target", "within_target", "Samples of the queueing delay within the class's target."),
)
# The figure's name in the sums (prefixes.py), and what it is.
_OF_PREFIX: Final = {
    "clients": "Clients of R-TCP in the kernel's table; in BPF live connections.",
    "limited_clients": "Clients that are classified as limited; in BPF live connections.",
    "segments": "Segments sent to these clients, with the retransmitted ones.",
    "retransmitted": "Segments retransmitted to these clients.",
    "limited_segments": "Segments sent to clients while these were limited, with the retransmitted ones.",
    "limited_retransmitted": "Segments retransmitted to clients while these were limited. A cap can save them.",
    "limit_bytes_per_s": "R of the limited clients. Quantiles 0, 0.5 and 1 are the least, the median and the largest.",
    "bucket_bytes": "B of the limited clients. Quantiles 0, 0.5 and 1 are the least, the median and the largest.",
}
# Labels and value of a line.
Line = tuple[dict[str, str], float]


class Textfile:
    """The file of one agent. All methods belong to the main thread."""

    def __init__(
        self,
        path: Path,
        *,
        log: EventLog,
        clock: Callable[[], float],
        now_s: Callable[[], float] = time.time,
        clients: tuple[Tree, tuple[int, int]] | None = None,
    ) -> None:
        """Describe the file. clock: paces the writes. now_s: gives the time since 1970.

        clients: where to read R-TCP's clients, and the lengths of the prefixes; None leaves them out.
        """
        self._path = path
        self._log = log
        self._clock = clock
        self._now_s = now_s
        self._contacts_s: dict[str, float] = {}
        self._written: Sequence[CcaReport] = ()
        self._next_s = 0.0
        self._is_failing = False
        self._clients = clients
        self._prefixes, self._prefixes_error = "", ""
        self._next_prefixes_s = 0.0

    def note_answer(self, cca: str, result: PollResult) -> None:
        """Note when the registry answered."""
        if result.state is not State.OFFLINE:
            self._contacts_s[cca] = self._now_s()

    def write_if_due(self, reports: Sequence[CcaReport], sums_of: Callable[[str], Baseline]) -> None:
        """Write the file if a report has changed or it is old. sums_of: reads the kernel's sums of a CCA."""
        if self._clock() < self._next_s and reports == self._written:
            return
        self._next_s, self._written = self._clock() + EVERY_S, reports
        text = figures_text(reports, {one.cca: sums_of(one.cca) for one in reports}, dict(self._contacts_s))
        text += self._prefixes_text()
        try:
            write_atomically(self._path, text.encode())
        except OSError as error:
            if not self._is_failing:
                self._log.event("textfile_failed", file=str(self._path), error=error.strerror or str(error))
            self._is_failing = True
        else:
            self._is_failing = False

    def _prefixes_text(self) -> str:
        """Return the figures by prefix, or nothing where the clients cannot be read, which is logged once."""
        began_s = self._clock()
        if self._clients is not None and began_s >= self._next_prefixes_s:
            from serving.agent.prefixes import RTCP, read_prefixes

            tree, bits = self._clients
            try:
                self._prefixes, error = prefixes_text(read_prefixes(tree, RTCP, bits=bits)), ""
            except (AgentError, OSError) as problem:
                self._prefixes, error = "", str(problem)
            if error and error != self._prefixes_error:
                self._log.event("clients_unreadable", error=error)
            self._prefixes_error = error
            took_s = self._clock() - began_s
            self._next_prefixes_s = began_s + max(PREFIXES_EVERY_S, took_s / PREFIXES_SHARE)
        return self._prefixes

    def remove(self) -> None:
        """Remove the file: nobody checks any more what it says."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._log.event("textfile_failed", file=str(self._path), error=error.strerror or str(error))


def figures_text(reports: Sequence[CcaReport], sums: Mapping[str, Baseline], contacts_s: Mapping[str, float]) -> str:
    """Return the figures in Prometheus' text format."""

    def of_each(value: Callable[[CcaReport], float]) -> list[Line]:
        return [(_names(one), value(one)) for one in reports]

    states = [({**_names(one), "state": state}, float(one.state is state)) for one in reports for state in State]
    versions = [
        ({**_names(one), "agent": one.agent_version or "", "module": one.module_version or ""}, 1.0) for one in reports
    ]
    contacts = [(_names(one), contacts_s[one.cca]) for one in reports if one.cca in contacts_s]
    families = [
        _family("info", "gauge", "Versions of the agent and of the kernel's module.", versions),
        _family("state", "gauge", "Whether the algorithm is in this state.", states),
        _family("error", "gauge", "Whether something is wrong; the agent's log says what.",
                of_each(lambda one: float(one.error is not None))),
        _family("offered_serial", "gauge", "Serial of the deployment that the registry offers; 0 for none.",
                of_each(lambda one: one.offered_serial)),
        _family("effective_serial", "gauge", "Serial of the table in force; 0 for none.",
                of_each(lambda one: one.effective_serial)),
        _family("last_contact_timestamp_seconds", "gauge", "When the registry last answered.", contacts),
    ]  # fmt: skip
    for name, count, said in _COUNTERS:
        lines = [
            (labels, float(counts[COUNTS.index(count)]))
            for one in reports
            for labels, counts in _by_class(one, sums[one.cca])
        ]
        families.append(_family(f"{name}_total", "counter", said, lines))
    return "".join(families)


def prefixes_text(found: ByPrefix) -> str:
    """Return the figures by prefix in Prometheus' text format. The sum of the other prefixes has the prefix `other`."""
    rows = [*found["prefixes"], *([{"prefix": "other", **found["rest"]}] if found["rest"]["clients"] else [])]
    families = []
    for figure, said in _OF_PREFIX.items():
        lines: list[Line] = []
        for row in rows:
            labels = {"prefix": row["prefix"], "unit": found["unit"]}
            if figure in ("limit_bytes_per_s", "bucket_bytes"):
                spread = zip(("0", "0.5", "1"), row[figure] or (), strict=False)
                lines += [({**labels, "quantile": at}, float(value)) for at, value in spread]
            else:
                lines.append((labels, float(row[figure])))
        families.append(_family(f"prefix_{figure}", "gauge", said, lines))
    return "".join(families)


def _names(report: CcaReport) -> dict[str, str]:
    return {"cca": report.cca, "channel": report.channel}


def _by_class(report: CcaReport, sums: Baseline) -> Iterable[tuple[dict[str, str], tuple[int, ...]]]:
    """Give the labels and the sums of each group and class of the table in force, over its states."""
    found: dict[tuple[bool, int | None], tuple[int, ...]] = {}
    row: Row
    for row, counts in sums.rows.items():
        key = (row.held_back, row.delay_class)
        found[key] = tuple(a + b for a, b in zip(found.get(key, (0,) * len(COUNTS)), counts, strict=True))
    serial = "" if sums.table is None else str(sums.table.serial)
    for (held_back, delay_class), counts in found.items():
        in_words = "none" if delay_class is None else str(delay_class)
        yield {**_names(report), "serial": serial, "group": _GROUPS[held_back], "class": in_words}, counts


def _family(name: str, kind: str, said: str, lines: Iterable[Line]) -> str:
    head = f"# HELP ccatune_agent_{name} {said}\n# TYPE ccatune_agent_{name} {kind}\n"
    return head + "".join(f"ccatune_agent_{name}{{{_labels(labels)}}} {value!r}\n" for labels, value in lines)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
