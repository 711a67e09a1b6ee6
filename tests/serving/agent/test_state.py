# SPDX-License-Identifier: MIT
"""What follows from what is known: rows of the decision and of the report that test_applier.py does not reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from serving.agent.kernel import KernelStatus, KernelView, parse_parameters
from serving.agent.state import CcaState, Decision, PollResult, Record, Refusal, State
from serving.agent.store import LAST_KNOWN_GOOD
from serving.agent.table import Table
from serving.agent.trust import Trust
from tests.serving.agent.fakes import PARAMETERS, settings_of, table

BOOT = "boot-1"
ONE, TWO, THREE = table(1), table(2), table(3)
ONE_URGENT = table(1, urgent=True)


def kernel(held: Table | None, *, generation: int = 5, instance: str = "load-1") -> KernelView:
    deployment = held.deployment if held else None
    status = KernelStatus(
        module="0.1.0",
        instance=instance,
        generation=generation,
        registry=deployment.registry if deployment else "-",
        channel=deployment.channel if deployment else "-",
        serial=deployment.serial if deployment else 0,
        urgent=deployment.urgent if deployment else False,
        digest=held.ensemble.digest if held else "-",
    )
    return KernelView(status=status, text=held.text if held else "", parameters=parse_parameters(PARAMETERS))


def record(of: Table, **changed: object) -> Record:
    return replace(Record(BOOT, "load-1", 5, of.text_sha256), **changed)  # type: ignore[arg-type]


def state(held: Table | None, *, generation: int = 5, **known: object) -> CcaState:
    made = CcaState("gr", settings_of(Path("/nonexistent")), BOOT, kernel=kernel(held, generation=generation))
    return replace(made, **known)  # type: ignore[arg-type]


def outcome(of: CcaState) -> tuple[str, Table | None, State | None]:
    decision = of.decide()
    assert decision.why
    return decision.action, decision.table if decision.action == "apply" else None, decision.blocked


NOTHING = ("nothing", None, None)
DEGRADED = ("nothing", None, State.DEGRADED)


@pytest.mark.parametrize("held", [ONE, ONE_URGENT], ids=["plain in force", "urgent in force"])
@pytest.mark.parametrize("known", [ONE, ONE_URGENT], ids=["plain known", "urgent known"])
def test_mark_alone_makes_no_other_table(held: Table, known: Table) -> None:
    assert outcome(state(held, offer=known, good=known, record=record(known))) == NOTHING
    assert outcome(state(held, good=known, record=record(known))) == NOTHING
    assert outcome(state(held, offer=TWO, good=known)) == ("apply", TWO, None)
    assert outcome(state(held, offer=TWO, record=record(known))) == ("apply", TWO, None)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"generation": 5}, DEGRADED),
        ({"generation": 9}, DEGRADED),
        ({"generation": 4}, ("apply", ONE, None)),
        ({"generation": 9, "instance": "load-2"}, ("apply", ONE, None)),
    ],
    ids=["same", "counted on", "counts anew", "another load"],
)
def test_empty_tree_was_cleared_by_hand_unless_the_module_was_loaded_anew(
    now: dict[str, object], expected: tuple[object, ...]
) -> None:
    empty = kernel(None, **now)  # type: ignore[arg-type]
    assert outcome(state(None, good=ONE, record=record(ONE), kernel=empty)) == expected
    # After another boot, or a kill between the agent's own clear and write, nobody cleared it.
    for changed in ({"boot_id": "boot-0"}, {"taking_over": True}):
        assert outcome(state(None, good=ONE, record=record(ONE, **changed), kernel=empty)) == ("apply", ONE, None)


def test_text_of_the_last_write_is_the_agents_where_the_last_known_good_was_damaged() -> None:
    assert outcome(state(ONE, record=record(ONE), offer=TWO)) == ("apply", TWO, None)
    assert outcome(state(THREE, record=record(ONE), offer=TWO)) == DEGRADED


REFUSAL = Refusal(TWO.text_sha256, kernel(ONE).text_sha256, "0.1.0", "ERANGE (...)")


@pytest.mark.parametrize(
    ("changed", "action"),
    [
        ({}, "nothing"),
        ({"offer": THREE}, "apply"),
        ({"refusal": replace(REFUSAL, kernel_text_sha256=kernel(None).text_sha256)}, "apply"),
        ({"refusal": replace(REFUSAL, module="0.0.9")}, "apply"),
        ({"refusal": replace(REFUSAL, retry=True)}, "apply"),
        ({"resume": True}, "apply"),
    ],
    ids=["same", "another offer", "another table in force", "another module", "passing cause", "operator's word"],
)
def test_refused_table_is_tried_again_only_when_something_changed(changed: dict[str, object], action: str) -> None:
    known = {"good": ONE, "record": record(ONE), "offer": TWO, "refusal": REFUSAL}
    found = state(ONE, **{**known, **changed}).decide()
    assert (found.action, found.blocked) == (action, State.REJECTED if action == "nothing" else None)


# -- reports ---------------------------------------------------------------------

EXPIRED = "the signature expired"


class FakeTrust:
    """A FAKE of a pinned root document. The real one needs signatures of a chosen age."""

    def __init__(self, stale: str | None) -> None:
        self._stale = stale

    def why_stale(self, _table: object) -> str | None:
        return self._stale


VALID, PAST = cast("Trust", FakeTrust(None)), cast("Trust", FakeTrust(EXPIRED))


def reported(trust: Trust | None, answer: State, error: str | None = None, **known: object) -> tuple[State, str | None]:
    report = state(None, offer=ONE, trust=trust, answer=PollResult(answer, error=error), **known).report()
    return report.state, report.error


@pytest.mark.parametrize(
    ("trust", "answer", "error", "expected"),
    [
        (None, State.STARTING, None, (State.STARTING, None)),
        (None, State.IN_SYNC, None, (State.UNSIGNED, None)),
        (None, State.OFFLINE, "gone", (State.OFFLINE, "gone")),
        (VALID, State.IN_SYNC, None, (State.IN_SYNC, None)),
        (VALID, State.OFFLINE, "gone", (State.OFFLINE, "gone")),
        (VALID, State.STALE, "expired offer", (State.STALE, "expired offer")),
        (PAST, State.STARTING, None, (State.STARTING, None)),
        (PAST, State.IN_SYNC, None, (State.STALE, EXPIRED)),
        (PAST, State.OFFLINE, "gone", (State.STALE, f"{EXPIRED}; gone")),
        (PAST, State.REJECTED, "bad digest", (State.REJECTED, "bad digest")),
        (PAST, State.STALE, "expired offer", (State.STALE, "expired offer")),
    ],
)
def test_signatures_turn_in_sync_into_unsigned_or_stale(
    trust: Trust | None, answer: State, error: str | None, expected: tuple[State, str | None]
) -> None:
    assert reported(trust, answer, error) == expected


@pytest.mark.parametrize("trust", [None, VALID, PAST], ids=["no root", "valid", "expired"])
def test_a_blocked_decision_takes_precedence(trust: Trust | None) -> None:
    blocked = Decision("nothing", "why", blocked=State.DEGRADED)
    assert reported(trust, State.IN_SYNC, blocked=blocked) == (State.DEGRADED, "why")


def test_a_damaged_last_known_good_is_named_unless_the_answer_has_an_error() -> None:
    damaged = {LAST_KNOWN_GOOD: "half a file"}
    assert reported(None, State.STARTING, damaged=damaged) == (State.STARTING, "half a file")
    assert reported(None, State.OFFLINE, "gone", damaged=damaged) == (State.OFFLINE, "gone")
