# SPDX-License-Identifier: MIT
"""The modules in a running kernel of each line: what the guest's programs found of each, one boot for all of them.

What a program shows of the tree it shows of ccatune.ko, whichever algorithm's folder it uses. So in the tier GR has
most of them on one line (6.12), and R-TCP its file `clients`. On the other lines (programs.py) the modules build and
load, and a brief flow of GR under a table replays. With CCATUNE_VM_LONG=1 (the campaign `vm`) every module has all of
them on each line that emulation/vm/kernel-lines.json marks for it, the programs run longer, and the sizes that the
claims name are required. In the debug kernel (tests/vm/lines.py) every module has all of them, too.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulation.standin import StandInTree
from kmod.abi import ALGORITHMS
from tests.contract.replaying import replay
from tests.vm import cases
from tests.vm.boot import Found, built, result_of
from tests.vm.job import (
    BRIEF_ACKS,
    FEW_CONNECTIONS,
    MANY_CLIENTS,
    MANY_CONNECTIONS,
    TRANSFER_PAUSES_S,
    recorded_beside,
)
from tests.vm.lines import DEBUG, LINES, LONG
from tests.vm.programs import programs_of
from tests.vm.subjects import GR, SUBJECTS, Subject

pytestmark = pytest.mark.vm

LEVEL_BYTES_PER_S = 250_000
N_LEVELS = 12
# Of R-TCP's table in a namespace that is not the initial one: 64 sets of 8.
MOST_CLIENTS = 512
# What a recording has to hold beside what each has.
HAPPENED = {
    "gr": ["undo_event", "looked_up", "raised"],
    "roccet": ["undo_event", "looked_up", "raised", "undo", "ssthresh", "grow", "lowered", "told_lost"],
    "rtcp_cubic": ["undo_event", "looked_up", "undo", "ssthresh", "grow", "client", "told_lost"],
    "rtcp_bbr": ["undo_event", "looked_up", "client"],
    "rtcp_bbr3": ["undo_event", "looked_up", "client", "loss"],
    "sira": ["undo_event", "looked_up"],
    "cubic": ["undo_event", "looked_up", "undo", "ssthresh", "grow", "told_lost"],
    "bbr": ["undo_event", "looked_up"],
    "bbr3": ["undo_event", "looked_up", "loss"],
}
LEAST_EVENTS = 10_000 if LONG else 900
HAPPENED_BRIEFLY = {
    "gr": ["looked_up"],
    "roccet": ["ssthresh", "grow", "told_lost"],
    "cubic": ["looked_up", "ssthresh", "grow"],
    "bbr": ["looked_up"],
    "bbr3": ["looked_up", "loss"],
}


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The module that a test looks at."""
    return SUBJECTS[request.param]


def of(program: str) -> Callable[[Any], Any]:
    """Runs a test for every line and module that the program runs for. Where there is none, there is no test."""
    runs = [(line, cca) for line in LINES for cca in SUBJECTS if program in programs_of(line, cca)]
    if not runs:
        return lambda _: None
    return pytest.mark.parametrize(
        ("found", "subject"), [pytest.param(*run, id="-".join(run)) for run in runs], indirect=True
    )


@pytest.mark.parametrize("line", LINES)
def test_the_modules_build_without_a_warning_under_all_warnings(line: str) -> None:
    assert built(line).warnings == []


@pytest.mark.parametrize(
    ("found", "subject", "name"),
    [(line, cca, name) for line in LINES for cca in SUBJECTS for name in programs_of(line, cca)],
    indirect=["found", "subject"],
)
def test_nothing_is_in_the_kernel_log(found: Found, name: str, subject: Subject) -> None:
    result_of(found, name, subject)
    assert found[f"{name}:{subject.cca}"].complaints == []


@of("rules")
def test_every_write_is_answered_as_the_cases_say(found: Found, subject: Subject) -> None:
    given = {name: outcome["errnos"] for name, outcome in result_of(found, "rules", subject).items()}
    assert given == {name: answers for name, (_, answers) in cases.cases(subject).items()}


