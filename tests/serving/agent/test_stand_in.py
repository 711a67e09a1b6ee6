# SPDX-License-Identifier: MIT
"""The agent against the stand-in of the tree, which parses with the core: what the fake of the tree takes on trust."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from emulation.standin import StandInTree
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble
from serving.agent import cli as agent_cli
from serving.agent.applier import Applier
from serving.agent.kernel import Tree, look
from serving.agent.state import PollResult, State
from serving.agent.store import Store
from serving.agent.table import MAX_ADVANCE, Table
from tests.emulation.tables import ensemble_of
from tests.serving.agent.fakes import COLUMNS, FakeRegistry, FakeTree, applier_of, fake_registry, table

ONE, TWO = table(1), table(2)


@pytest.fixture
def tree(tmp_path: Path) -> StandInTree:
    return StandInTree(tmp_path / "tree")


@pytest.fixture
def applier(tmp_path: Path, tree: StandInTree) -> Iterator[Applier]:
    store = Store(tmp_path / "state")
    with store.acquire():
        made = applier_of(tree, store)
        made.start()
        yield made


def state_of(applier: Applier) -> State:
    return applier.report().state


def largest() -> Table:
    """As many states as one axis and eight classes give."""
    classes = tuple(DelayClass(95, 10_000 * (number + 1)) for number in range(8))
    return Table(
        Ensemble(
            cca="gr",
            epoch_ms=3_600_000,
            estimate_ms=1,
            epsilon_pct=0,
            classes=classes,
            axes=(Axis("throughput_bytes_per_s", "log", 4_294_967_295, 64, 64),),
            columns=COLUMNS,
            rows=((4_000_000, 1_000_000, 1_000_000),) * (64 * 8),
        ),
        Deployment("r" * 63, "champion", MAX_ADVANCE, 1000),
    )


def two_axes() -> Table:
    """A table of R-TCP."""
    ensemble = ensemble_of(
        tuple((600 + 10 * rtt, 20 + limit, 200) for rtt in range(5) for limit in range(5)),
        cca="rtcp_cubic",
        columns=("reduction_permille", "probe_every_rounds", "probe_gain_permille"),
        axes=(Axis("min_rtt_us", "log", 10_000, 5, 1), Axis("limit_bytes_per_s", "log", 31_250, 5, 1)),
    )
    return Table(ensemble, Deployment("local", "champion", 1))


@pytest.mark.parametrize(
    "offered", [ONE, table(1, urgent=True), largest(), two_axes()], ids=["small", "urgent", "largest", "two axes"]
)
def test_core_reads_back_every_byte_that_the_agent_writes(tmp_path: Path, tree: StandInTree, offered: Table) -> None:
    applier = applier_of(tree, Store(tmp_path), cca=offered.ensemble.cca)
    applier.start()
    applier.receive(PollResult(State.IN_SYNC, offered))
    assert applier.report().error is None
    assert state_of(applier) == State.UNSIGNED
    assert tree.read(offered.ensemble.cca, "ensemble") == offered.text


def errno_of_write(tree: Tree, offered: Table) -> int | None:
    """The errno that a write ends with; None where it succeeds."""
    try:
        tree.write("gr", "ensemble", offered.text)
    except OSError as error:
        return error.errno
    return None


def test_serial_rules_of_the_core_are_the_ones_of_the_fake(tree: StandInTree) -> None:
    fake = FakeTree()
    for offered, expected in [
        (TWO, None),
        (TWO, None),
        (ONE, errno.ESTALE),
        (table(2, window_us=70_000), errno.EEXIST),
        (table(2, urgent=True), None),
        (table(2, urgent=True), None),
        (TWO, None),
        (table(1, channel="canary"), None),
        (table(3), None),
        (table(4, urgent=True), None),
        (table(4), None),
    ]:
        assert errno_of_write(tree, offered) == errno_of_write(fake, offered) == expected
        assert tree.read("gr", "ensemble") == fake.read("gr", "ensemble")
        of_core, of_fake = look(tree, "gr").status, look(fake, "gr").status
        assert of_core is not None
        assert of_fake is not None
        assert (of_core.generation, of_core.urgent) == (of_fake.generation, of_fake.urgent)


class WithoutTracking(StandInTree):
    """Of a module that was built before GR tracked its target."""

    def read(self, cca: str, file: str) -> str:
        """As StandInTree.read."""
        lines = super().read(cca, file).splitlines(keepends=True)
        return "".join(line for line in lines if file != "parameters" or not line.startswith("tracking_"))


def test_a_column_that_the_module_lacks_is_named_and_the_table_is_not_written(tmp_path: Path) -> None:
    tree = WithoutTracking(tmp_path / "tree")
    tracked = replace(
        ONE.ensemble,
        columns=(*COLUMNS, "tracking_gain_permille"),
        rows=tuple((*row, 1000) for row in ONE.ensemble.rows),
    )
    applier = applier_of(tree, Store(tmp_path / "state"))
    applier.start()
    applier.receive(PollResult(State.IN_SYNC, replace(ONE, ensemble=tracked)))
    assert state_of(applier) == State.INCOMPATIBLE
    assert "no parameter tracking_gain_permille for gr" in str(applier.report().error)
    applier.receive(PollResult(State.IN_SYNC, TWO))
    assert (state_of(applier), tree.read("gr", "ensemble")) == (State.UNSIGNED, TWO.text)


def test_change_of_parameters_by_hand_is_no_change_of_the_table(applier: Applier, tree: StandInTree) -> None:
    applier.receive(PollResult(State.IN_SYNC, ONE))
    tree.write("gr", "parameters", "delay_threshold_us 20000\n")
    applier.check()
    assert state_of(applier) == State.UNSIGNED


def test_ccatune_agent_writes_to_the_stand_in_that_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def agent(registry: FakeRegistry, *options: str) -> int:
        folders = ["--state-dir", str(tmp_path / "state"), "--stand-in", str(tmp_path / "tree")]
        return agent_cli.run(["--url", registry.url, "--cca", "gr", *folders, *options])

    with fake_registry() as registry:
        registry.offer(ONE)
        assert agent(registry, "--dry-run") == 0
        assert "would do: apply local/champion serial 1" in capsys.readouterr().out
        assert agent(registry, "--once", "--json") == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["state"], report["module_version"]) == ("Unsigned", "stand-in 0.1.0")
    assert StandInTree(tmp_path / "tree").read("gr", "ensemble") == ONE.text


def test_dry_run_of_the_stand_in_writes_no_file(tmp_path: Path) -> None:
    with fake_registry() as registry:
        registry.offer(ONE)
        words = ["--url", registry.url, "--cca", "gr", "--state-dir", str(tmp_path / "state")]
        assert agent_cli.run([*words, "--stand-in", str(tmp_path / "tree"), "--dry-run"]) == 0
        for other in (["--via", "auto"], ["--proc-root", str(tmp_path)]):
            assert agent_cli.run([*words, "--stand-in", str(tmp_path / "tree"), *other, "--dry-run"]) == 2
    assert list(tmp_path.iterdir()) == []
