# SPDX-License-Identifier: MIT
"""Scenarios in the guest: our modules over real links, told as the simulator tells them.

Only with CCATUNE_VM_LONG=1 (the campaign `vm`): by its own clock the guest takes minutes.
"""

from __future__ import annotations

import pytest

from emulation.errors import EmulationError
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.vm.runner import emulate_each
from tests.emulation.tables import ensemble_of, table_of
from tests.vm.lines import LONG

pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

THRESHOLD_US = 20_000


def table() -> str:
    """Every level on one row a class; the second class holds a third of the first one's delay."""
    return table_of(ensemble_of(((60_000,), (THRESHOLD_US,)) * 40, classes_ms=(200, 60), epoch_ms=1000))


@pytest.fixture(scope="module")
def both() -> tuple[QoS, QoS]:
    """One boot: a flow of gr that follows an ensemble in the guest, and the simulator's word on it."""
    scenario = Scenario(
        name="gr",
        link=LinkSpec(rate_mbps=8, rtt_ms=40, buffer_pkts=300),
        flows=(FlowSpec(cca="gr", ensemble_text=table(), delay_class=1),),
        duration_s=5,
        warmup_s=2,
    )
    return behind_a_first_run(scenario), simulate(scenario)


BOOTS = 2


def behind_a_first_run(scenario: Scenario) -> QoS:
    """What it gives behind a short one, of the same boot, whose result does not matter.

    A guest's own clock skips what it would idle. While a busy machine still gives it its files, that may be all of the
    time in which a run's programs have to be ready, so that a boot's first run finds no receiver (docs/emulate.md).
    Where the second finds none either, the guest is booted once more.
    """
    first = scenario.model_copy(update={"name": "first", "duration_s": 0.5, "warmup_s": 0})
    for boot in range(BOOTS):
        found: dict[int, QoS | EmulationError] = {}
        emulate_each((first, scenario), found.__setitem__, series_every_s=0.1)
        result = found[1]
        if not isinstance(result, EmulationError):
            break
        if boot == BOOTS - 1 or "expected it ready" not in str(result):
            raise result
    return result


def test_gr_fills_a_real_link_as_the_simulator_says(both: tuple[QoS, QoS]) -> None:
    real, said = both
    assert real.capacity_mbps == pytest.approx(8, rel=0.01)
    assert real.throughput_mbps == pytest.approx(said.throughput_mbps, rel=0.05)
    assert real.dropped == 0
    assert real.sent == real.simulated_packets + real.dropped + real.queued


def test_gr_of_the_chosen_class_holds_its_delay_on_a_real_link(both: tuple[QoS, QoS]) -> None:
    real, said = both
    said_ms = said.queueing_delay.percentile_ms(95)
    # The first class, and a flow without an ensemble, would let three times as much stand in the queue.
    assert real.queueing_delay.percentile_ms(95) == pytest.approx(said_ms, abs=max(0.3 * said_ms, 10))
    assert real.series["cwnd_pkts"].min() > 0
