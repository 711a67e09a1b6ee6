# SPDX-License-Identifier: MIT
"""Pages of channels: what they show, and that their forms overwrite nothing unseen"""

from __future__ import annotations

import json

import pytest

from serving.channels.repository import channel_for_move
from serving.dashboard.state_map import Document, parameter_map
from serving.database import RetrainingRow
from tests.serving.api import Api, make_ensemble
from tests.serving.dashboard.reading import Page
from tests.serving.qos.deltas import delta
from tests.serving.retraining.loop import POLICY
from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service

on_sqlite = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
PLACE = "/ui/channels/gr/champion"
HTML = "<script>alert(1)</script>"


def report(api: Api, agent: str, *, serial: int, sequence: int = 1) -> None:
    """Report of an agent that has this table."""
    sums = delta(sequence, [(False, 0, 1, 9), (False, 1, 2, 3)], serial=serial)
    body = {"cca": "gr", "channel": "champion", "state": "InSync", "offered_serial": serial,
            "effective_serial": serial, "sums": sums}  # fmt: skip
    assert api.request("POST", f"/v1/agents/{agent}/reports", json=body).status_code == 204


def serial_of(api: Api) -> int:
    """What the channel offers."""
    return int(api.get(CHAMPION).json()["serial"])


def test_the_page_of_a_channel_shows_who_moved_it_and_how_the_move_arrived(api: Api) -> None:
    api.move(0, note=HTML)
    for number in range(4):
        report(api, f"web-{number}", serial=1)
    api.clock.advance(seconds=3600)
    mover = api.limited("publish", "move", "read", principal="alice")
    mover.move(1, note="better")
    for number in range(3):
        api.clock.advance(seconds=10)
        report(api, f"web-{number}", serial=2, sequence=2)
        # A later report with the same table does not count as another arrival.
        report(api, f"web-{number}", serial=2, sequence=3)
    page = Page(api, PLACE)
    assert page.answer.status_code == 200
    assert HTML not in page.answer.text
    assert HTML in page.text
    assert "alice" in page.text
    assert "3 of 4 agents report serial 2. Half of them all reported it within 20 seconds of the move." in page.text
    for value in ('data-v="10.0"', 'data-v="25.0"', 'data-v="30.0"', 'data-v="75.0"'):
        assert value in page.answer.text
    # 90 % of the samples of `delta` are within the target, of 16 Mbit/s; a column for each serial.
    assert "serial 1 serial 2" in page.text
    assert "2026-03-01 13:00 – 90 % " in page.text
    assert "Mean throughput of a flow" in page.text
    assert "16 Mbit/s" in page.text
    assert Page(api, "/ui/channels").answer.status_code == 200
    assert Page(api, "/ui/ensembles").text.count("gr/champion serial 2") == 1


@on_sqlite
def test_a_move_is_refused_after_another_one_and_made_once_if_sent_twice(api: Api) -> None:
    api.move(0)
    wanted = api.publish(1)
    seen_before = Page(api, PLACE)
    assert seen_before.send("/move", digest=wanted, note="first").status_code == 303
    assert seen_before.send("/move", digest=wanted, note="first").headers["location"].endswith("channels/gr/champion")
    assert serial_of(api) == 2
    other = Page(api, PLACE)
    other.form("/move").fields["if_match"] = seen_before.form("/move").fields["if_match"]
    refused = other.send("/move", digest=api.publish(2))
    assert refused.status_code == 412
    assert "it stands at serial 2; look at it again before you change it" in refused.text
    assert Page(api, PLACE).send("/move", hold_back_permille="half").status_code == 422
    assert Page(api, PLACE).send("/move", if_match=None).status_code == 422
    assert serial_of(api) == 2


@on_sqlite
def test_a_roll_back_says_what_it_would_do_and_is_made_once(api: Api) -> None:
    api.move(0, hold_back_permille=20)
    api.move(1)
    report(api, "web-1", serial=2)
    asked = Page(api, f"{PLACE}/rollback")
    assert "20 ‰ held back" in asked.text
    assert "1 agent that follows the channel" in asked.text
    assert serial_of(api) == 2
    for _ in range(2):
        assert asked.send("/rollback", note="was bad").status_code == 303
    row = api.get(CHAMPION).json()
    assert (row["serial"], row["restores_serial"], row["urgent"], row["note"]) == (3, 1, True, "was bad")


