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

from serving.agent import Keeper, State, Store, Table
from serving.agent.store import LAST_KNOWN_GOOD
from tests.serving.agent.fakes import FakeTree, log_to, table

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


def keeper(tree: FakeTree, store: Store, *, boot_id: str = "boot-1") -> Keeper:
    return Keeper("gr", channel="champion", tree=tree, store=store, log=log_to(), boot_id=boot_id)


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
    step: int, folder: Path, *, before: Callable[[Keeper], None], during: Callable[[Keeper], None]
) -> tuple[bool, FakeTree, Store]:
    """Run `before` in peace and `during` with a kill at `step`; says whether it came to the kill."""
    tree, store = FakeTree(), Store(folder)
    with store.acquire():
        first = keeper(tree, store)
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
    tmp_path: Path, *, before: Callable[[Keeper], None], during: Callable[[Keeper], None]
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
    servers = every_kill(tmp_path, before=lambda k: k.offered(ONE), during=lambda k: k.offered(TWO))
    assert {tree.text for tree, _ in servers} == {ONE.text, TWO.text}
    kept = [last_known_good(store) for _, store in servers]
    assert ONE in kept
    assert TWO in kept
    assert all(good in (ONE, TWO) for good in kept)


def test_first_application_can_be_killed_too(tmp_path: Path) -> None:
    servers = every_kill(tmp_path, before=lambda _: None, during=lambda k: k.offered(ONE))
    for tree, store in servers:
        assert tree.text in {"", ONE.text}
        assert last_known_good(store) in (None, ONE)
        again = keeper(tree, store)
        again.start()
        again.offered(ONE)
        assert (again.report().state, tree.text) == (State.UNSIGNED, ONE.text)


def test_restart_after_any_kill_goes_on_without_a_pause(tmp_path: Path) -> None:
    servers = every_kill(tmp_path, before=lambda k: k.offered(ONE), during=lambda k: k.offered(TWO))
    assert any(list((store.root / "gr").glob(".*.tmp")) for _, store in servers)
    for tree, store in servers:
        in_force = tree.text
        again = keeper(tree, store)
        again.start()
        assert tree.text == in_force
        assert last_known_good(store) == (ONE if in_force == ONE.text else TWO)
        assert not list((store.root / "gr").glob(".*.tmp"))
        again.no_offer(State.OFFLINE, "gone")
        assert again.report().state is State.OFFLINE
        again.offered(TWO)
        assert (again.report().state, tree.text) == (State.UNSIGNED, TWO.text)


def test_restart_after_any_kill_goes_on_where_the_module_refuses_the_mark(tmp_path: Path) -> None:
    urgent = table(2, urgent=True)

    def in_sync_on_an_older_module(old: Keeper) -> None:
        assert isinstance(old._tree, FakeTree)
        old._tree.knows_mark = False
        old.offered(ONE)

    servers = every_kill(tmp_path, before=in_sync_on_an_older_module, during=lambda k: k.offered(urgent))
    assert {tree.text for tree, _ in servers} == {ONE.text, TWO.text}
    for tree, store in servers:
        in_force = tree.text
        again = keeper(tree, store)
        again.start()
        assert tree.text == in_force
        assert last_known_good(store) == (ONE if in_force == ONE.text else urgent)
        again.offered(urgent)
        assert (again.report().state, tree.text) == (State.UNSIGNED, TWO.text)


def test_reboot_after_any_kill_brings_the_last_known_good_back(tmp_path: Path) -> None:
    for tree, store in every_kill(tmp_path, before=lambda k: k.offered(ONE), during=lambda k: k.offered(TWO)):
        good = last_known_good(store)
        tree.reload()
        again = keeper(tree, store, boot_id="boot-2")
        again.start()
        assert good is not None
        assert tree.text == good.text
        assert last_known_good(store) == good


def test_start_itself_can_be_killed(tmp_path: Path) -> None:
    def restart(old: Keeper) -> None:
        keeper(old._tree, old._store).start()  # type: ignore[arg-type]

    def killed_and_reloaded(old: Keeper) -> None:
        old.offered(ONE)
        assert isinstance(old._tree, FakeTree)
        old._tree.reload()

    for tree, store in every_kill(tmp_path, before=killed_and_reloaded, during=restart):
        assert tree.text in {"", ONE.text}
        keeper(tree, store).start()
        assert (tree.text, last_known_good(store)) == (ONE.text, ONE)


def test_take_over_can_be_killed_at_any_step(tmp_path: Path) -> None:
    by_hand = table(99)

    def degraded(old: Keeper) -> None:
        old.offered(ONE)
        old._tree.write("gr", "ensemble", by_hand.text)
        old.check()
        assert old.report().state is State.DEGRADED

    servers = every_kill(tmp_path, before=degraded, during=lambda k: k.resume())
    assert {tree.text for tree, _ in servers} == {by_hand.text, "", ONE.text}
    for tree, store in servers:
        in_force = tree.text
        again = keeper(tree, store)
        again.start()
        # Before the clear the operator's table stays; after it, ours follows without being asked again.
        assert tree.text == (by_hand.text if in_force == by_hand.text else ONE.text)
