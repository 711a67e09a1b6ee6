# SPDX-License-Identifier: MIT
"""What the agent reports of the kernel's sums: each epoch in one delta, over restarts, new tables and lost answers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.agent.store import SUMS, Store
from serving.agent.sums import MAX_PARTS, MAX_ROWS, Deployed, Row, SumsLedger, bounded, parse_sums
from tests.serving.agent.fakes import FakeRegistry, FakeTree, Server, log_to, table
from tests.serving.agent.kernel_rows import row
from tests.serving.agent.test_loop import agent_of, running

EVERY_S = 60.0


@pytest.fixture
def tree() -> FakeTree:
    found = FakeTree()
    found.write("gr", "ensemble", table(1).text)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "state")
    with found.acquire():
        yield found


def ledger_of(tree: FakeTree, store: Store) -> SumsLedger:
    """The ledger of an agent that starts."""
    ledger = SumsLedger("gr", tree=tree, store=store, log=log_to(), every_s=EVERY_S)
    if not ledger.load():
        ledger.save()
    return ledger


def epochs_of(delta: dict[str, Any] | None) -> dict[int, int]:
    """The epochs of a delta by the serial of their table."""
    found: dict[int, int] = {}
    for at, epochs in zip(delta["table"], delta["epochs"], strict=True) if delta else ():
        serial = delta["tables"][at]["serial"] if delta else 0
        found[serial] = found.get(serial, 0) + epochs
    return found


def delivered(ledger: SumsLedger) -> dict[int, int]:
    """Form a delta, and have it acknowledged."""
    ledger.form()
    delta = ledger.outstanding
    if delta is not None:
        ledger.acknowledge(delta["sequence"], 0.0)
    return epochs_of(delta)


def test_lines_of_the_kernel_are_parsed_and_both_kinds_of_flows_are_added_up(tree: FakeTree) -> None:
    tree.rows = (
        "delay class=0 group=ensemble flows=own percentile=95 target_us=50000 samples=463 at_percentile_us=27648\n"
        + row(2) + row(3, flows="followers") + row(1, state=4, delay_class=1, group="held_back")
        + row(9, group="a group of a newer kernel".replace(" ", "_"))
    )  # fmt: skip
    found = parse_sums(tree.read("gr", "status"))
    assert found.table == Deployed("local", "champion", 1)
    both = (5, 5, 5_000_000, 10_000_000, 5000, 50, 500, 15_000_000, 450)
    assert found.rows[Row(held_back=False, delay_class=0, state=0)] == both
    assert {tuple(of): counts[0] for of, counts in found.rows.items()} == {(False, 0, 0): 5, (True, 1, 4): 1}


def test_a_delta_has_the_fields_of_the_api(tree: FakeTree, store: Store) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(2, delay_class=None) + row(1, state=4, delay_class=None, group="held_back")
    ledger.form()
    delta = ledger.outstanding
    assert delta is not None
    assert delta == {
        "series": delta["series"], "sequence": 1,
        "tables": [{"registry": "local", "channel": "champion", "serial": 1}],
        "table": [0, 0], "held_back": [False, True], "class": [None, None], "state": [0, 4], "epochs": [2, 1],
        "visits": [2, 1], "time_us": [2_000_000, 1_000_000], "bytes": [4_000_000, 2_000_000], "segments": [2000, 1000],
        "retransmitted": [20, 10], "delay_samples": [200, 100], "delay_us": [6_000_000, 3_000_000],
        "within_target": [180, 90],
    }  # fmt: skip


def test_each_delta_has_what_was_added_and_a_row_waits_for_the_end_of_an_epoch(tree: FakeTree, store: Store) -> None:
    ledger = ledger_of(tree, store)
    assert delivered(ledger) == {}
    tree.rows = row(3, visits=4) + row(0, state=1, visits=1)
    ledger.form()
    assert ledger.outstanding is not None
    assert (ledger.outstanding["state"], ledger.outstanding["visits"]) == ([0], [4])
    assert delivered(ledger) == {1: 3}
    tree.rows = row(3, visits=4) + row(1, state=1, visits=2)
    ledger.form()
    assert (ledger.outstanding["state"], ledger.outstanding["visits"]) == ([1], [2])


def test_an_outstanding_delta_does_not_change_until_it_is_acknowledged(tree: FakeTree, store: Store) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(3)
    ledger.form()
    first = ledger.outstanding
    tree.rows = row(8)
    ledger.form()
    ledger.acknowledge(7, 0.0)
    assert ledger.outstanding is first
    assert epochs_of(first) == {1: 3}
    restarted = ledger_of(tree, store)
    assert restarted.outstanding == first
    restarted.acknowledge(1, 0.0)
    assert delivered(restarted) == {1: 5}


def test_a_restarted_agent_goes_on_at_its_baseline(tree: FakeTree, store: Store) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(3)
    assert delivered(ledger) == {1: 3}
    tree.rows = row(5)
    ledger.collect()
    tree.rows = row(6)
    ledger = ledger_of(tree, store)
    assert ledger.outstanding is not None
    assert ledger.outstanding["sequence"] == 1
    ledger.acknowledge(1, 0.0)
    assert delivered(ledger) == {1: 3}


@pytest.mark.parametrize("damaged", [False, True])
def test_without_its_file_an_agent_begins_a_series_and_repeats_nothing(
    tree: FakeTree, store: Store, damaged: bool
) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(3)
    assert delivered(ledger) == {1: 3}
    file = store.root / "gr" / SUMS
    if damaged:
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    restarted = ledger_of(tree, store)
    assert delivered(restarted) == {}
    tree.rows = row(4)
    restarted.form()
    assert restarted.outstanding is not None
    assert restarted.outstanding["series"] != ledger._series
    assert epochs_of(restarted.outstanding) == {1: 1}


def test_sums_begin_anew_with_a_table_a_load_of_the_module_and_a_table_written_again(
    tree: FakeTree, store: Store
) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(3)
    assert delivered(ledger) == {1: 3}
    tree.write("gr", "ensemble", table(2).text)
    tree.rows = row(4)
    assert delivered(ledger) == {2: 4}
    tree.reload()
    tree.write("gr", "ensemble", table(2).text)
    tree.rows = row(5)
    assert delivered(ledger) == {2: 5}
    tree.write("gr", "ensemble", "clear\n")
    tree.write("gr", "ensemble", table(2).text)
    tree.rows = row(1)
    assert delivered(ledger) == {2: 1}


def test_the_old_tables_sums_are_read_before_another_one_is_applied(in_sync: Server) -> None:
    in_sync.tree.rows = row(7)
    in_sync.offer(table(2))
    in_sync.tree.rows = row(2)
    in_sync.restart()
    assert delivered(in_sync.applier.sums) == {1: 7, 2: 2}


def test_a_delta_that_cannot_be_saved_is_not_sent(
    tree: FakeTree, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = row(3)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("serving.agent.store.write_atomically", full)
        ledger.form()
        assert ledger.outstanding is None
    tree.rows = row(4)
    assert delivered(ledger) == {1: 4}


def test_a_status_that_cannot_be_read_costs_nothing_but_time(tree: FakeTree, store: Store) -> None:
    ledger = ledger_of(tree, store)
    tree.rows = "row state=0 class=0 group=ensemble flows=own epochs=many\n"
    assert delivered(ledger) == {}
    tree.loaded = False
    assert delivered(ledger) == {}
    tree.loaded, tree.rows = True, row(2)
    assert delivered(ledger) == {1: 2}


def test_a_delta_is_bounded_and_loses_no_epoch_of_the_tables_it_keeps() -> None:
    def counts(epochs: int) -> tuple[int, ...]:
        return (epochs,) * 9

    one = Deployed("local", "champion", 1)
    many = {(one, Row(bool(n % 2), n % 8, n)): counts(n + 1) for n in range(1000)}
    found = bounded(many)
    assert sum(row.state is not None for _, row in found) == MAX_ROWS
    assert min(row.state for _, row in found if row.state is not None) == 1000 - MAX_ROWS
    assert len(found) == MAX_ROWS + 8
    assert sum(sums[0] for sums in found.values()) == sum(sums[0] for sums in many.values())
    assert bounded(found) == found
    serials = {(Deployed("local", "champion", n + 1), Row(False, 0, 0)): counts(1) for n in range(MAX_PARTS + 5)}
    assert min(table.serial for table, _ in bounded(serials)) == 6


def test_sums_travel_with_reports_once_and_cause_none(tmp_path: Path, registry: FakeRegistry) -> None:
    tree = FakeTree()
    registry.offer(table(1))
    agent_of(tmp_path, tree, registry.url).run_once()
    tree.rows = row(3)
    agent_of(tmp_path, tree, registry.url).run_once()
    tree.rows = row(5)
    agent_of(tmp_path, tree, registry.url).run_once()
    agent_of(tmp_path, tree, registry.url).run_once()
    assert [epochs_of(report.get("sums")) for report in registry.reports] == [{}, {1: 3}, {1: 2}, {}]
    assert [report["sums"]["sequence"] for report in registry.reports if "sums" in report] == [1, 2]
    n_before = len(registry.reports)
    with running(tmp_path, tree, registry.url):
        registry.wait_for_report(lambda report: len(registry.reports) > n_before and report["state"] == "Unsigned")
        n_reports = len(registry.reports)
        tree.rows = row(6)
        with registry.changed:
            assert not registry.changed.wait_for(lambda: len(registry.reports) > n_reports, timeout=0.5)