@on_sqlite
def test_a_viewer_sees_no_forms_and_may_send_none(api: Api) -> None:
    api.move(0)
    digest = api.move(1)["digest"]
    viewer = api.limited("read")
    for path, end in ((PLACE, "/move"), (f"{PLACE}/rollback", "/rollback"), (f"{PLACE}/rollouts/start", "/start"),
                      (f"/ui/ensembles/{digest}", "/move")):  # fmt: skip
        seen = Page(viewer, path)
        assert [form for form in seen.forms if form.action.endswith(end)] == []
        assert Page(api, path).send(end, by=viewer, new_channel="mine").status_code == 403
    assert viewer.request("POST", f"{PLACE}/move", data={"digest": digest}).status_code == 403
    assert serial_of(api) == 2


@on_sqlite
def test_the_page_of_an_ensemble_maps_it_and_marks_what_differs(api: Api) -> None:
    document = make_ensemble(1).to_json()
    digests = [api.publish(0), api.publish(1)]
    page = Page(api, f"/ui/ensembles/{digests[1]}?against={digests[0]}&parameter=delay_threshold_us")
    assert "All parameters are equal. The provenance differs." in page.text
    assert "from 3 Mbit/s" in page.text
    grid = parameter_map(Document(json.dumps(document)), "delay_threshold_us", delay_class=0)
    assert [[cell.text for cell in row] for _, row in grid.rows[:2]] == [["12", "12.001"], ["12.002", "12.003"]]
    changed = json.loads(json.dumps(document))
    changed["rows"][0][2] = 20_000
    grid = parameter_map(Document(json.dumps(changed)), "delay_threshold_us", delay_class=0,
                         other=Document(json.dumps(document)))  # fmt: skip
    assert (grid.rows[0][1][0].text, grid.rows[0][1][0].kind) == ("12 → 20", "h7 changed")
    assert Page(api, f"/ui/ensembles/{digests[0]}?against=none").answer.status_code == 404
    made = page.send("/move", new_channel="canary", note="try")
    assert made.headers["location"].endswith("channels/gr/canary")
    again = Page(api, f"/ui/ensembles/{digests[0]}").send("/move", new_channel="canary")
    assert again.status_code == 412, "a new channel overwrites none that exists"


@on_sqlite
def test_provenance_is_said_in_sentences_and_trusted_in_nothing(api: Api) -> None:
    told = {
        "study": {"cca": "gr", "seed": 7, "search": {"kind": "dds"}, "workload": {"kind": HTML}}, "runs": 1234,
        "traces": [{"name": "a", "dataset": "cellular"}, {"name": "b", "dataset": HTML}, "spoilt"],
        "states": [{"state": [0], "class": 0, "training": {"meets": True, "share_within": 0.96}, "unseen": None}],
    }  # fmt: skip
    for provenance in (told, {"study": [], "traces": {}, "states": 3, "runs": "x", "confusion": [], "verified": 1}):
        document = {**make_ensemble(0).to_json(), "provenance": provenance}
        document.pop("digest")
        digest = type(make_ensemble(0))(**_parts(provenance)).digest
        assert api.request("POST", "/v1/ensembles", json={**document, "digest": digest}).is_success
        page = Page(api, f"/ui/ensembles/{digest}")
        assert page.answer.status_code == 200
        assert HTML not in page.answer.text
        if provenance is told:
            assert "a study of gr with seed 7" in page.text
            assert f"trained on 2 recordings: cellular (1), {HTML} (1)." in page.text
            assert "1 of 1 row meet the requirement" in page.text
        else:
            assert "does not say how it was trained" in page.text


def _parts(provenance: object) -> dict[str, object]:
    known = make_ensemble(0)
    return {**{name: getattr(known, name) for name in known.__dataclass_fields__}, "provenance": provenance}


@on_sqlite
def test_a_retraining_is_decided_on_the_page_of_its_channel(api: Api) -> None:
    api.move(0)
    assert api.request("PUT", f"{CHAMPION}/retraining", json=POLICY).is_success
    with api.database.write() as session:
        channel = channel_for_move(session, cca="gr", name="champion")
        session.add(
            RetrainingRow(
                channel=channel, state="proposed", reasons=json.dumps([HTML]), objections="[]",
                baseline=make_ensemble(0).digest, note="", started_by="retraining", started_at=api.clock(),
                changed_at=api.clock(),
            )
        )  # fmt: skip
    page = Page(api, PLACE)
    assert HTML in page.text
    assert HTML not in page.answer.text
    assert 'id="retraining"' in page.answer.text
    assert page.send("/training", note="go").headers["location"].endswith("#retraining")
    assert api.get(f"{CHAMPION}/retrainings/1").json()["state"] == "training"
    stale = page.send("/training")
    assert (stale.status_code, "expected it to be proposed, it is training" in stale.text) == (409, True)
    assert Page(api, PLACE).send("/dismiss", note="not now").status_code == 303
    assert api.get(f"{CHAMPION}/retrainings/1").json()["state"] == "dismissed"
