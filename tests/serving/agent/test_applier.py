# SPDX-License-Identifier: MIT
"""One CCA through every state and back, against the fake of the tree."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from serving.agent.errors import StateDirError
from serving.agent.state import State
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, STATE
from tests.serving.agent.fakes import PARAMETERS, Server, table

ONE, TWO, THREE = table(1), table(2), table(3)
URGENT = table(2, urgent=True)
BY_HAND = table(8, channel="by-hand")


def test_agent_starts_without_a_table_and_says_starting(server: Server) -> None:
    assert server.state is State.STARTING
    assert (server.report.effective_digest, server.report.effective_serial) == (None, 0)
    assert server.report.kernel_version == os.uname().release
    assert server.report.module_version == "0.1.0"


def test_offer_is_written_read_back_kept_and_in_sync(server: Server) -> None:
    server.offer(ONE)
    assert server.tree.text == ONE.text
    assert server.good() == ONE
    assert server.store.load_table("gr", PENDING) is None
    report = server.report
    assert (report.state, report.error) == (State.UNSIGNED, None)
    assert (report.offered_digest, report.offered_serial) == (ONE.ensemble.digest, 1)
    assert (report.effective_digest, report.effective_serial) == (ONE.ensemble.digest, 1)
    assert server.store.load("gr", STATE, dict) == {**asdict(report), "confirmed_every_s": 10.0}


def test_urgent_roll_back_is_written_with_its_mark_and_logged_as_urgent(in_sync: Server) -> None:
    in_sync.offer(URGENT)
    assert in_sync.tree.text == URGENT.text
    assert "\nserial 2 urgent\n" in in_sync.tree.text
    assert (in_sync.state, in_sync.report.effective_urgent) == (State.UNSIGNED, True)
    assert in_sync.good() == URGENT
    applied = [line for line in in_sync.log.getvalue().splitlines() if line.startswith("event=applied")]
    assert ["urgent=True" in line for line in applied] == [False, True]
    in_sync.offer(THREE)
    assert in_sync.report.effective_urgent is False


def test_urgent_table_is_written_with_its_mark_again_after_a_reboot(in_sync: Server) -> None:
    in_sync.offer(URGENT)
    in_sync.restart()
    assert in_sync.tree.accepted == [ONE.text, URGENT.text]
    in_sync.reboot()
    assert in_sync.tree.accepted == [ONE.text, URGENT.text, URGENT.text]


def test_offer_that_differs_in_the_mark_alone_writes_nothing_and_is_kept(in_sync: Server) -> None:
    for offered in (table(1, urgent=True), ONE):
        in_sync.offer(offered)
        assert in_sync.state is State.UNSIGNED
        assert in_sync.good() == offered
    assert in_sync.tree.accepted == [ONE.text]


def test_registry_that_goes_leaves_the_table_and_says_offline(in_sync: Server) -> None:
    in_sync.lose_registry("registry http://r: refused")
    assert in_sync.tree.text == ONE.text
    assert (in_sync.state, in_sync.report.error) == (State.OFFLINE, "registry http://r: refused")
    in_sync.unchanged()
    assert (in_sync.state, in_sync.report.error) == (State.UNSIGNED, None)


def test_last_known_good_is_in_force_after_a_reboot_before_anything_is_asked(in_sync: Server) -> None:
    in_sync.reboot()
    assert in_sync.tree.text == ONE.text
    assert in_sync.state is State.STARTING
    in_sync.lose_registry("gone")
    assert in_sync.state is State.OFFLINE
    assert in_sync.tree.text == ONE.text


def test_module_loaded_anew_gets_the_table_at_the_next_look(in_sync: Server) -> None:
    in_sync.tree.reload()
    in_sync.applier.check()
    assert in_sync.tree.text == ONE.text
    assert in_sync.state is State.UNSIGNED


def test_module_that_is_gone_is_incompatible_until_it_is_back(in_sync: Server) -> None:
    in_sync.tree.loaded = False
    in_sync.applier.check()
    assert in_sync.state is State.INCOMPATIBLE
    assert "module is not loaded" in str(in_sync.report.error)
    assert in_sync.report.effective_digest is None
    in_sync.tree.reload()
    in_sync.tree.loaded = True
    in_sync.applier.check()
    assert in_sync.tree.text == ONE.text
    assert in_sync.state is State.UNSIGNED


def test_offer_outside_the_modules_ranges_is_incompatible_and_the_old_table_stays(in_sync: Server) -> None:
    in_sync.tree.parameters = PARAMETERS.replace(" 4000000 ", " 60001 ")
    in_sync.offer(TWO)
    assert in_sync.state is State.INCOMPATIBLE
    assert "from 2000 to 60001, row 0 has 60002" in str(in_sync.report.error)
    assert in_sync.tree.text == ONE.text
    assert in_sync.report.offered_serial == 2
    assert in_sync.report.effective_serial == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EINVAL, "EINVAL (a line"),
        (errno.ERANGE, "ERANGE (a value"),
        (errno.EPERM, "EPERM (not permitted: CAP_NET_ADMIN"),
        (errno.EFBIG, "EFBIG (the table is larger"),
    ],
)
def test_refusal_of_the_kernel_is_named_in_words_and_the_old_table_stays(
    in_sync: Server, number: int, words: str
) -> None:
    in_sync.tree.refuse_with = number
    in_sync.offer(TWO)
    assert in_sync.state is State.REJECTED
    assert words in str(in_sync.report.error)
    assert in_sync.tree.text == ONE.text
    assert in_sync.good() == ONE
    assert in_sync.store.load_table("gr", PENDING) is None


def test_refused_table_is_written_once_and_the_next_offer_is_tried(in_sync: Server) -> None:
    in_sync.tree.refuse_with = errno.ERANGE
    in_sync.offer(TWO)
    for _ in range(3):
        in_sync.applier.check()
        in_sync.unchanged()
        in_sync.offer(TWO)
    assert in_sync.tree.rejected == 1
    in_sync.tree.refuse_with = None
    in_sync.offer(THREE)
    assert in_sync.state is State.UNSIGNED


def test_refusal_for_want_of_memory_is_tried_again(in_sync: Server) -> None:
    in_sync.tree.refuse_with = errno.ENOMEM
    in_sync.offer(TWO)
    assert in_sync.state is State.REJECTED
    in_sync.tree.refuse_with = None
    in_sync.applier.check()
    assert in_sync.state is State.UNSIGNED
    assert in_sync.tree.text == TWO.text


def test_serial_rules_of_the_kernel_hold_until_resume_where_the_serials_were_forgotten(in_sync: Server) -> None:
    in_sync.offer(THREE)
    for offered, words in (
        (TWO, "ESTALE (the kernel holds a newer serial"),
        (table(3, window_us=77_000), "EEXIST (the kernel holds this serial"),
    ):
        in_sync.store.leave_request("forget", "gr")
        in_sync.applier.check()
        in_sync.offer(offered)
        assert in_sync.state is State.REJECTED
        assert words in str(in_sync.report.error)
        assert in_sync.tree.text == THREE.text
    in_sync.applier.resume()
    assert (in_sync.state, in_sync.tree.text) == (State.UNSIGNED, table(3, window_us=77_000).text)


def test_kernel_that_reads_back_something_else_is_reported_by_the_line(server: Server) -> None:
    server.tree.alter = lambda text: text.replace("epsilon_pct 25", "epsilon_pct 26")
    server.offer(ONE)
    assert server.state is State.REJECTED
    assert "line 9: wrote 'epsilon_pct 25', read 'epsilon_pct 26'" in str(server.report.error)
    assert server.good() is None


def test_table_changed_by_hand_pauses_the_agent_and_is_not_fought(in_sync: Server) -> None:
    in_sync.by_hand(BY_HAND.text)
    assert in_sync.state is State.DEGRADED
    assert "local/by-hand serial 8 is in force" in str(in_sync.report.error)
    in_sync.offer(TWO)
    in_sync.lose_registry("gone")
    in_sync.restart()
    in_sync.offer(THREE)
    assert in_sync.state is State.DEGRADED
    assert in_sync.tree.text == BY_HAND.text
    assert (in_sync.report.offered_serial, in_sync.report.effective_serial) == (3, 8)
    assert in_sync.good() == ONE


def test_table_cleared_by_hand_stays_cleared_over_a_restart(in_sync: Server) -> None:
    in_sync.by_hand("clear\n")
    assert in_sync.state is State.DEGRADED
    in_sync.restart()
    in_sync.offer(TWO)
    assert in_sync.state is State.DEGRADED
    assert in_sync.tree.text == ""


def test_pause_ends_when_the_operator_writes_our_table_back(in_sync: Server) -> None:
    in_sync.by_hand(BY_HAND.text)
    in_sync.by_hand(ONE.text)
    assert in_sync.state is State.UNSIGNED
    in_sync.by_hand("clear\n")
    assert in_sync.state is State.DEGRADED


def test_resume_clears_a_newer_serial_that_stands_in_the_way(in_sync: Server) -> None:
    in_sync.by_hand(table(99).text)
    in_sync.applier.resume()
    assert in_sync.state is State.UNSIGNED
    assert in_sync.tree.text == ONE.text


def test_resume_replaces_the_same_serial_with_other_rows(in_sync: Server) -> None:
    in_sync.tree.text = ONE.text.replace("12000", "12345")
    in_sync.tree.generation += 1
    in_sync.applier.check()
    assert in_sync.state is State.DEGRADED
    in_sync.applier.resume()
    assert in_sync.tree.text == ONE.text
    assert in_sync.state is State.UNSIGNED


def test_resume_that_the_kernel_refuses_puts_the_operators_table_back(in_sync: Server) -> None:
    in_sync.by_hand(table(99).text)
    tree = in_sync.tree
    accesses: list[str] = []

    def refuse_after_clear(access: str) -> None:
        accesses.append(access)
        if accesses.count("before write") == 3:
            raise OSError(errno.ENOMEM, "no memory")

    tree.on_access = refuse_after_clear
    in_sync.applier.resume()
    assert in_sync.state is State.REJECTED
    assert "ENOMEM" in str(in_sync.report.error)
    assert tree.text == table(99).text


def test_mark_of_agent_resume_is_taken_at_the_next_look(in_sync: Server) -> None:
    in_sync.by_hand("clear\n")
    in_sync.store.leave_request("resume", "gr")
    in_sync.applier.check()
    assert in_sync.tree.text == ONE.text
    assert not in_sync.store.is_requested("resume", "gr")


def test_resume_without_anything_to_apply_waits_for_the_first_offer(in_sync: Server) -> None:
    in_sync.by_hand(BY_HAND.text)
    (in_sync.store.root / "gr" / LAST_KNOWN_GOOD).unlink()
    in_sync.store.leave_request("resume", "gr")
    for _ in range(2):
        in_sync.restart()
        in_sync.applier.check()
    in_sync.offer(TWO)
    assert in_sync.state is State.UNSIGNED
    assert in_sync.tree.text == TWO.text
    assert not in_sync.store.is_requested("resume", "gr")


def test_damaged_last_known_good_is_never_applied(in_sync: Server) -> None:
    path = in_sync.store.root / "gr" / LAST_KNOWN_GOOD
    path.write_bytes(path.read_bytes().replace(b"12000", b"12001"))
    in_sync.reboot()
    assert in_sync.tree.text == ""
    assert "is damaged and is not used" in str(in_sync.report.error)
    assert "event=damaged" in in_sync.log.getvalue()
    in_sync.offer(ONE)
    assert (in_sync.state, in_sync.report.error) == (State.UNSIGNED, None)
    assert in_sync.good() == ONE


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_folder_of_an_algorithm_that_others_may_write_is_refused_at_the_start(in_sync: Server, mode: int) -> None:
    in_sync.tree.reload()
    (in_sync.store.root / "gr").chmod(mode)
    with pytest.raises(StateDirError, match="gr: expected to be writable by its owner alone"):
        in_sync.restart()
    assert in_sync.tree.text == ""


def test_folder_of_an_algorithm_must_be_a_folder_of_root_or_of_the_agents_user(in_sync: Server, tmp_path: Path) -> None:
    folder = in_sync.store.root / "gr"
    if os.geteuid() == 0:
        os.chown(folder, 12345, 0)
        with pytest.raises(StateDirError, match="as its owner, got user 12345"):
            in_sync.restart()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirError, match="to be a folder, got a symbolic link"):
        in_sync.restart()


def test_last_known_good_of_another_channel_stays_until_the_first_offer(in_sync: Server) -> None:
    in_sync.restart(channel="canary")
    assert in_sync.tree.text == ONE.text
    canary = table(1, channel="canary", window_us=90_000)
    in_sync.offer(canary)
    assert in_sync.tree.text == canary.text
    in_sync.restart()
    in_sync.reboot()
    assert in_sync.tree.text == ""


def test_quiet_when_nothing_changes(in_sync: Server) -> None:
    before, accepted = in_sync.log.getvalue(), list(in_sync.tree.accepted)
    for _ in range(5):
        in_sync.applier.check()
        in_sync.unchanged()
        in_sync.offer(ONE)
    assert in_sync.log.getvalue() == before
    assert in_sync.tree.accepted == accepted


def test_damaged_record_is_set_aside_and_the_table_kept(in_sync: Server) -> None:
    (in_sync.store.root / "gr" / "record").write_bytes(b"half")
    in_sync.restart()
    in_sync.offer(TWO)
    assert in_sync.state is State.UNSIGNED
