# SPDX-License-Identifier: MIT
"""kmod.ensemble: what an ensemble may hold, its rows and its levels, beside the core's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmod.ensemble import Axis, DelayClass, Deployment, EnsembleError, table_text
from kmod.errors import AbiError
from tests.kmod.tables import AXIS, COLUMNS, axes, deployments, ensembles, small

if TYPE_CHECKING:
    from kmod.ensemble import Ensemble
    from tests.kmod.conftest import Core

WITH_CORE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
ROWS = small().rows


# --- levels ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "value", "level"),
    [
        (Axis(AXIS, "linear", 125000, 40), 0, 0),
        (Axis(AXIS, "linear", 125000, 40), 124999, 0),
        (Axis(AXIS, "linear", 125000, 40), 125000, 1),
        (Axis(AXIS, "linear", 125000, 40), 2**63, 39),
        (Axis(AXIS, "log", 1000, 64, 4), 999, 0),
        (Axis(AXIS, "log", 1000, 64, 4), 1250, 1),
        (Axis(AXIS, "log", 1000, 64, 4), 2500, 5),
        (Axis(AXIS, "log", 1000, 12, 4), 2**63, 11),
    ],
)
def test_a_level_is_equation_2_or_its_part_of_an_octave(axis: Axis, value: int, level: int) -> None:
    assert axis.level(value) == level


@WITH_CORE
@given(axis=axes(), value=st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**40)), near=st.integers(0, 2**12))
def test_python_and_the_core_agree_on_the_level(core: Core, axis: Axis, value: int, near: int) -> None:
    # Values at edges too: multiples of the step, one less, and their doublings.
    for one in (value, near * axis.step, max(near * axis.step - 1, 0), axis.step << (near % 32)):
        expected = core.level(
            scale=axis.scale, step=axis.step, count=axis.count, per_octave=axis.per_octave, value=one % 2**64
        )
        assert axis.level(one % 2**64) == expected


# --- rows ------------------------------------------------------------------------


def test_a_row_is_found_by_level_and_class() -> None:
    assert small().n_states == 2
    assert small().row(0, 1) == dict(zip(COLUMNS, ROWS[1], strict=True))
    assert small().row((1,), 0) == dict(zip(COLUMNS, ROWS[2], strict=True))


@pytest.mark.parametrize(("level", "delay_class"), [(2, 0), (-1, 0), (0, 2), (0, -1), ((0, 0), 0), ((), 0)])
def test_a_row_that_is_not_there_is_refused(level: int | tuple[int, ...], delay_class: int) -> None:
    with pytest.raises(EnsembleError, match="expected"):
        small().row(level, delay_class)


@WITH_CORE
@given(ensemble=ensembles(), deployment=deployments, place=st.integers(0, 10**6))
def test_the_core_takes_the_row_that_python_finds(
    core: Core, ensemble: Ensemble, deployment: Deployment, place: int
) -> None:
    level, delay_class = place % ensemble.n_states, place // 7 % ensemble.state_rows
    text = table_text(ensemble, deployment).encode()
    params = core.row("gr", text, state=level, delay_class=delay_class)
    names = [name for name, *_ in core.params("gr")]
    row = ensemble.row(level, delay_class)
    assert {name: params[names.index(name)] for name in row} == row


# --- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: DelayClass(0, 1),
        lambda: DelayClass(100, 1),
        lambda: DelayClass(95, 0),
        lambda: DelayClass(95, 60_000_001),
        lambda: DelayClass(True, 1),
        lambda: DelayClass(95.0, 1),  # type: ignore[arg-type]
        lambda: Axis("x", "cubic", 1, 1),  # type: ignore[arg-type]
        lambda: Axis("x", "linear", 0, 1),
        lambda: Axis("x", "linear", 2**32, 1),
        lambda: Axis("x", "linear", 1, 0),
        lambda: Axis("x", "linear", 1, 65),
        lambda: Axis("x", "linear", 1, 1, 1),
        lambda: Axis("x", "log", 1, 1),
        lambda: Axis("x", "log", 1, 1, 65),
        lambda: Axis(["x"], "linear", 1, 1),  # type: ignore[arg-type]
        lambda: Deployment("", "c", 1),
        lambda: Deployment("r" * 64, "c", 1),
        lambda: Deployment("r", "a b", 1),
        lambda: Deployment("r", "c\n", 1),
        lambda: Deployment("r", "é", 1),
        lambda: Deployment("r", 5, 1),  # type: ignore[arg-type]
        lambda: Deployment("r", "c", 0),
        lambda: Deployment("r", "c", 2**63),
        lambda: Deployment("r", "c", 1, -1),
        lambda: Deployment("r", "c", 1, 1001),
        lambda: Deployment("r", "c", 1, 0, 1),  # type: ignore[arg-type]
        lambda: Deployment("r", "c", 1, 0, "no"),  # type: ignore[arg-type]
        lambda: Deployment("r", "c", 1, 0, None),  # type: ignore[arg-type]
    ],
)
def test_a_part_that_the_core_would_not_take_is_refused(make: Any) -> None:
    with pytest.raises(EnsembleError, match=r"ensemble: expected .*, got "):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cca": "tahoe"},
            "algorithms bbr, bbr3, cubic, gr, reno, roccet, rtcp_bbr, rtcp_bbr3, rtcp_cubic, sira, vegas, got 'tahoe'",
        ),
        ({"cca": ["gr"]}, "one of the algorithms"),
        ({"epoch_ms": 0}, "an epoch of 1 to 3600000 ms"),
        ({"epoch_ms": 3_600_001}, "an epoch of 1 to 3600000 ms"),
        ({"epoch_ms": "30000"}, "an epoch of 1 to 3600000 ms"),
        ({"estimate_ms": 0}, "from 1 ms to the epoch"),
        ({"estimate_ms": 30001}, "from 1 ms to the epoch"),
        ({"epsilon_pct": -1}, "epsilon of 0 to 1000 %"),
        ({"epsilon_pct": 1001}, "epsilon of 0 to 1000 %"),
        ({"classes": ()}, "no epsilon without classes, got 25"),
        ({"epsilon_pct": None}, "epsilon of 0 to 1000 %, got None"),
        ({"classes": (DelayClass(95, 1),) * 9}, "at most 8 classes, got 9"),
        ({"axes": ()}, "one or two axes, got 0"),
        ({"axes": (Axis(AXIS, "linear", 1, 2),) * 3}, "one or two axes, got 3"),
        ({"axes": (Axis(AXIS, "linear", 1, 2),) * 2}, "different axes"),
        ({"axes": (Axis("minimum_rtt_us", "linear", 1, 2),)}, "an axis of gr"),
        ({"cca": "reno"}, "it has none"),
        ({"columns": ()}, "different columns among"),
        ({"columns": (COLUMNS[0], COLUMNS[0], COLUMNS[1])}, "different columns among"),
        ({"columns": (*COLUMNS[:2], "cwnd_gain_pct")}, "different columns among"),
        ({"rows": ROWS[:3]}, "4 rows, got 3"),
        ({"rows": (*ROWS, ROWS[0])}, "4 rows, got 5"),
        ({"rows": (*ROWS[:3], ROWS[3][:2])}, "3 values in row 3"),
        ({"rows": (*ROWS[:3], (1999, 3000, 12000))}, "row 3 bandwidth_window_us from 2000 to 4000000 us, got 1999"),
        ({"rows": (*ROWS[:3], (60000, 3000, 1000001))}, "row 3 delay_threshold_us from 1000 to 1000000 us"),
        ({"rows": (*ROWS[:3], (60000, 3000, 12000.0))}, "row 3 delay_threshold_us"),
    ],
)
def test_an_ensemble_that_the_core_would_not_take_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EnsembleError, match=message):
        small(**changes)


def test_an_ensembles_error_is_one_of_the_contract() -> None:
    assert issubclass(EnsembleError, AbiError)