@of("rules")
def test_kernel_and_stand_in_agree_on_every_case(found: Found, subject: Subject, tmp_path: Path) -> None:
    stand_in = StandInTree(tmp_path)
    ours = {
        name: cases.outcome_of_stand_in(stand_in, subject, steps) for name, (steps, _) in cases.cases(subject).items()
    }
    assert result_of(found, "rules", subject) == ours


@of("rules")
def test_a_table_reads_back_as_it_was_written(found: Found, subject: Subject) -> None:
    assert result_of(found, "rules", subject)["a table is taken"]["ensemble"] == cases.text(subject, 1)


@of("rights")
def test_only_who_has_the_capability_writes(found: Found, subject: Subject) -> None:
    writers = result_of(found, "rights", subject)["writers"]
    for name in ("root", "root of a user namespace, its own network", "nobody, opened by root"):
        assert writers.pop(name) == "written", name
    # Not even the file's own mode lets it: no errno of ours.
    assert writers.pop("root, opened by nobody to read") == "write 9"
    for name, answer in writers.items():
        assert answer == ("open 1" if name.startswith("root without") else "open 13"), name


@of("rights")
def test_only_who_has_the_capability_chooses_the_algorithm_until_it_is_opened(found: Found, subject: Subject) -> None:
    refused = "1"  # EPERM
    assert result_of(found, "rights", subject)["choosers"] == {
        "root": "chosen",
        "nobody": refused,
        # The kernel asks for the capability in the user namespace that owns the socket's network namespace.
        "root of a user namespace, its own network": "chosen",
        "nobody, allowed": "chosen",
        "nobody, allowed no more": refused,
        "nobody, module loaded with ['unrestricted=1']": "chosen",
        "nobody, module loaded with []": refused,
    }


@of("rights")
def test_a_namespace_follows_the_initial_table_or_keeps_its_own(found: Found, subject: Subject) -> None:
    name, default, first, second = subject.knob
    spec = ALGORITHMS[subject.cca].param(name)
    assert result_of(found, "rights", subject)["container"] == {
        "at first": ["initial", f"{first}"],
        "told not to follow": ["none", f"{default}"],
        "with its own": ["own", f"{first}"],
        "its own table": True,
        "the initial one's": True,
        "cleared, own parameters": ["initial", f"{second}"],
        "cleared both": ["initial", f"{first}"],
        "whose parameters": ["initial", "own"],
        "initial parameters": f"{name} {first} {spec.minimum} {spec.default} {spec.maximum} {spec.unit}",
    }


@of("marks")
def test_a_mark_of_ecn_halves_the_rate_once_a_window(
    found: Found, subject: Subject, replayer: Path, tmp_path: Path
) -> None:
    rates = result_of(found, "marks", subject)["rates"]
    # The debug kernel sends slower than its link: there are few marks, and a rate is an older one.
    assert len(rates) >= (1 if DEBUG else 5)
    if not DEBUG:
        # An echo within the round trip behind another one changes nothing.
        halved = [behind for before, behind in rates if behind <= before / 2]
        assert len(halved) >= len(rates) / 2
        assert all(behind <= before / 2 or behind == before for before, behind in rates)
    recording = found["folder"].result / f"marks-{subject.cca}.recording"
    report = replay(replayer, recording, folder=tmp_path)
    assert (report["differing"], report["ecn"]) == (0, len(rates))


@of("reload")
def test_unloading_under_a_flow_is_refused_and_loading_anew_begins_anew(found: Found, subject: Subject) -> None:
    result = result_of(found, "reload", subject)
    assert result["rmmod while a flow runs"] == f"rmmod: ERROR: Module {subject.module} is in use"
    assert "Module ccatune is in use" in result["rmmod ccatune while a flow runs"]
    assert result["another instance"]
    assert result["generation, table, serial"] == ["0", "none", "0"]
    assert result["generation after parameters, settings, a refused write"] == ["1", "2", "2"]
    assert result["bytes after it"] >= 3_000_000


@of("life")
def test_a_socket_may_change_over_and_disconnect_at_any_time(found: Found, subject: Subject) -> None:
    changed = result_of(found, "life", subject)["changed over"]
    assert changed == {"lost": 0, "lines": 2, "disconnected": {}, "epoch anew": "0"}


