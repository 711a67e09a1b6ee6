# SPDX-License-Identifier: MIT
"""Seconds of fuzzing the text of ensembles, and faults that it must find. `make prove ARGS=fuzz` fuzzes flows, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.fuzzing import FUZZ, TEXT, build_fuzzer, read_counts, run_fuzzer, unreached
from tests.contract.toolchain import BRIEF_C, compile_program, run_program


@pytest.mark.fuzz
def test_fuzzing_finds_nothing(tmp_path: Path) -> None:
    run = run_fuzzer(TEXT, seconds=4, seed=1, folder=tmp_path)
    assert run.found == ""
    assert run.inputs > 0


def test_our_driver_repeats_itself_and_reaches_everything(tmp_path: Path) -> None:
    program = build_fuzzer(TEXT, folder=tmp_path, guided=False)
    # The seed is any that reaches everything.
    first, second, whole = (
        run_program(program, "--seed", "6", "--runs", runs, folder=tmp_path) for runs in ("1000", "1000", "10000")
    )
    assert first.stdout == second.stdout
    assert whole.returncode == 0, whole.stderr
    assert unreached(TEXT, counts=read_counts(whole.stdout)) == ()


def test_what_is_not_reached_is_named() -> None:
    target = replace(TEXT, must_reach=("accepted", "cleared", "unheard_of"))
    assert unreached(target, counts={"accepted": 1, "cleared": 0}) == ("cleared", "unheard_of")


# Faults put into the core, one at a time: what a fuzzer does not find there, it would not find elsewhere.
FAULTS = {
    "a line of 512 characters is taken": (
        "ensemble_text.h",
        "if (p->line_len == ENS_MAX_LINE - 1)",
        "if (p->line_len == ENS_MAX_LINE + 1)",
    ),
    "a row too many is taken": (
        "ensemble_text.h",
        "if (p->next_row == ens_rows(t)) {",
        "if (p->next_row == ens_rows(t) + 1) {",
    ),
    "leading zeros are taken": (
        "words.h",
        "(*start == '0' && c->at - start > 1)",
        "(*start == '0' && c->at - start > 2)",
    ),
    "a number may wrap": (
        "words.h",
        "if (number > (ENS_MAX_NUMBER - digit) / 10)",
        "if (number > ~0ull - digit)",
    ),
    "an error is forgotten": (
        "ensemble_text.h",
        "return p->error ? p->error : (int)i;",
        "int e = p->error; p->error = 0; return e ? e : (int)i;",
    ),
    "a class is written for another": (
        "ensemble_format.h",
        "ens_put_number(w, t->classes[i].percentile);",
        "ens_put_number(w, t->classes[0].percentile);",
    ),
    "a level beyond the last": (
        "ensemble.h",
        "octave * a->per_octave + (u32)part, a->count - 1",
        "octave * a->per_octave + (u32)part, a->count",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fuzzing_finds_a_fault_put_into_the_core(fault: str, tmp_path: Path) -> None:
    header, right, wrong = FAULTS[fault]
    program = compile_program(
        BRIEF_C, [*(FUZZ / source for source in TEXT.sources), FUZZ / "driver.c"],
        folder=tmp_path, name="faulty", changes={header: (right, wrong)},
    )  # fmt: skip
    result = run_program(program, "--seed", "5", "--runs", "60000", folder=tmp_path)
    assert result.returncode != 0
    assert (tmp_path / "failed-input").exists()
    assert run_program(program, "failed-input", folder=tmp_path).returncode != 0
