# SPDX-License-Identifier: MIT
"""What a registry answers becomes a table only if every check holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.agent import OfferRefusedError, Table, parse_offer
from tests.serving.agent.fakes import answer, ensemble, table

GOOD = answer(table(7))


def test_offer_becomes_the_table_that_was_published() -> None:
    assert parse_offer(GOOD, cca="gr", channel="champion") == table(7)


def test_hold_back_share_reaches_the_text() -> None:
    offered = parse_offer(answer(table(7), hold_back_permille=50), cca="gr", channel="champion")
    assert "\nhold_back_permille 50\n" in offered.text


def test_offer_that_is_urgent_reaches_the_text_as_the_mark() -> None:
    offered = parse_offer(answer(table(7), urgent=True), cca="gr", channel="champion")
    assert offered == table(7, urgent=True)
    assert "\nserial 7 urgent\n" in offered.text


def test_offer_of_a_registry_that_knows_no_mark_is_not_urgent() -> None:
    body = json.loads(answer(table(7, urgent=True)))
    del body["urgent"]
    assert parse_offer(json.dumps(body).encode(), cca="gr", channel="champion") == table(7)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null", b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_answer_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(OfferRefusedError, match="answer is refused"):
        parse_offer(body, cca="gr", channel="champion")


@pytest.mark.parametrize(
    "changes",
    [
        {"cca": "reno"},
        {"channel": "canary"},
        {"serial": 0},
        {"serial": "7"},
        {"serial": True},
        {"serial": 2**63},
        {"registry": "a b"},
        {"registry": None},
        {"hold_back_permille": 1001},
        {"hold_back_permille": None},
        {"urgent": None},
        {"urgent": 1},
        {"urgent": "true"},
        {"digest": "sha256:" + "0" * 64},
        {"digest": None},
        {"ensemble": None},
        {"ensemble": []},
        {"ensemble": {**ensemble().to_json(), "epoch_ms": 20_000}},
        {"ensemble": {**ensemble().to_json(), "columns": [["nested"]]}},
    ],
    ids=str,
)
def test_offer_with_one_wrong_field_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OfferRefusedError, match="is refused"):
        parse_offer(answer(table(7), **changes), cca="gr", channel="champion")


def test_offer_of_another_cca_is_refused_by_its_name() -> None:
    with pytest.raises(OfferRefusedError, match="expected cca reno, got 'gr'"):
        parse_offer(GOOD, cca="reno", channel="champion")


def test_digest_that_the_content_does_not_have_is_named() -> None:
    document = ensemble(window_us=60_007).to_json()
    document["rows"][0][0] += 1
    with pytest.raises(OfferRefusedError, match="the content was changed or damaged"):
        parse_offer(answer(table(7), ensemble=document), cca="gr", channel="champion")


def test_deeply_nested_provenance_is_refused_not_a_crash() -> None:
    nested: dict[str, Any] = {}
    for _ in range(500):
        nested = {"n": nested}
    document = {**ensemble().to_json(), "provenance": nested}
    with pytest.raises(OfferRefusedError, match="is refused"):
        parse_offer(answer(table(7), ensemble=document), cca="gr", channel="champion")


def test_check_of_a_signature_has_the_last_word() -> None:
    def unsigned(body: dict[str, Any], offered: Table) -> Table:
        assert body["digest"] == offered.ensemble.digest
        raise OfferRefusedError("no signature")

    with pytest.raises(OfferRefusedError, match="no signature"):
        parse_offer(GOOD, cca="gr", channel="champion", check=unsigned)


@given(position=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255))
def test_damaged_byte_never_changes_the_content(position: int, value: int) -> None:
    damaged = GOOD[:position] + bytes([value]) + GOOD[position + 1 :]
    try:
        offered = parse_offer(damaged, cca="gr", channel="champion")
    except OfferRefusedError:
        return
    # Registry, serial, hold-back share and the mark are outside of the digest: they belong to the deployment.
    assert offered.ensemble == table(7).ensemble
    assert json.loads(damaged)["digest"] == table(7).ensemble.digest
