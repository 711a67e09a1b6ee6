# SPDX-License-Identifier: MIT
"""Reading what the running kernel says, and refusing what it would not take."""

from __future__ import annotations

import pytest

from serving.agent.kernel import (
    ParameterRange,
    look,
    parse_parameters,
    parse_status,
    why_not_taken,
)
from tests.serving.agent.fakes import PARAMETERS, FakeTree, ensemble, table

STATUS = (
    "module 0.1.0\ninstance 5a\ngeneration 4\nregistry local\nchannel champion\nserial 3\nurgent 1\n"
    "digest sha256:00\nlater words too\n"
)


def test_status_gives_module_generation_and_table() -> None:
    status = parse_status(STATUS)
    assert (status.module, status.generation, status.registry, status.channel) == ("0.1.0", 4, "local", "champion")
    assert (status.instance, status.serial, status.urgent, status.digest) == ("5a", 3, True, "sha256:00")
    assert not parse_status(STATUS.replace("urgent 1", "urgent 0")).urgent


@pytest.mark.parametrize("missing", ["module", "instance", "generation", "serial", "urgent", "digest"])
def test_status_without_a_line_is_refused_by_its_name(missing: str) -> None:
    text = "".join(line for line in STATUS.splitlines(keepends=True) if not line.startswith(missing))
    with pytest.raises(ValueError, match=f"`{missing} VALUE`"):
        parse_status(text)


def test_parameters_give_the_ranges_of_the_running_module() -> None:
    ranges = parse_parameters("# a comment\n\nwindow_us 5 2 7 9 us\n")
    assert ranges == {"window_us": ParameterRange(2, 9)}


@pytest.mark.parametrize("text", ["window_us 5 2 7\n", "window_us 5 low 7 high us\n"])
def test_malformed_parameters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected `name|invalid literal"):
        parse_parameters(text)


def test_status_of_another_version_is_a_problem_not_a_crash() -> None:
    tree = FakeTree()
    tree.parameters = "garbage\n"
    problem = look(tree, "gr").problem
    assert problem is not None
    assert "of another version" in problem


def test_table_and_status_are_read_from_the_same_moment() -> None:
    tree = FakeTree()
    first, second = table(1), table(2)
    tree.write("gr", "ensemble", first.text)
    reads = iter(["status", "ensemble", "parameters"])

    def move_once(access: str) -> None:
        if access == "read parameters" and next(reads, None):
            tree.on_access = lambda _: None
            tree.write("gr", "ensemble", second.text)

    tree.on_access = move_once
    view = look(tree, "gr")
    assert view.status is not None
    assert (view.text, view.status.serial) == (second.text, 2)


def test_column_that_the_module_lacks_is_named() -> None:
    tree = FakeTree()
    tree.parameters = "".join(
        line for line in PARAMETERS.splitlines(keepends=True) if not line.startswith("delay_threshold_us")
    )
    why = why_not_taken(look(tree, "gr"), ensemble())
    assert why is not None
    assert "no parameter delay_threshold_us" in why


@pytest.mark.parametrize(("minimum", "maximum", "taken"), [(3000, 3000, True), (3001, 9000, False), (500, 2999, False)])
def test_range_of_the_module_is_inclusive_at_both_ends(minimum: int, maximum: int, taken: bool) -> None:
    tree = FakeTree()
    tree.parameters = PARAMETERS.replace(
        "adaptation_interval_us 10000 500 10000 1000000", f"adaptation_interval_us 5000 {minimum} 5000 {maximum}"
    )
    why = why_not_taken(look(tree, "gr"), ensemble())
    assert (why is None) is taken
    assert taken or f"from {minimum} to {maximum}, row 0 has 3000" in str(why)
