# SPDX-License-Identifier: MIT
"""kmod.ensemble.table_text: what Python writes, the core takes and gives back byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from kmod.ensemble import (
    MAX_TEXT_BYTES,
    Axis,
    DelayClass,
    Deployment,
    Ensemble,
    EnsembleError,
    table_text,
    without_urgent_mark,
)
from tests.kmod.tables import AXIS, deployments, ensembles, small

if TYPE_CHECKING:
    from tests.kmod.conftest import Core

EINVAL, ERANGE = 22, 34
DEPLOYMENT = Deployment("local", "champion", 3, 10)
TEXT = """\
ccatune-ensemble 1
cca gr
registry local
channel champion
serial 3
digest {digest}
epoch_ms 30000
estimate_ms 250
epsilon_pct 25
hold_back_permille 10
classes 95:50000 95:100000
axis throughput_bytes_per_s linear 125000 2
columns bandwidth_window_us adaptation_interval_us delay_threshold_us
0 0 60000 3000 12000
0 1 60000 3000 25000
1 0 50000 2000 12000
1 1 40000 1000 25000
end 4
"""


def test_the_text_is_written_as_the_contract_says() -> None:
    assert table_text(small(), DEPLOYMENT) == TEXT.format(digest=small().digest)


def test_an_urgent_deployment_is_marked_after_its_serial_and_nowhere_else() -> None:
    text = table_text(small(), replace(DEPLOYMENT, urgent=True))
    assert text == TEXT.format(digest=small().digest).replace("\nserial 3\n", "\nserial 3 urgent\n")


@settings(deadline=None)
@given(ensemble=ensembles(), deployment=deployments)
def test_the_text_without_its_mark_is_that_of_the_deployment_without_it(
    ensemble: Ensemble, deployment: Deployment
) -> None:
    plain = table_text(ensemble, replace(deployment, urgent=False))
    assert without_urgent_mark(table_text(ensemble, deployment)) == plain


def test_names_that_read_like_the_mark_stay() -> None:
    for urgent in (False, True):
        text = without_urgent_mark(table_text(small(), Deployment("urgent", "urgent", 3, urgent=urgent)))
        assert "\nregistry urgent\nchannel urgent\nserial 3\ndigest sha256:" in text
    assert without_urgent_mark("") == ""


def test_a_log_axis_has_its_parts_an_octave() -> None:
    text = table_text(small(axes=(Axis(AXIS, "log", 1000, 2, 4),)), DEPLOYMENT)
    assert "\naxis throughput_bytes_per_s log 1000 2 4\n" in text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ensemble=ensembles(), deployment=deployments)
def test_the_core_takes_the_text_and_gives_it_back(core: Core, ensemble: Ensemble, deployment: Deployment) -> None:
    text = table_text(ensemble, deployment).encode()
    assert core.read_back("gr", text) == text


def test_the_core_refuses_it_for_another_algorithm_or_changed(core: Core) -> None:
    text = table_text(small(), DEPLOYMENT)
    assert core.read_back("reno", text.encode()) == -EINVAL
    assert core.read_back("gr", text.replace("1 1 40000", "1 1 1999").encode()) == -ERANGE
    assert core.read_back("gr", text.replace("end 4", "end 04").encode()) == -EINVAL


def test_a_table_without_classes_has_neither_epsilon_nor_a_class_in_its_rows(core: Core) -> None:
    text = table_text(small(classes=(), epsilon_pct=None, rows=small().rows[:2]), DEPLOYMENT)
    assert "epsilon_pct" not in text
    assert "classes" not in text
    assert text.splitlines()[-3:] == ["0 60000 3000 12000", "1 60000 3000 25000", "end 2"]
    assert core.read_back("gr", text.encode()) == text.encode()
    hold_back = text.replace("hold_back", "epsilon_pct 25\nhold_back")
    classes = text.replace("axis", "classes 95:50000\naxis")
    for wrong in (hold_back, classes):  # each alone
        assert core.read_back("gr", wrong.encode()) == -EINVAL


def of_size(n_classes: int, value: int) -> Ensemble:
    """A table of 64 levels with that many classes, every value the same length."""
    row = (value, value, value)
    classes = tuple(DelayClass(95, 50000 + k) for k in range(n_classes))
    return small(axes=(Axis(AXIS, "linear", 125000, 64),), classes=classes, rows=(row,) * (64 * n_classes))


def test_the_largest_table_of_gr_fits(core: Core) -> None:
    text = table_text(of_size(8, 1000000), DEPLOYMENT).encode()
    assert len(text) < MAX_TEXT_BYTES
    assert core.read_back("gr", text) == text


def test_a_text_over_256_kib_is_refused_before_the_core_must(monkeypatch: pytest.MonkeyPatch) -> None:
    text = table_text(small(), DEPLOYMENT)
    monkeypatch.setattr("kmod.ensemble.MAX_TEXT_BYTES", len(text))
    assert table_text(small(), DEPLOYMENT) == text
    monkeypatch.setattr("kmod.ensemble.MAX_TEXT_BYTES", len(text) - 1)
    with pytest.raises(EnsembleError, match="a table of at most"):
        table_text(small(), DEPLOYMENT)


def test_python_and_the_core_have_the_same_limit(core: Core) -> None:
    assert core.max_text_bytes == MAX_TEXT_BYTES
