# SPDX-License-Identifier: MIT
"""/v1/channels, without waiting"""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from functools import partial

import pytest

from kmod.ensemble import Ensemble
from serving.access.grants import local_caller
from serving.agent.client import parse_offer
from serving.channels import repository, service
from serving.channels.schemas import ChannelMove
from serving.database import Database
from tests.serving.api import START
from tests.serving.threads import at_once

pytestmark = pytest.mark.service

CHAMPION = "/v1/channels/gr/champion"


def test_a_channel_offers_its_ensemble_with_all_that_a_deployment_needs(api):
    digest = api.publish(3)
    body = {"digest": digest, "hold_back_permille": 100, "note": "first"}
    assert api.request("PUT", CHAMPION, json=body).status_code == 201
    offer = api.get(CHAMPION).json()
    ensemble = Ensemble.from_json(offer.pop("ensemble"))
    assert ensemble.digest == digest
    assert offer == {
        "registry": "lab",
        "cca": "gr",
        "channel": "champion",
        "serial": 1,
        "digest": digest,
        "hold_back_permille": 100,
        "urgent": False,
        "note": "first",
        "restores_serial": None,
        "deployed_at": "2026-03-01T12:00:00Z",
        "signatures": {"deployment": None, "ensemble": [], "root_version": None},
    }


def test_every_move_is_a_deployment_with_the_next_serial(api):
    serials = [api.move(number)["serial"] for number in (0, 1, 1, 0)]
    assert serials == [1, 2, 3, 4]


def test_each_channel_counts_its_own_serials(api):
    assert [api.move(channel=name)["serial"] for name in ("champion", "canary", "champion", "canary")] == [1, 1, 2, 2]


