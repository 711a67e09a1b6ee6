# SPDX-License-Identifier: MIT
"""A kill at every single step of the agent, one after another: what holds at random moments holds at all of them.

A kill is an exception that nothing catches, raised before or after each access
to the kernel and each call that changes the disk, after which a new agent starts.
"""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.agent.applier import Applier
from serving.agent.state import PollResult, State
from serving.agent.store import LAST_KNOWN_GOOD, Store
from serving.agent.table import Table
from tests.serving.agent.fakes import FakeTree, applier_of, table

ONE, TWO = table(1), table(2)
MOST_STEPS = 400


class KilledError(BaseException):
    """SIGKILL, for a test: no handler of the agent may catch it."""


class Fuse:
    """Raises KilledError at the chosen step, and ever after: who is dead cleans nothing up."""

    def __init__(self, blow_at: int) -> None:
        self.left = blow_at

    def step(self, *_: object) -> None:
        self.left -= 1
        if self.left <= 0:
            raise KilledError


def offer_one(to: Applier) -> None:
    to.receive(PollResult(State.IN_SYNC, ONE))


def offer_two(to: Applier) -> None:
    to.receive(PollResult(State.IN_SYNC, TWO))


def wire(patch: pytest.MonkeyPatch, fuse: Fuse, tree: FakeTree) -> None:
    """Put the fuse before and after every call that changes the disk, and at every access to the kernel."""

    def fused(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            fuse.step()
            result = call(*arguments, **options)
            fuse.step()
            return result

        return wrapped

    tree.on_access = fuse.step
    # A killed process loses nothing that it wrote, synced or not: the fsync itself would only take time.
    patch.setattr(os, "fsync", fused(lambda _: None))
    patch.setattr(os, "replace", fused(os.replace))
    for name in ("replace", "unlink"):
        patch.setattr(pathlib.Path, name, fused(getattr(pathlib.Path, name)))


def run_with_kill_at(
    step: int, folder: Path, *, before: Callable[[Applier], None], during: Callable[[Applier], None]
) -> tuple[bool, FakeTree, Store]:
    """Run `before` in peace and `during` with a kill at `step`; says whether it came to the kill."""
    tree, store = FakeTree(), Store(folder)
    with store.acquire():
        first = applier_of(tree, store)
        first.start()
        before(first)
        with pytest.MonkeyPatch.context() as patch:
            wire(patch, Fuse(step), tree)
            try:
                during(first)
            except KilledError:
                killed = True
            else:
                killed = False
        tree.on_access = lambda _: None
    return killed, tree, store


def every_kill(
    tmp_path: Path, *, before: Callable[[Applier], None], during: Callable[[Applier], None]
) -> list[tuple[FakeTree, Store]]:
    """One server for each step that can be killed in."""
    servers = []
    for step in itertools.count(1):
        assert step < MOST_STEPS
        killed, tree, store = run_with_kill_at(step, tmp_path / str(step), before=before, during=during)
        if not killed:
            assert step > 10  # the fuse is wired
            return servers
        servers.append((tree, store))
    raise AssertionError


def last_known_good(store: Store) -> Table | None:
    return store.load_table("gr", LAST_KNOWN_GOOD)


def test_table_in_force_and_last_known_good_are_always_published_ones(tmp_path: Path) -> None:
    servers = every_kill(tmp_path, before=offer_one, during=offer_two)
    assert {tree.text for tree, _ in servers} == {ONE.text, TWO.text}
    kept = [last_known_good(store) for _, store in servers]
    assert ONE in kept
    assert TWO in kept
    assert all(good in (ONE, TWO) for good in kept)


def test_first_application_can_be_killed_too(tmp_path: Path) -> None:
    servers = every_kill(tmp_path, before=lambda _: None, during=offer_one)
    for tree, store in servers:
        assert tree.text in {"", ONE.text}
        assert last_known_good(store) in (None, ONE)
        again = applier_of(tree, store)
        again.start()
        offer_one(again)
        assert (again.report().state, tree.text) == (State.UNSIGNED, ONE.text)


def test_restart_after_any_kill_goes_on_without_a_pause(tmp_path: Path) -> None:
    servers = every_kill(tmp_path, before=offer_one, during=offer_two)
    assert any(list((store.root / "gr").glob(".*.tmp")) for _, store in servers)
    for tree, store in servers:
        in_force = tree.text
        again = applier_of(tree, store)
        again.start()
        assert tree.text == in_force
        assert last_known_good(store) == (ONE if in_force == ONE.text else TWO)
        assert not list((store.root / "gr").glob(".*.tmp"))
        again.receive(PollResult(State.OFFLINE, error="gone"))
        assert again.report().state is State.OFFLINE
        offer_two(again)
        assert (again.report().state, tree.text) == (State.UNSIGNED, TWO.text)


def test_reboot_after_any_kill_brings_the_last_known_good_back(tmp_path: Path) -> None:
    for tree, store in every_kill(tmp_path, before=offer_one, during=offer_two):
        good = last_known_good(store)
        tree.reload()
        again = applier_of(tree, store, boot_id="boot-2")
        again.start()
        assert good is not None
        assert tree.text == good.text
        assert last_known_good(store) == good


def test_start_itself_can_be_killed(tmp_path: Path) -> None:
    def restart(old: Applier) -> None:
        applier_of(old._tree, old._store).start()  # type: ignore[arg-type]

    def killed_and_reloaded(old: Applier) -> None:
        offer_one(old)
        assert isinstance(old._tree, FakeTree)
        old._tree.reload()

    for tree, store in every_kill(tmp_path, before=killed_and_reloaded, during=restart):
        assert tree.text in {"", ONE.text}
        applier_of(tree, store).start()
        assert (tree.text, last_known_good(store)) == (ONE.text, ONE)


@pytest.mark.parametrize("is_from_file", [True, False], ids=["ccatune-agent resume", "SIGHUP"])
def test_take_over_can_be_killed_at_any_step(tmp_path: Path, *, is_from_file: bool) -> None:
    by_hand = table(99)

    def degraded(old: Applier) -> None:
        offer_one(old)
        old._tree.write("gr", "ensemble", by_hand.text)
        old.check()
        assert old.report().state is State.DEGRADED

    def resume(killed: Applier) -> None:
        if is_from_file:
            killed._store.leave_request("resume", "gr")
            killed.check()
        else:
            killed.resume()

    servers = every_kill(tmp_path, before=degraded, during=resume)
    assert {tree.text for tree, _ in servers} == {by_hand.text, "", ONE.text}
    for tree, store in servers:
        in_force = tree.text
        again = applier_of(tree, store)
        again.start()
        # Before the clear the operator's table stays; after it, ours follows without being asked again.
        assert tree.text == (by_hand.text if in_force == by_hand.text else ONE.text)
        if is_from_file:
            # A request of `ccatune-agent resume` survives every kill.
            again.check()
            assert (again.report().state, tree.text) == (State.STARTING, ONE.text)
            assert not store.is_requested("resume", "gr")
