# SPDX-License-Identifier: MIT
"""Pages of channels and ensembles: what they show, and that their forms overwrite nothing unseen"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kmod.ensemble import Ensemble
from serving.channels.repository import channel_for_move
from serving.dashboard.state_map import Document, parameter_map
from serving.database import RetrainingRow
from tests.serving.api import Api, make_ensemble
from tests.serving.dashboard.forms import hidden, opened, send, words
from tests.serving.qos.deltas import delta
from tests.serving.retraining.loop import POLICY
from tests.serving.running import CHAMPION
from tests.serving.signing import Keys, add_root, add_signature, signing_api

pytestmark = pytest.mark.service

on_sqlite = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
PLACE = "/ui/channels/gr/champion"
HTML = "<script>alert(1)</script>"


@pytest.fixture
def site(api: Api) -> Api:
    """An open registry."""
    return opened(api)


def report(api: Api, agent: str, *, serial: int, sequence: int = 1) -> None:
    """Report of an agent that has this table."""
    sums = delta(sequence, [(False, 0, 1, 9), (False, 1, 2, 3)], serial=serial)
    body = {"cca": "gr", "channel": "champion", "state": "InSync", "offered_serial": serial,
            "effective_serial": serial, "sums": sums}  # fmt: skip
    assert api.request("POST", f"/v1/agents/{agent}/reports", json=body).status_code == 204


def serial_of(api: Api) -> int:
    """What the channel offers."""
    return int(api.get(CHAMPION).json()["serial"])


def test_the_page_of_a_channel_shows_who_moved_it_and_how_the_move_arrived(api: Api, site: Api) -> None:
    api.move(0, note=HTML)
    for number in range(4):
        report(api, f"web-{number}", serial=1)
    api.clock.advance(seconds=3600)
    api.limited("publish", "move", "read", principal="alice").move(1, note="better")
    for number in range(3):
        api.clock.advance(seconds=10)
        report(api, f"web-{number}", serial=2, sequence=2)
        # A later report with the same table does not count as another arrival.
        report(api, f"web-{number}", serial=2, sequence=3)
    page = site.get(PLACE)
    text = words(page)
    assert HTML not in page.text
    assert HTML in text
    assert "alice" in text
    assert "3 of 4 agents report serial 2. Half of all reported it within 20 seconds of the move." in text
    for value in ('data-v="10.0"', 'data-v="25.0"', 'data-v="30.0"', 'data-v="75.0"'):
        assert value in page.text
    # 90 % of the samples of `delta` are within the target, of 16 Mbit/s; a column for each serial.
    assert "serial 1 serial 2" in text
    assert "2026-03-01 13:00 – 90 % " in text
    assert "16 Mbit/s" in text
    assert "gr/champion" in words(site.get("/ui/channels"))
    assert words(site.get("/ui/ensembles")).count("gr/champion serial 2") == 1
    live = site.get(f"/ui/ensembles/{make_ensemble(1).digest}")
    assert "What flows of gr/champion meet in these states" in words(live)
    assert "4 agents that follow the channel" in words(site.get(f"{PLACE}/rollback"))


@on_sqlite
def test_a_move_is_refused_after_another_one_and_made_once_if_sent_twice(site: Api) -> None:
    site.move(0)
    wanted = {"digest": site.publish(1), "note": "first"}
    seen_before = hidden(site.get(PLACE))
    for _ in range(2):
        answer = site.request("POST", f"{PLACE}/move", data={**seen_before, **wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, "../../../channels/gr/champion")
    assert serial_of(site) == 2
    stale = {"if_match": seen_before["if_match"], "digest": site.publish(2)}
    refused = send(site, PLACE, f"{PLACE}/move", **stale)
    assert refused.status_code == 412
    assert "it stands at serial 2; look at it again before you change it" in refused.text
    for spoilt in ({"hold_back_permille": "half"}, {"if_match": ""}, {"key": "two words"}, {"digest": HTML}):
        answer = send(site, PLACE, f"{PLACE}/move", **{**wanted, **spoilt})
        assert answer.status_code == 422
        assert HTML not in answer.text
    assert serial_of(site) == 2


@on_sqlite
def test_a_roll_back_says_what_it_would_do_and_is_made_once(site: Api) -> None:
    site.move(0, hold_back_permille=20)
    site.move(1)
    report(site, "web-1", serial=2)
    asked = site.get(f"{PLACE}/rollback")
    assert "20 ‰ held back" in words(asked)
    assert "1 agent that follows the channel" in words(asked)
    assert serial_of(site) == 2
    for _ in range(2):
        fields = {**hidden(asked), "urgent": "1", "note": "was bad"}
        assert site.request("POST", f"{PLACE}/rollback", data=fields).status_code == 303
    row = site.get(CHAMPION).json()
    assert (row["serial"], row["restores_serial"], row["urgent"], row["note"]) == (3, 1, True, "was bad")


@on_sqlite
def test_a_viewer_sees_no_forms_and_may_send_none(api: Api) -> None:
    api.move(0)
    digest = api.move(1)["digest"]
    viewer, operator = api.person("viewer"), api.person("operator")

    def post(caller: Api, path: str, **fields: str) -> int:
        sent = {"csrf_token": caller.csrf, "key": "k", "if_match": '"2"', **fields}
        return caller.request("POST", path, data=sent).status_code

    ensemble = f"/ui/ensembles/{digest}"
    for path, action in ((PLACE, f"{PLACE}/move"), (ensemble, f"{ensemble}/move")):
        assert "/move" in operator.get(path).text
        assert viewer.get(path).status_code == 200
        assert "/move" not in viewer.get(path).text
        assert post(viewer, action, digest=digest, new_channel="mine") == 403
    assert viewer.get(f"{PLACE}/rollback").status_code == 403
    assert viewer.get(f"{PLACE}/rollouts/start").status_code == 403
    for action in ("rollback", "rollouts/start", "rollouts/1/abort", "retrainings", "retrainings/1/dismiss"):
        assert post(viewer, f"{PLACE}/{action}") == 403
    assert post(operator, f"{PLACE}/rollback") == 303
    assert serial_of(api) == 3


@on_sqlite
def test_the_page_of_an_ensemble_maps_it_and_makes_a_channel(site: Api) -> None:
    digests = [site.publish(0), site.publish(1)]
    place = f"/ui/ensembles/{digests[1]}"
    text = words(site.get(f"{place}?against={digests[0]}&parameter=delay_threshold_us"))
    assert "All parameters are equal. The provenance differs." in text
    assert "from 3 Mbit/s 12.006 12.007" in text
    assert site.get(f"{place}?against=none").status_code == 404
    made = send(site, place, f"{place}/move", new_channel="canary", note="try")
    assert made.headers["location"].endswith("channels/gr/canary")
    assert send(site, place, f"{place}/move", new_channel="canary").status_code == 412, "it exists"
    assert send(site, place, f"{place}/move", channel="canary 7").status_code == 412, "it stands at another serial"
    assert send(site, place, f"{place}/move", channel="canary 1").status_code == 303


def test_a_map_marks_what_differs_from_another_ensemble() -> None:
    old = make_ensemble(0).to_json()
    new = json.loads(json.dumps(old))
    new["rows"][0][2] = 20_000
    documents = [Document(json.dumps(one)) for one in (new, old)]
    grid = parameter_map(documents[0], "delay_threshold_us", delay_class=0, other=documents[1])
    first, second = grid.rows[0][1]
    assert (first.text, first.kind, second.text, second.kind) == ("12 → 20", "h7 changed", "12.001", "h0")


@on_sqlite
def test_provenance_is_said_in_sentences_and_trusted_in_nothing(site: Api) -> None:
    told = {
        "study": {"cca": "gr", "seed": 7, "search": {"kind": "dds"}, "workload": {"kind": HTML}}, "runs": 1234,
        "traces": [{"name": "a", "dataset": "cellular"}, {"name": "b", "dataset": HTML}, "spoilt"],
        "states": [{"state": [0], "class": 0, "training": {"meets": True, "share_within": 0.96}, "unseen": None}],
    }  # fmt: skip
    spoilt = {"study": [], "traces": {}, "states": 3, "runs": "x", "confusion": [], "verified": 1}
    texts = []
    for provenance in (told, spoilt):
        ensemble: Ensemble = replace(make_ensemble(0), provenance=provenance)
        assert site.request("POST", "/v1/ensembles", json=ensemble.to_json()).is_success
        page = site.get(f"/ui/ensembles/{ensemble.digest}")
        assert HTML not in page.text
        texts.append(words(page))
    assert "a study of gr with seed 7" in texts[0]
    assert f"trained on 2 recordings: cellular (1), {HTML} (1)." in texts[0]
    assert "1 of 1 row meet the requirement" in texts[0]
    assert "does not say how it was trained" not in texts[0]
    assert "Rows of it ran on a real kernel" not in texts[1]


@on_sqlite
def test_a_retraining_is_decided_on_the_page_of_its_channel(site: Api) -> None:
    site.move(0)
    assert site.request("PUT", f"{CHAMPION}/retraining", json=POLICY).is_success
    with site.database.write() as session:
        channel = channel_for_move(session, cca="gr", name="champion")
        session.add(
            RetrainingRow(
                channel=channel, state="proposed", reasons=json.dumps([HTML]), objections="[]",
                baseline=make_ensemble(0).digest, note="", started_by="retraining", started_at=site.clock(),
                changed_at=site.clock(),
            )
        )  # fmt: skip
    page = site.get(PLACE)
    assert HTML in words(page)
    assert HTML not in page.text
    assert 'id="retraining"' in page.text
    token = {"csrf_token": hidden(page)["csrf_token"]}
    begun = site.request("POST", f"{PLACE}/retrainings/1/training", data={**token, "note": "go"})
    assert begun.headers["location"].endswith("#retraining")
    assert site.get(f"{CHAMPION}/retrainings/1").json()["state"] == "training"
    again = site.request("POST", f"{PLACE}/retrainings/1/training", data=token)
    assert (again.status_code, "expected it to be proposed, it is training" in again.text) == (409, True)
    assert site.request("POST", f"{PLACE}/retrainings/1/dismiss", data=token).status_code == 303
    assert site.get(f"{CHAMPION}/retrainings/1").json()["state"] == "dismissed"


@on_sqlite
def test_the_page_says_who_signed_and_whether_agents_apply_it(site: Api, keys: Keys, tmp_path: Path) -> None:
    signing = signing_api(site, keys.registry, tmp_path)
    signing.move(0)
    assert "no root document: agents apply it unsigned; signed by the registry's key" in words(signing.get(PLACE))
    assert add_root(signing, keys.envelope()).status_code == 201
    assert "agents refuse it" in words(signing.get(PLACE))
    add_signature(signing, signing.publish(1), keys.publisher)
    signing.move(1)
    text = words(signing.get(PLACE))
    assert "agents apply it" in text
    assert f"ensemble signed by 1 of 1 needed publisher {keys.publisher.public.key_id[:12]}" in text
    assert keys.registry.public.key_id[:12] in text
    # Another process, without the key, signs nothing.
    assert "the registry has no signing key" in words(site.get(PLACE))