def test_history_lists_every_deployment_newest_first(api):
    moves = [api.move(number, note=f"move {number}") for number in range(5)]
    first = api.get(f"{CHAMPION}/history", params={"limit": 3}).json()
    rest = api.get(f"{CHAMPION}/history", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert first["items"] + rest["items"] == moves[::-1]
    assert rest["next_cursor"] is None


def test_the_list_shows_each_channel_as_it_stands(api):
    api.move(0)
    canary = api.move(1, channel="canary")
    champion = api.move(2)
    found = api.get("/v1/channels").json()
    assert [one.pop("drift")["verdict"] for one in found["items"]] == ["unknown", "unknown"]
    assert found == {"items": [champion, canary], "next_cursor": None}
    first = api.get("/v1/channels", params={"limit": 1}).json()
    rest = api.get("/v1/channels", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert [one["serial"] for one in first["items"] + rest["items"]] == [champion["serial"], canary["serial"]]
    assert api.get("/v1/channels", params={"cca": "reno"}).json()["items"] == []


def test_a_roll_back_deploys_the_ensemble_before_with_a_new_serial(api):
    first = api.move(0, hold_back_permille=50)
    api.move(1)
    answer = api.request("POST", f"{CHAMPION}/rollback", json={"note": "worse"})
    assert answer.status_code == 201
    back = answer.json()
    assert (back["serial"], back["restores_serial"], back["note"]) == (3, 1, "worse")
    assert (back["digest"], back["hold_back_permille"]) == (first["digest"], 50)
    assert api.get(CHAMPION).json()["serial"] == 3


def table_offered(api):
    """The text that an agent makes of what the channel offers."""
    _, table = parse_offer(api.get(CHAMPION).content, cca="gr", channel="champion")
    return table.text


def test_a_roll_back_is_offered_as_urgent_and_its_text_carries_the_mark(api):
    api.move(0)
    api.move(1)
    for body in ({}, {"json": {"note": "worse"}}):
        back = api.request("POST", f"{CHAMPION}/rollback", **body).json()
        assert back["urgent"] is True
        assert api.get(CHAMPION).json()["urgent"] is True
        assert f"\nserial {back['serial']} urgent\n" in table_offered(api)
        api.move(back["serial"])


def test_a_move_is_urgent_only_where_the_mover_says_so(api):
    assert api.move(0)["urgent"] is False
    assert "\nserial 1\n" in table_offered(api)
    assert api.move(1, urgent=True)["urgent"] is True
    assert "\nserial 2 urgent\n" in table_offered(api)


def test_a_roll_back_does_not_take_over_the_mark_of_the_deployment_that_it_restores(api):
    api.move(0, urgent=True)
    api.move(1)
    assert api.request("POST", f"{CHAMPION}/rollback", json={"urgent": False}).json()["urgent"] is False


@pytest.mark.parametrize("urgent", [1, "true", None])
def test_a_roll_back_with_a_mark_that_is_no_boolean_is_a_422_problem(api, problem, urgent):
    api.move(0)
    api.move(1)
    answer = api.request("POST", f"{CHAMPION}/rollback", json={"urgent": urgent})
    assert problem(answer, status=422)["errors"][0]["where"].startswith("body")
    assert api.get(CHAMPION).json()["serial"] == 2


def test_a_second_roll_back_goes_further_back_and_not_to_what_was_left(api):
    first, second = api.move(0), api.move(1)
    api.move(2)
    assert api.request("POST", f"{CHAMPION}/rollback").json()["digest"] == second["digest"]
    assert api.request("POST", f"{CHAMPION}/rollback").json()["digest"] == first["digest"]


def test_a_roll_back_after_a_roll_back_and_a_move_skips_what_was_left(api):
    first = api.move(0)
    api.move(1)
    api.request("POST", f"{CHAMPION}/rollback")
    api.move(2)
    assert api.request("POST", f"{CHAMPION}/rollback").json()["digest"] == first["digest"]


def test_a_roll_back_passes_over_moves_to_the_same_ensemble(api):
    first = api.move(0)
    api.move(1)
    api.move(1, hold_back_permille=500)
    assert api.request("POST", f"{CHAMPION}/rollback").json()["digest"] == first["digest"]


def test_a_roll_back_with_nothing_before_is_a_409_problem(api, problem):
    api.move(0)
    answer = api.request("POST", f"{CHAMPION}/rollback")
    assert problem(answer, status=409)["type"].endswith("nothing-to-roll-back")
    assert api.get(CHAMPION).json()["serial"] == 1


@pytest.mark.parametrize("tag", ['"1"', '"lab:1:{digest}"', '"7", "1"', "*"])
def test_if_match_lets_a_move_through_where_it_names_the_current_state(api, tag):
    first = api.move(0)
    headers = {"If-Match": tag.format(digest=first["digest"])}
    answer = api.request("PUT", CHAMPION, json={"digest": first["digest"]}, headers=headers)
    assert answer.json()["serial"] == 2


@pytest.mark.parametrize("tag", ['"2"', 'W/"1"', '"0"', '"other:1:{digest}"', "1", ""])
def test_if_match_stops_a_move_with_412_where_the_channel_stands_elsewhere(api, problem, tag):
    first = api.move(0)
    headers = {"If-Match": tag.format(digest=first["digest"])}
    for method, path in (("PUT", CHAMPION), ("POST", f"{CHAMPION}/rollback")):
        body = {"digest": first["digest"]} if method == "PUT" else {}
        problem(api.request(method, path, json=body, headers=headers), status=412)
    assert api.get(CHAMPION).json()["serial"] == 1


def test_if_match_without_its_quotes_is_told_that_they_are_missing(api, problem):
    digest = api.move(0)["digest"]
    answer = api.request("PUT", CHAMPION, json={"digest": digest}, headers={"If-Match": "1"})
    assert 'an ETag or "SERIAL", quotes included, got 1' in problem(answer, status=412)["detail"]


@pytest.mark.parametrize("tag", ["*", '"lab:1:{digest}"'])
def test_if_none_match_stops_a_move_with_412_where_it_names_the_current_state(api, problem, tag):
    digest = api.publish()
    headers = {"If-None-Match": tag.format(digest=digest)}
    assert api.request("PUT", CHAMPION, json={"digest": digest}, headers=headers).status_code == 201
    problem(api.request("PUT", CHAMPION, json={"digest": digest}, headers=headers), status=412)
    assert api.get(CHAMPION).json()["serial"] == 1


def test_if_match_zero_means_that_nothing_was_deployed_yet(api, problem):
    digest = api.publish()
    problem(api.request("PUT", CHAMPION, json={"digest": digest}, headers={"If-Match": "*"}), status=412)
    assert api.request("PUT", CHAMPION, json={"digest": digest}, headers={"If-Match": '"0"'}).status_code == 201


def test_the_etag_is_strong_and_changes_with_every_move(api):
    moved = api.request("PUT", CHAMPION, json={"digest": api.publish()})
    etag = api.get(CHAMPION).headers["etag"]
    assert etag == moved.headers["etag"]
    assert etag.startswith('"')
    assert api.get(CHAMPION, headers={"If-None-Match": etag}).status_code == 304
    api.move()
    assert api.get(CHAMPION, headers={"If-None-Match": etag}).status_code == 200


def test_a_304_carries_the_etag_and_no_body(api):
    api.move()
    etag = api.get(CHAMPION).headers["etag"]
    answer = api.get(CHAMPION, headers={"If-None-Match": f'"other", W/{etag}'})
    assert (answer.status_code, answer.headers["etag"], answer.content) == (304, etag, b"")


def test_moves_at_once_through_two_processes_give_every_serial_once(api, database_url):
    digest = api.publish()
    databases = [Database(database_url, busy_timeout_ms=60_000) for _ in range(2)]
    serials: list[int] = []
    change = service.Change(
        registry="lab", cca="gr", name="race", by=local_caller("test"), clock=api.clock, if_match=None
    )

    def move(database: Database) -> None:
        for _ in range(8):
            with database.write() as session:
                row, _ = service.move(session, change, ChannelMove(digest=digest))
            serials.append(row.serial)

    at_once(partial(move, database) for database in databases * 2)
    for database in databases:
        database.close()
    assert sorted(serials) == list(range(1, 33))
    history = api.get("/v1/channels/gr/race/history", params={"limit": 200}).json()["items"]
    assert [row["serial"] for row in history] == list(range(32, 0, -1))


def test_a_move_that_waited_for_another_has_the_time_at_which_it_was_made(api):
    digest = api.publish()
    with api.database.write() as session:
        repository.channel_for_move(session, cca="gr", name="champion")
        waiting = threading.Thread(target=api.request, args=("PUT", CHAMPION), kwargs={"json": {"digest": digest}})
        waiting.start()
        waiting.join(timeout=0.3)
        assert waiting.is_alive()
        api.clock.advance(seconds=60)
    waiting.join()
    moved_at = datetime.fromisoformat(api.get(CHAMPION).json()["deployed_at"])
    assert moved_at == START + timedelta(seconds=60)


def test_only_one_of_many_moves_from_the_same_state_is_made(api):
    digest = api.publish()
    answers = api.at_once(6, "PUT", CHAMPION, json={"digest": digest}, headers={"If-Match": '"0"'})
    assert sorted(answer.status_code for answer in answers) == [201] + [412] * 5


def test_a_move_that_fails_leaves_no_serial_behind(api, problem):
    unknown = {"digest": "sha256:" + "0" * 64}
    assert problem(api.request("PUT", CHAMPION, json=unknown), status=404)["type"].endswith("ensemble-not-found")
    problem(api.get(CHAMPION), status=404)
    assert api.move()["serial"] == 1


def test_an_ensemble_of_another_algorithm_is_a_409_problem(api, problem):
    body = {"digest": api.publish()}
    answer = api.request("PUT", "/v1/channels/reno/champion", json=body)
    assert problem(answer, status=409)["type"].endswith("wrong-algorithm")


def test_a_channel_is_deleted_with_its_history_and_its_serials_go_on(api, problem):
    api.move(0)
    api.move(1)
    path = "/v1/channels/gr/champion"
    problem(api.request("DELETE", path, headers={"If-Match": '"1"'}), status=412)
    assert api.request("DELETE", path, headers={"If-Match": '"2"'}).status_code == 204
    problem(api.request("DELETE", path), status=404)
    for gone in (path, f"{path}/history"):
        problem(api.get(gone), status=404)
    problem(api.request("POST", f"{path}/rollback"), status=404)
    assert api.get("/v1/channels").json()["items"] == []
    (deleted,) = api.get("/v1/audit", params={"action": "delete-channel"}).json()["items"]
    assert (deleted["target"], deleted["details"]["serial"]) == ("channel gr/champion", 3)
    body = {"digest": api.publish(1)}
    problem(api.request("PUT", path, json=body, headers={"If-Match": '"3"'}), status=412)
    again = api.request("PUT", path, json=body, headers={"If-Match": '"0"'})
    assert (again.status_code, again.json()["serial"]) == (201, 4)
    assert [row["serial"] for row in api.get(f"{path}/history").json()["items"]] == [4]
    problem(api.request("POST", f"{path}/rollback"), status=409)
    assert api.request("PUT", path, json=body).status_code == 200


@pytest.mark.parametrize("path", ["", "/history"])
def test_an_unknown_channel_is_a_404_problem(api, problem, path):
    assert problem(api.get(CHAMPION + path), status=404)["type"].endswith("channel-not-found")
    problem(api.request("POST", f"{CHAMPION}/rollback"), status=404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"digest": "sha256:short"},
        {"digest": "D", "hold_back_permille": 1001},
        {"digest": "D", "hold_back_permille": -1},
        {"digest": "D", "hold_back_permille": 1.5},
        {"digest": "D", "hold_back_permille": True},
        {"digest": "D", "urgent": 1},
        {"digest": "D", "urgent": "true"},
        {"digest": "D", "urgent": None},
        {"digest": "D", "note": "n" * 1001},
        {"digest": "D", "extra": 1},
    ],
)
def test_an_invalid_move_is_a_422_problem_that_names_the_place(api, problem, body):
    digest = api.publish()
    text = json.dumps(body).replace('"D"', f'"{digest}"')
    answer = api.request("PUT", CHAMPION, content=text, headers={"Content-Type": "application/json"})
    assert problem(answer, status=422)["errors"][0]["where"].startswith("body")


@pytest.mark.parametrize("path", ["nothing/champion", "gr/a%20b", "gr/" + "c" * 64, "gr/%2e%2e"])
def test_a_name_that_the_kernel_or_a_url_cannot_carry_is_refused(api, path):
    answer = api.request("PUT", f"/v1/channels/{path}", json={"digest": api.publish()})
    assert answer.status_code in {404, 422}
    assert api.get("/v1/channels").json()["items"] == []


def test_a_note_may_hold_any_text(api):
    note = "naïve ☂ 'quoted' \n line"
    assert api.move(note=note)["note"] == note
    assert api.get(CHAMPION).json()["note"] == note


def test_what_no_database_can_store_is_replaced_in_a_note(api):
    text = json.dumps({"digest": api.publish(), "note": "nul \x00 half \ud800"})
    answer = api.request("PUT", CHAMPION, content=text, headers={"Content-Type": "application/json"})
    assert answer.json()["note"] == "nul \ufffd half ?"
