# SPDX-License-Identifier: MIT
"""The decision table, row by row: what is known, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.agent import KernelView, Situation, State, Table, decide
from serving.agent.decide import Record, Refusal
from serving.agent.kernel import KernelStatus, parse_parameters
from tests.serving.agent.fakes import PARAMETERS, table

BOOT = "boot-1"
ONE, TWO, THREE = table(1), table(2), table(3)


def kernel(held: Table | None, *, generation: int = 0, instance: str = "") -> KernelView:
    status = KernelStatus(
        module="0.1.0",
        generation=generation,
        registry=held.deployment.registry if held else "-",
        channel=held.deployment.channel if held else "-",
        serial=held.deployment.serial if held else 0,
        digest=held.ensemble.digest if held else "-",
        instance=instance,
        urgent=held.deployment.urgent if held else False,
    )
    return KernelView(status=status, text=held.text if held else "", parameters=parse_parameters(PARAMETERS))


def record(of: Table, *, generation: int = 5, boot_id: str = BOOT, taking_over: bool = False) -> Record:
    return Record(boot_id=boot_id, generation=generation, text_sha256=of.text_sha256, taking_over=taking_over)


def situation(held: Table | None, *, generation: int = 5, **known: object) -> Situation:
    return replace(
        Situation(channel="champion", kernel=kernel(held, generation=generation), boot_id=BOOT),
        **known,  # type: ignore[arg-type]
    )


def outcome(of: Situation) -> tuple[str, Table | None, State | None]:
    decision = decide(of)
    assert decision.why
    return decision.action, decision.table if decision.action == "apply" else None, decision.blocked


NOTHING = ("nothing", None, None)


def test_first_offer_is_applied_to_an_empty_tree() -> None:
    assert outcome(situation(None, offer=ONE)) == ("apply", ONE, None)


def test_first_offer_replaces_whatever_was_there_before_the_agent() -> None:
    assert outcome(situation(table(9, channel="by-hand"), offer=ONE)) == ("apply", ONE, None)


def test_table_in_force_that_equals_the_offer_is_left() -> None:
    assert outcome(situation(ONE, offer=ONE, good=ONE, record=record(ONE))) == NOTHING


@pytest.mark.parametrize("held", [ONE, table(1, urgent=True)], ids=["plain in force", "urgent in force"])
@pytest.mark.parametrize("known", [ONE, table(1, urgent=True)], ids=["plain known", "urgent known"])
def test_mark_alone_makes_no_other_table(held: Table, known: Table) -> None:
    assert outcome(situation(held, offer=known, good=known, record=record(known))) == NOTHING
    assert outcome(situation(held, good=known, record=record(known))) == NOTHING
    assert outcome(situation(held, offer=TWO, good=known)) == ("apply", TWO, None)


def test_mark_that_an_operator_adds_by_hand_does_not_pause_the_agent() -> None:
    by_hand = situation(table(1, urgent=True), generation=6, record=record(ONE), offer=TWO)
    assert outcome(by_hand) == ("apply", TWO, None)


def test_newer_offer_replaces_our_own_table() -> None:
    assert outcome(situation(ONE, offer=TWO, good=ONE, record=record(ONE))) == ("apply", TWO, None)


def test_last_known_good_is_applied_after_a_reboot() -> None:
    after = situation(None, generation=0, good=ONE, record=record(ONE, boot_id="boot-0"))
    assert outcome(after) == ("apply", ONE, None)


def test_last_known_good_is_applied_after_the_module_was_loaded_anew() -> None:
    assert outcome(situation(None, generation=0, good=ONE, record=record(ONE))) == ("apply", ONE, None)


def test_module_loaded_anew_shows_by_its_instance_however_far_it_has_counted() -> None:
    written = replace(record(ONE, generation=1), instance="load-1")
    for instance, expected in [("load-2", ("apply", ONE, None)), ("load-1", ("nothing", None, State.DEGRADED))]:
        after = situation(None, good=ONE, record=written, kernel=kernel(None, generation=2, instance=instance))
        assert outcome(after) == expected


@pytest.mark.parametrize(("of_record", "of_kernel"), [("", "load-2"), ("load-1", ""), ("", "")])
def test_where_one_side_knows_no_instance_the_generation_tells(of_record: str, of_kernel: str) -> None:
    written = replace(record(ONE, generation=5), instance=of_record)
    cleared = situation(None, good=ONE, record=written, kernel=kernel(None, generation=6, instance=of_kernel))
    assert outcome(cleared) == ("nothing", None, State.DEGRADED)


def test_record_of_an_agent_that_knew_no_instance_is_read() -> None:
    old = {"boot_id": BOOT, "generation": 5, "text_sha256": ONE.text_sha256, "taking_over": False}
    assert Record.from_json(old) == record(ONE)
    new = replace(record(ONE), instance="load-1")
    assert Record.from_json(new.to_json()) == new


@pytest.mark.parametrize("generation", [5, 6, 7])
def test_empty_tree_that_counted_on_was_cleared_by_hand(generation: int) -> None:
    cleared = situation(None, generation=generation, good=ONE, record=record(ONE))
    assert outcome(cleared) == ("nothing", None, State.DEGRADED)
    assert "cleared the table" in decide(cleared).why


def test_clear_by_hand_does_not_outlive_a_reboot() -> None:
    assert outcome(situation(None, generation=9, good=ONE, record=record(ONE, boot_id="boot-0"))) == (
        "apply",
        ONE,
        None,
    )


def test_kill_between_our_own_clear_and_write_is_not_a_clear_by_hand() -> None:
    killed = situation(None, generation=6, good=ONE, record=record(ONE, taking_over=True))
    assert outcome(killed) == ("apply", ONE, None)


@pytest.mark.parametrize("offer", [None, TWO], ids=["no offer", "offer"])
def test_table_of_somebody_else_pauses_the_agent(offer: Table | None) -> None:
    changed = situation(table(8, channel="by-hand"), good=ONE, record=record(ONE), offer=offer)
    assert outcome(changed) == ("nothing", None, State.DEGRADED)
    assert "local/by-hand serial 8 is in force" in decide(changed).why


def test_pause_ends_when_the_table_equals_ours_again() -> None:
    assert outcome(situation(ONE, generation=9, good=ONE, record=record(ONE))) == NOTHING
    assert outcome(situation(ONE, generation=9, good=ONE, record=record(ONE), offer=TWO)) == ("apply", TWO, None)


def test_pause_ends_when_the_operator_writes_what_the_registry_offers() -> None:
    assert outcome(situation(TWO, generation=9, good=ONE, record=record(ONE), offer=TWO)) == NOTHING


def test_pause_ends_on_the_operators_word_and_may_clear() -> None:
    resumed = situation(table(8, channel="by-hand"), good=ONE, record=record(ONE), offer=TWO, resume=True)
    assert outcome(resumed) == ("apply", TWO, None)
    assert decide(resumed).may_clear
    assert not decide(situation(ONE, offer=TWO, good=ONE, record=record(ONE))).may_clear


def test_text_of_the_last_write_is_built_in_where_the_last_known_good_was_damaged() -> None:
    assert outcome(situation(ONE, record=record(ONE), offer=TWO)) == ("apply", TWO, None)
    assert outcome(situation(THREE, record=record(ONE), offer=TWO)) == ("nothing", None, State.DEGRADED)


def test_last_known_good_of_another_channel_is_kept_but_not_applied_anew() -> None:
    canary = table(4, channel="canary")
    assert outcome(situation(None, generation=0, good=canary)) == NOTHING
    assert "of local/canary, not of local/champion" in decide(situation(None, generation=0, good=canary)).why
    assert outcome(situation(canary, good=canary, record=record(canary))) == NOTHING
    assert outcome(situation(canary, good=canary, record=record(canary), offer=ONE)) == ("apply", ONE, None)


def test_nothing_known_is_nothing_to_do() -> None:
    assert outcome(situation(None)) == NOTHING


def test_tree_that_cannot_be_read_is_incompatible() -> None:
    gone = KernelView(status=None, text="", parameters={}, problem="reading gr: ENOENT")
    assert outcome(Situation("champion", gone, BOOT, good=ONE, offer=TWO)) == ("nothing", None, State.INCOMPATIBLE)


def test_value_that_the_running_module_does_not_take_is_never_written() -> None:
    narrow = replace(kernel(None), parameters=parse_parameters(PARAMETERS.replace(" 2000 ", " 90000 ")))
    decision = decide(Situation("champion", narrow, BOOT, offer=ONE))
    assert (decision.action, decision.blocked) == ("nothing", State.INCOMPATIBLE)
    assert "takes bandwidth_window_us from 90000 to" in decision.why


def refusal(of: Table, *, held: Table | None, module: str = "0.1.0", retry: bool = False) -> Refusal:
    return Refusal(of.text_sha256, kernel(held).text_sha256, module, "ERANGE (...)", retry)


def test_refused_table_is_not_tried_again() -> None:
    assert outcome(situation(ONE, good=ONE, record=record(ONE), offer=TWO, refusal=refusal(TWO, held=ONE))) == (
        "nothing",
        None,
        State.REJECTED,
    )


@pytest.mark.parametrize(
    "known",
    [
        {"offer": THREE, "refusal": refusal(TWO, held=ONE)},
        {"offer": TWO, "refusal": refusal(TWO, held=None)},
        {"offer": TWO, "refusal": refusal(TWO, held=ONE, module="0.0.9")},
        {"offer": TWO, "refusal": refusal(TWO, held=ONE, retry=True)},
        {"offer": TWO, "refusal": refusal(TWO, held=ONE), "resume": True},
    ],
    ids=["another offer", "another table in force", "another module", "passing cause", "operator's word"],
)
def test_refused_table_is_tried_again_when_something_changed(known: dict[str, object]) -> None:
    action, applied, blocked = outcome(situation(ONE, good=ONE, record=record(ONE), **known))
    assert (action, applied, blocked) == ("apply", known["offer"], None)


def test_record_survives_its_json() -> None:
    assert Record.from_json(record(ONE, taking_over=True).to_json()) == record(ONE, taking_over=True)