@of("life")
def test_flows_that_nobody_accepts_end_with_their_listener(found: Found, subject: Subject) -> None:
    assert result_of(found, "life", subject)["queued"] == [20, 0]


@of("life")
def test_a_socket_beyond_the_limit_is_plain_and_may_ask_again(found: Found, subject: Subject) -> None:
    assert result_of(found, "life", subject)["beyond the limit"] == {
        "name": subject.plain_name,
        "again": True,
        "fallbacks": 1,
    }


@of("life")
def test_a_connection_put_there_by_repair_begins_its_epoch_then(found: Found, subject: Subject) -> None:
    repaired = result_of(found, "life", subject)["repaired"]
    # R-TCP's first look-up is with the first round trip.
    epoch = "1" if subject.shares_clients else "0"
    assert repaired == {"received": "once", "epoch": epoch}


@of("life")
def test_a_path_mtu_that_shrinks_is_no_timeout_and_replays(
    found: Found, subject: Subject, replayer: Path, tmp_path: Path
) -> None:
    seen = result_of(found, "life", subject)["smaller mtu"]
    assert seen["mss"][0] > 1000 > seen["mss"][1], seen
    assert seen["timeouts"] == 0
    # Of the first ACK behind it, where the kernel does not tell itself.
    assert seen["lost"] in ([], [0]), seen
    recording = found["folder"].result / f"smaller-mtu-{subject.cca}.recording"
    assert replay(replayer, recording, folder=tmp_path)["differing"] == 0


@of("life")
def test_namespaces_that_end_with_flows_and_tables_leave_nothing(found: Found, subject: Subject) -> None:
    seen = result_of(found, "life", subject)["namespaces"]
    assert seen["flows"] == "0"
    # Ended by their own SIGKILL, not by an exception before it.
    assert set(seen["ended"]) == {9}


@of("life")
def test_flows_shows_no_line_of_another_socket(found: Found, subject: Subject) -> None:
    assert result_of(found, "life", subject)["strange lines"] == 0


@of("life")
def test_a_connection_that_its_peer_reset_has_no_line(found: Found, subject: Subject) -> None:
    assert result_of(found, "life", subject)["reset by its peer"] == {"before": True, "behind": False}


