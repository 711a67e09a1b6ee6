# SPDX-License-Identifier: MIT
"""kmod.abi: params.def as Python reads it is params.def as C reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kmod import abi
from kmod.abi import ALGORITHMS, parse_params
from kmod.errors import AbiError, CcatuneError

if TYPE_CHECKING:
    from tests.kmod.conftest import Core


def test_python_and_the_core_read_the_same_params(core: Core) -> None:
    assert set(ALGORITHMS) == set(core.ids)
    for name, algorithm in ALGORITHMS.items():
        mine = [(p.name, p.unit, p.minimum, p.default, p.maximum, p.kind) for p in algorithm.params]
        assert mine == core.params(name)
        assert [axis.name for axis in algorithm.axes] == core.axes(name)


def test_gr_has_the_three_parameters_of_the_paper() -> None:
    gr = ALGORITHMS["gr"]
    assert gr.mode == "control"
    assert [spec.name for spec in gr.tuned] == ["bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"]
    assert gr.param("delay_threshold_us").default == 50000
    assert gr.param("cwnd_gain_pct").kind == "fixed"
    assert gr.param("loss_hold_permille").unit == "permille"
    assert all(spec.meaning for spec in gr.params)


def test_reno_has_nothing_to_tune() -> None:
    reno = ALGORITHMS["reno"]
    assert (reno.mode, reno.params, reno.axes, reno.tuned) == ("window", (), (), ())


def test_an_unknown_parameter_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(AbiError, match=r"gr has no parameter 'beta': expected one of bandwidth_window_us, .*hold"):
        ALGORITHMS["gr"].param("beta")
    with pytest.raises(CcatuneError, match=r"reno has no parameter 'beta': expected one of none"):
        ALGORITHMS["reno"].param("beta")


def test_every_algorithm_has_a_number_of_its_own() -> None:
    text = (Path(abi.__file__).parent / "core" / "params.def").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^#define CCA_ID_(\w+) (\d+)$", text, re.MULTILINE))
    assert list(numbers) == list(ALGORITHMS)
    assert len(set(numbers.values())) == len(numbers)


def test_sockets_choose_the_names_that_the_kernel_has_free() -> None:
    names = {name: algorithm.kernel_name for name, algorithm in ALGORITHMS.items() if algorithm.host != "simulator"}
    assert (names["gr"], names["cubic"], names["vegas"]) == ("gr", "ccatune_cubic", "ccatune_vegas")
    modules = [ALGORITHMS[name].module for name in ("gr", "cubic", "vegas", "reno")]
    assert modules == ["tcp_gr", "tcp_ccatune_cubic", "", ""]
    # TCP_CA_NAME_MAX, with the NUL.
    assert all(len(name) < 16 for name in names.values())


def test_algorithms_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ALGORITHMS["gr"] = ALGORITHMS["reno"]  # type: ignore[index]


HEAD = 'CCA_ALGORITHM(one, WINDOW, BPF, "first")\n'


def test_entries_are_read_in_their_order() -> None:
    text = HEAD + 'CCA_AXIS(one, speed, "of it")\nCCA_PARAM(one, b, us, 0, 1, 2, TUNED, "b, (c)")\n'
    one = parse_params(text + '#define CCA_X\n CCA_PARAM(\nCCA_PARAM(one, a, ms, 5, 5, 5, FIXED, "a")\n')["one"]
    assert (one.name, one.mode, one.host, one.meaning) == ("one", "window", "bpf", "first")
    assert [(p.name, p.minimum, p.default, p.maximum, p.kind) for p in one.params] == [
        ("b", 0, 1, 2, "tuned"),
        ("a", 5, 5, 5, "fixed"),
    ]
    assert one.params[0].meaning == "b, (c)"
    assert [(axis.name, axis.meaning) for axis in one.axes] == [("speed", "of it")]


@pytest.mark.parametrize(
    "line",
    [
        "CCA_PARAM(one, a, us, 1,",
        'CCA_OTHER(one, a, "x")',
        'CCA_ALGORITHM(two, CONTROL, "x")',
        'CCA_ALGORITHM(two, CONTROL, KERNEL, "x")',
        'CCA_PARAM(nobody, a, us, 0, 1, 2, TUNED, "x")',
        'CCA_AXIS(nobody, a, "x")',
        'CCA_PARAM(one, a, us, 0, 1, TUNED, "x")',
        'CCA_PARAM(one, a, us, 0, one, 2, TUNED, "x")',
        'CCA_PARAM(one, a, us, 2, 1, 3, TUNED, "x")',
        'CCA_PARAM(one, a, us, 0, 3, 2, TUNED, "x")',
        'CCA_PARAM(one, a, us, -1, 1, 2, TUNED, "x")',
        'CCA_PARAM(one, a, us, 0, 1, 4294967296, TUNED, "x")',
        'CCA_PARAM(one, a, us, 0, 1, 2, tuned, "x")',
        'CCA_AXIS(one, "x")',
    ],
)
def test_a_malformed_entry_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(AbiError, match=r"params\.def:2: "):
        parse_params(HEAD + line + "\n")
