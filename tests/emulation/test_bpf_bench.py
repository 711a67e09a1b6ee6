# SPDX-License-Identifier: MIT
"""`ccatune bench --only bpf`: figures of every algorithm in BPF, from flows of this machine's kernel."""

from __future__ import annotations

import json

import pytest

import ccatune
from emulation.cli import bpf_bench
from emulation.mahimahi.in_bpf import available_ccas
from kmod import bpf_host
from kmod.abi import ALGORITHMS
from kmod.bpf_host import BPF_CCAS
from tests.bpf.sole import built_program, sole_user

CHOSEN = tuple(each for each in bpf_bench.CONTENDERS if each.label in {"cubic", "gr_table"})


def test_every_algorithm_is_measured_and_with_a_table_where_it_follows_one() -> None:
    assert {each.cca for each in bpf_bench.CONTENDERS} == set(BPF_CCAS)
    assert {each.cca for each in bpf_bench.CONTENDERS if each.has_table} == set(BPF_CCAS) - {"vegas"}


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("lacking", lambda: "not root", "expected a machine that can load algorithms in BPF, but not root"),
        ("find_program", lambda: None, "ccatune-bpf is not installed; `make bpf` builds it"),
    ],
)
def test_what_is_lacking_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], attribute: str, value: object, said: str
) -> None:
    monkeypatch.setattr(bpf_host, "lacking", lambda: "")
    monkeypatch.setattr(bpf_host, attribute, value)
    assert ccatune.run(["bench", "--only", "bpf"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_a_table_has_the_defaults_in_all_rows() -> None:
    for each in bpf_bench.CONTENDERS:
        lines = [line.split() for _, text in each.files() for line in text.splitlines()]
        axes = len(ALGORITHMS[each.cca].axes)
        rows = {tuple(words[axes:]) for words in lines if words[0].isdigit()}
        assert len(rows) == each.has_table


@pytest.mark.bpf
def test_flows_on_this_kernel_give_every_figure_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCATUNE_BPF", str(built_program()))
    monkeypatch.setattr(bpf_bench, "CONTENDERS", CHOSEN)
    # The others would only be loaded, which tests/bpf/test_files.py does.
    monkeypatch.setattr(bpf_bench, "BPF_CCAS", {each.cca: BPF_CCAS[each.cca] for each in CHOSEN})
    monkeypatch.setattr(bpf_bench, "TURNS", 1)
    monkeypatch.setattr(bpf_bench, "TURN_S", 0.05)
    monkeypatch.setattr(bpf_bench, "COST_S", 0.05)
    with sole_user():
        before = available_ccas()
        assert ccatune.run(["bench", "--only", "bpf", "--repeats", "1", "--json"]) == 0
        assert available_ccas() == before
    got = json.loads(capsys.readouterr().out)
    costs = [f"bpf_{label}_ns_per_ack" for label in ("kernels_cubic", "cubic", "gr_table")]
    assert all(10 < got[name] < 1e6 for name in costs)
    assert set(got["targets"]) == {"bpf_cubic_share", "bpf_gr_table_share"}
    assert all(got[name] > 0 for name in got["targets"])
