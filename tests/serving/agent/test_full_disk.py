# SPDX-License-Identifier: MIT
"""A disk that takes no more files: the kernel still gets its table, and everybody is told what is not saved."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kmod.ensemble import Deployment
from serving.agent.state import State
from serving.agent.store import LAST_KNOWN_GOOD, SERIALS, STATE
from serving.agent.table import Table
from tests.serving.agent.fakes import Server, table

ONE, TWO = table(1), table(2)
ROLLED_BACK = Table(ONE.ensemble, Deployment("local", "champion", 3, urgent=True))


@contextmanager
def full_disk(number: int = errno.ENOSPC) -> Iterator[None]:
    """Refuse every write to the disk."""

    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        patch.setattr(os, "replace", full)
        if number == errno.EROFS:
            for name in ("replace", "unlink"):
                patch.setattr(pathlib.Path, name, full)
            patch.setattr(os, "utime", full)
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_roll_back_reaches_the_kernel_and_the_report_says_that_it_is_not_saved(server: Server, number: int) -> None:
    server.offer(TWO)
    with full_disk(number):
        server.offer(ROLLED_BACK)
        assert server.tree.text == ROLLED_BACK.text
        assert server.state is State.UNSIGNED
        assert os.strerror(number) in str(server.report.error)
        assert "until then a reboot brings an older table back" in str(server.report.error)
        for _ in range(3):
            server.applier.check()
        assert server.log.getvalue().count(f"/{LAST_KNOWN_GOOD}") <= 1
    assert server.good() == TWO
    server.applier.check()
    assert server.good() == ROLLED_BACK
    assert (server.state, server.report.error) == (State.UNSIGNED, None)
    assert server.store.load("gr", STATE, dict)["error"] is None
    assert server.store.load("gr", SERIALS, dict)["local/champion"]["serial"] == 3
    server.reboot()
    assert server.tree.text == ROLLED_BACK.text


def test_move_on_a_full_disk_is_undone_where_the_disk_is_still_full(server: Server) -> None:
    server.offer(TWO)
    back_to_two = Table(TWO.ensemble, Deployment("local", "champion", 4))
    with full_disk():
        server.offer(table(3))
        server.offer(back_to_two)
    server.applier.check()
    assert (server.report.error, server.good()) == (None, back_to_two)


def test_resume_on_a_full_disk_clears_what_is_in_the_way(server: Server) -> None:
    server.offer(ONE)
    server.by_hand(table(99).text)
    with full_disk():
        server.applier.resume()
        assert (server.state, server.tree.text) == (State.UNSIGNED, ONE.text)


def test_request_that_cannot_be_deleted_is_not_carried_out_again_and_again(server: Server) -> None:
    server.offer(ONE)
    server.by_hand(table(99).text)
    server.store.leave_request("resume", "gr")
    with full_disk(errno.EROFS):
        server.applier.check()
        assert (server.state, server.tree.text) == (State.UNSIGNED, ONE.text)
        assert "cannot delete" in server.log.getvalue()
        server.by_hand(table(98).text)
        for _ in range(3):
            server.applier.check()
        assert (server.state, server.tree.text) == (State.DEGRADED, table(98).text)
    server.applier.check()
    assert server.state is State.DEGRADED
    assert "cannot delete" not in str(server.report.error)
    assert not server.store.is_requested("resume", "gr")


def test_state_that_cannot_be_saved_is_not_confirmed_and_its_age_shows_that(server: Server) -> None:
    server.offer(ONE)
    path = server.store.root / "gr" / STATE
    os.utime(path, (1000, 1000))
    server.now_s += 11
    with full_disk():
        server.lose_registry("gone")
        server.applier.check()
        assert server.store.age_s("gr", STATE, now_s=1500.0) == 500
    server.applier.check()
    assert path.stat().st_mtime > 1000
    assert server.store.load("gr", STATE, dict)["state"] == "Offline"


def test_state_that_stays_the_same_is_confirmed_every_10_s(server: Server) -> None:
    server.offer(ONE)
    path = server.store.root / "gr" / STATE
    os.utime(path, (1000, 1000))
    server.now_s += 9
    server.applier.check()
    assert path.stat().st_mtime == 1000
    server.now_s += 2
    server.applier.check()
    assert path.stat().st_mtime > 1000
