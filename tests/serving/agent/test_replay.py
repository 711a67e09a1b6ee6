# SPDX-License-Identifier: MIT
"""Offers that are replayed, that run ahead, or that come from another registry than the pinned one."""

from __future__ import annotations

import pytest

from serving.agent.state import State
from serving.agent.store import LAST_KNOWN_GOOD, SERIALS
from serving.agent.table import MAX_ADVANCE, MAX_NAMES, Seen, Serials, Table
from tests.serving.agent.fakes import Server, table

FOUR, SIX = table(4), table(6)
ELSEWHERE = table(1, registry="elsewhere")


def refused(server: Server, offered: Table, words: str) -> None:
    """Offer a table, which must be refused in these words and not applied, also when it stays the current offer."""
    before = server.tree.text
    server.offer(offered)
    for _ in range(2):
        assert server.state is State.REJECTED
        assert words in str(server.report.error)
        assert server.tree.text == before
        server.lose_registry("gone")
        server.unchanged()


def test_older_serial_is_refused_after_another_registrys_table_was_in_force(server: Server) -> None:
    for offered in (SIX, ELSEWHERE):
        server.offer(offered)
        assert server.state is State.UNSIGNED
    assert "event=registry_changed" in server.log.getvalue()
    refused(server, FOUR, "expected serial 6 of local/champion or a later one, got 4, which is older")
    server.restart()
    refused(server, FOUR, "which is older")
    server.reboot()
    refused(server, FOUR, "which is older")
    server.offer(table(7))
    assert server.state is State.UNSIGNED


def test_same_serial_with_another_digest_is_refused(server: Server) -> None:
    server.offer(SIX)
    server.offer(ELSEWHERE)
    refused(server, table(6, window_us=77_000), "expected serial 6 of local/champion to name sha256:")
    server.offer(SIX)
    assert (server.state, server.tree.text) == (State.UNSIGNED, SIX.text)


@pytest.mark.parametrize("serial", [MAX_ADVANCE + 7, 2**63 - 1])
def test_serial_far_ahead_is_refused_and_locks_no_later_one_out(server: Server, serial: int) -> None:
    server.offer(SIX)
    refused(server, table(serial, window_us=70_000), "which is not plausible")
    server.offer(table(MAX_ADVANCE + 6, window_us=70_000))
    assert server.state is State.UNSIGNED


def test_first_serial_of_all_must_be_plausible_too(server: Server) -> None:
    refused(server, table(2**63 - 1, window_us=70_000), "at most 2^32 above 0")


def test_lost_or_damaged_serials_begin_with_the_last_known_good(server: Server) -> None:
    server.offer(SIX)
    path = server.store.root / "gr" / SERIALS
    for lose in (path.unlink, lambda: path.write_bytes(b"half")):
        lose()
        server.restart()
        refused(server, FOUR, "which is older")
        server.offer(SIX)
    assert (server.store.root / "gr" / f"{SERIALS}.damaged").exists()


def test_operator_who_means_it_makes_the_agent_forget(server: Server) -> None:
    server.offer(SIX)
    server.offer(ELSEWHERE)
    server.offer(FOUR)
    server.store.leave_request("forget", "gr")
    server.applier.check()
    assert (server.state, server.tree.text) == (State.UNSIGNED, FOUR.text)
    refused(server, table(3), "which is older")


def test_pinned_name_refuses_every_other_registry(server: Server) -> None:
    server.restart(registry_name="local")
    server.offer(SIX)
    assert server.state is State.UNSIGNED
    refused(server, table(9, registry="elsewhere"), "expected the registry's name local, got elsewhere")


def test_last_known_good_of_another_registry_is_not_applied_under_a_pinned_name(server: Server) -> None:
    server.offer(ELSEWHERE)
    server.tree.reload()
    server.boot_id = "boot-2"
    server.restart(registry_name="local")
    assert server.tree.text == ""
    assert server.store.load_table("gr", LAST_KNOWN_GOOD) == ELSEWHERE


def test_names_that_an_offer_can_add_are_bounded() -> None:
    full = Serials({f"r{number}/champion": Seen(1, "d") for number in range(MAX_NAMES)})
    assert "set --registry-name" in str(full.why_refused(table(1)))
    assert full.why_refused(table(2, registry="r0")) is None
    assert Serials.from_json(full.to_json()) == full