@of("follow")
def test_each_flow_is_on_the_row_that_its_throughput_asks_for(found: Found, subject: Subject) -> None:
    looks = [look for look in result_of(found, "follow", subject)["rows"] if look["state"] != "-"]
    assert len(looks) >= (18 if LONG or DEBUG else 12)  # three at each rate
    for look in looks:
        level, second = divmod(look["state"], subject.second_levels)
        assert level == min(look["measured_bytes_per_s"] // LEVEL_BYTES_PER_S, N_LEVELS - 1), look
        # The minimum RTT is a little less now than when the row was looked up, or the same.
        assert not subject.second_axis or second >= subject.second_axis[0].level(look["min_rtt_us"]) > 0, look
        assert look["marker"] == 20 * subject.unit + look["state"] * 2 + look["class"], look
        assert look["class"] == look["priority"] - 1, look


@of("follow")
def test_rows_follow_the_links_rate(found: Found, subject: Subject) -> None:
    looks = [look for look in result_of(found, "follow", subject)["rows"] if look["state"] != "-"]
    measured: dict[int, list[float]] = {16: [], 4: [], 10: []}
    for look in looks:
        measured[look["rate_mbit"]].append(look["measured_bytes_per_s"] * 8e-6)
    # How much of the link a flow fills depends on what else this machine does; that it cannot fill more does not.
    for rate_mbit, rates in measured.items():
        # A debug kernel is slower than the links: a flow may be in its first slow start as long as a rate lasts.
        assert (DEBUG and not rates) or statistics.median(rates) < 1.05 * rate_mbit, measured
    if DEBUG:
        return
    assert max(measured[16]) > 1.1 * statistics.median(measured[4]), measured
    assert len({look["state"] for look in looks}) >= 3


@of("follow")
def test_a_table_moved_under_fifty_flows_is_taken_at_their_next_epoch_and_none_stalls(
    found: Found, subject: Subject
) -> None:
    many = result_of(found, "follow", subject)["many"]
    assert len(many["taken_s"]) == 50
    assert many["epochs_too_late"] == {}
    acked = {flow["local"]: flow["bytes_acked"] for flow in many["before"]}
    assert all(flow["bytes_acked"] > acked[flow["local"]] for flow in many["after"])
    assert {flow["marker"] for flow in many["cleared"]} == {subject.default_marker}


@of("follow")
def test_the_hold_back_share_stays_on_its_own(found: Found, subject: Subject) -> None:
    many = result_of(found, "follow", subject)["many"]
    before = {flow["local"]: flow["group"] for flow in many["before"]}
    groups = Counter(before.values())
    # 300 of 1000: 15 of 50 on average, and outside of 4 to 28 once in 10,000 runs.
    assert 4 <= groups["held_back"] <= 28
    assert groups["held_back"] + groups["ensemble"] == 50
    for flow in many["after"]:
        assert flow["group"] == before[flow["local"]], flow
        held_back = flow["group"] == "held_back"
        assert (flow["marker"] == subject.default_marker) == held_back, flow
    assert {row["group"] for row in many["rows"]} == {"ensemble", "held_back"}


def takes_it_by_class(steps: dict[str, Any], subject: Subject) -> bool:
    """On the debug kernel's slow link an R-TCP flow's client may change its class, with which an epoch begins."""
    return DEBUG and subject.shares_clients and steps["epochs begun by then"] > 0


@of("recall")
def test_an_urgent_table_and_a_clear_reach_a_flow_in_the_middle_of_its_epoch(found: Found, subject: Subject) -> None:
    steps = result_of(found, "recall", subject)["running"]
    marker, moved = 20 * subject.unit, 50 * subject.unit
    rows = 2 * 4 * subject.second_levels
    assert marker <= steps["on its row"]["marker"] < marker + rows
    # The same row for as long as the epoch lasts, which is an hour.
    if not takes_it_by_class(steps, subject):
        assert steps["a table that is not urgent"] == steps["on its row"]
    assert moved <= steps["the same, urgent"]["marker"] < moved + rows
    assert steps["cleared"]["marker"] == subject.default_marker
    assert marker <= steps["urgent after a clear"]["marker"] < marker + rows


@of("recall")
def test_a_clear_reaches_a_silent_flow_ahead_of_its_next_transmission(found: Found, subject: Subject) -> None:
    assert result_of(found, "recall", subject)["silent"] == {
        "while it is silent": "on a row",
        "sent, not yet acknowledged": "on no row",
        "acknowledged by then": False,
    }


@of("recall")
def test_a_recall_replays(found: Found, subject: Subject, replayer: Path, tmp_path: Path) -> None:
    steps = result_of(found, "recall", subject)["running"]
    recording = found["folder"].result / f"recall-{subject.cca}.recording"
    report = replay(replayer, recording, folder=tmp_path)
    # The running flow's three, and the silent one's.
    assert (report["differing"], report["recall"]) == (0, 3 if takes_it_by_class(steps, subject) else 4)


@of("recall")
def test_what_a_namespace_that_follows_measured_stands_apart(found: Found, subject: Subject) -> None:
    seen = result_of(found, "recall", subject)["followers"]
    assert seen["table"] == "initial"
    assert seen["flows of the rows"] == ["followers"]
    assert seen["own flows"] == "0"


@of("recall")
def test_a_socket_without_memory_for_a_flow_reduces_its_window_as_cubic(found: Found, subject: Subject) -> None:
    seen = result_of(found, "recall", subject)["plain"]
    assert seen["name"] == subject.plain_name
    assert seen["cwnd_pkts"] >= 10, seen
    assert seen["ssthresh_pkts"] == seen["cwnd_pkts"] * 7 // 10, seen


@of("storm")
def test_a_storm_of_writes_damages_nothing_and_leaks_nothing(found: Found, subject: Subject) -> None:
    result = result_of(found, "storm", subject)
    assert result["statuses"] == [0] * 6
    assert result["tables_nobody_wrote"] == 0
    assert result["good_table_afterwards"]
    for answers in result["answers"].values():
        assert set(answers["ensemble"]) <= {"0", "17", "22", "34", "116"}
        assert set(answers["parameters"]) | set(answers["settings"]) <= {"0", "22", "34"}
        assert answers["ensemble"].keys() >= {"0", "22"}
        assert sum(answers["ensemble"].values()) == (10_000 if LONG else 80)
    if DEBUG:
        return  # freed memory is kept for a while there, so that its use is seen; leaks are looked for otherwise
    grown = result["after"]["SUnreclaim"] - result["before"]["SUnreclaim"]
    # A table has a kilobyte of text, and as much again of sums: a leak at each write would be many times this.
    assert grown < 256 * 1024 + (0 if LONG else 512 * 1024), (grown, result["before"], result["after"])


@of("many")
def test_thousands_of_connections_at_once_are_all_told_of(found: Found, subject: Subject) -> None:
    seen = result_of(found, "many", subject)
    count = MANY_CONNECTIONS if LONG else FEW_CONNECTIONS
    assert (seen["flows"], seen["different"], seen["status"], seen["fallbacks"]) == (count, count, str(count), "0")
    assert seen["least_acked"] >= 18_000
    assert set(seen["modes"]) <= set(subject.modes)
    assert seen["reader"]["status"] == 0
    assert seen["reader"]["times"] > 0


@of("many")
def test_their_clients_stay_within_the_table_and_the_others_have_their_own(found: Found, subject: Subject) -> None:
    seen = result_of(found, "many", subject)
    if not subject.shares_clients:
        assert "clients" not in seen
        return
    count = MANY_CONNECTIONS if LONG else FEW_CONNECTIONS
    # Addresses fall into sets by chance: some sets are not full when others have too many.
    assert 0.6 * min(MOST_CLIENTS, count) < seen["clients"] <= MOST_CLIENTS
    assert seen["shared"] == seen["connections"]
    assert seen["connections"] >= seen["clients"] * max(count // MANY_CLIENTS, 1)
    assert seen["left"] == 0


@of("many")
def test_thousands_of_connections_leave_nothing(found: Found, subject: Subject) -> None:
    seen = result_of(found, "many", subject)
    if DEBUG:
        return  # as behind the storm; that caches are empty the kernel sees at the unloading
    grown = seen["after"]["SUnreclaim"] - seen["before"]["SUnreclaim"]
    # 8,000 flows have 10 MB and more, their sockets 40; what stays are slabs with room in them.
    assert grown < 4 << 20, (grown, seen["before"], seen["slab"], seen["after"])


@of("record")
def test_a_recording_of_the_kernels_events_replays_to_the_same_decisions(
    found: Found, subject: Subject, replayer: Path, tmp_path: Path
) -> None:
    result_of(found, "record", subject)
    brief = found["brief"].result
    beside = () if brief else recorded_beside(subject, long=LONG)
    for cca in (subject.cca, *beside):
        seen = replay(replayer, found["folder"].result / f"{cca}.recording", folder=tmp_path)
        assert seen["differing"] == 0, cca
        is_brief = brief or cca != subject.cca
        assert seen["replayed"] >= (BRIEF_ACKS if is_brief else LEAST_EVENTS), cca
        happened = HAPPENED_BRIEFLY[cca] if is_brief else ["timeout", *HAPPENED[cca]]
        happened = ["slow_start", "recovery_entered", "idle_restart", *happened]
        assert {name: seen[name] for name in happened if not seen[name]} == {}, cca
        assert seen["told_twice"] == 0, cca
        assert seen["tables"] == (0 if cca in beside[:1] else 2)
        # Each transfer of the flow with pauses; those that are longer than a retransmission timeout restart it.
        assert seen["transfer_started"] + seen["idle_restart"] >= len(TRANSFER_PAUSES_S), (cca, seen)
        assert seen["idle_restart"] >= sum(pause_s > 1 for pause_s in TRANSFER_PAUSES_S), (cca, seen)


if DEBUG:

    @pytest.mark.parametrize("found", LINES, indirect=True)
    def test_nothing_leaks_and_locks_were_proved_to_the_end(found: Found) -> None:
        seen = result_of(found, "leaks", GR)
        assert seen["loaded"] == seen["unloaded"] == ""
        assert seen["lockdep"]["debug_locks"] == "1"
        assert found[f"leaks:{GR.cca}"].complaints == []
