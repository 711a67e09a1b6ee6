# SPDX-License-Identifier: MIT
"""/v1/qos, and what reports add to it"""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

import ccatune
from serving.agents import service
from serving.agents.endpoints import received
from serving.agents.schemas import AgentReport
from serving.database import MAX_SUM, AgentQosRow, QosRow
from serving.qos import repository
from serving.qos.retention import QosRetention
from tests.serving.qos.deltas import EPOCH, delta
from tests.serving.running import Running

pytestmark = pytest.mark.service

STATE = {"cca": "gr", "channel": "champion", "state": "InSync"}
DAY_S = 86_400.0


@pytest.fixture
def deployed(api):
    """A registry `lab` with serials 1 and 2 of two channels."""
    for channel in ("champion", "canary"):
        for number in (0, 1):
            api.move(number, channel=channel)
    return api


def report(api, sums, agent_id="web-1"):
    """Send a report with these sums."""
    answer = api.request("POST", f"/v1/agents/{agent_id}/reports", json={**STATE, "sums": sums})
    assert answer.status_code == 204, answer.text


def received_with(api, agent_id, sums):
    """A report with these sums, as it is queued."""
    return received(AgentReport.model_validate({**STATE, "sums": sums}), agent_id=agent_id, now=api.clock())


def store(api, *reports):
    """Write reports as one batch: pairs of an agent and its sums."""
    with api.database.write() as session:
        service.store(session, [received_with(api, *one) for one in reports])


def items(api, by="serial", **params):
    """The answer's items."""
    answer = api.get("/v1/qos", params={"by": by, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def epochs(api, by="serial", **params):
    """The epochs of each group, by the values of its keys."""
    return {tuple(item[key] for key in by.split(",") if key): item["epochs"] for item in items(api, by, **params)}


def test_an_item_has_the_sums_of_its_group_and_what_follows_from_them(deployed):
    report(deployed, delta(1, [(False, 0, 3, 2), (False, 1, 3, 1), (True, 0, 3, 1)]))
    report(deployed, delta(1, [(False, 0, 4, 1)]), "web-2")
    assert items(deployed, by="cca,channel,serial,group") == [
        {
            "cca": "gr", "channel": "champion", "serial": 1, "group": group,
            **{name: value * n for name, value in EPOCH.items()},
            "share_within_target": 0.9, "mean_delay_us": 30_000.0, "goodput_bytes_per_s": 2_000_000.0,
            "retransmission_rate": 0.01,
        }
        for group, n in (("ensemble", 4), ("held_back", 1))
    ]  # fmt: skip
    assert epochs(deployed, by="class,state") == {(0, 3): 3, (0, 4): 1, (1, 3): 1}
    assert epochs(deployed, by="agent_id") == {("web-1",): 4, ("web-2",): 1}
    assert epochs(deployed, by="") == {(): 5}
    assert items(deployed, by="hour")[0]["hour"] == "2026-03-01T12:00:00Z"


def test_a_delta_counts_once_however_often_and_in_whatever_batch_it_arrives(deployed):
    for _ in range(3):
        report(deployed, delta(1))
    store(deployed, ("web-1", delta(1)), ("web-1", delta(2)), ("web-1", delta(2)), ("web-1", delta(3)))
    store(deployed, ("web-1", delta(2)), ("web-1", None))
    assert epochs(deployed) == {(1,): 3}
    # The agent lost its state, and began another series.
    report(deployed, delta(1, series="b"))
    report(deployed, delta(1, series="b"))
    assert epochs(deployed) == epochs(deployed, agent_id="web-1") == {(1,): 4}


def test_two_processes_that_receive_the_first_delta_of_an_agent_at_once_count_it_once(deployed):
    second = threading.Thread(target=store, args=(deployed, ("web-1", delta(1))))
    with deployed.database.write() as session:
        service.store(session, [received_with(deployed, "web-1", delta(1))])
        second.start()
        second.join(0.5)
        assert second.is_alive()
    second.join(30)
    assert epochs(deployed) == {(1,): 1}


def test_a_thousand_reports_in_one_batch_are_added_up(deployed):
    rows = [(False, 0, state, 1) for state in range(3)]
    store(deployed, *((f"web-{number}", delta(1, rows)) for number in range(1000)))
    assert epochs(deployed, by="state") == {(state,): 1000 for state in range(3)}
    assert len(items(deployed, by="agent_id")) == 1000
    first = deployed.get("/v1/qos", params={"by": "agent_id", "limit": 600}).json()
    rest = deployed.get("/v1/qos", params={"by": "agent_id", "limit": 600, "cursor": first["next_cursor"]}).json()
    assert len({item["agent_id"] for item in first["items"] + rest["items"]}) == 1000
    assert rest["next_cursor"] is None


def test_sums_of_a_table_that_this_registry_did_not_deploy_are_ignored(deployed):
    store(
        deployed,
        ("web-1", delta(1, serial=3)),
        ("web-2", delta(1, registry="other")),
        ("web-3", delta(1, channel="none")),
        ("web-4", delta(1, serial=2)),
    )
    assert epochs(deployed, by="serial,agent_id") == {(2, "web-4"): 1}


def test_rows_without_a_class_or_a_state_are_shown_without_them(deployed):
    report(deployed, delta(1, [(False, None, None, 1), (False, 0, None, 1)]))
    without, of_class = items(deployed, by="class,state")
    assert (without["class"], without["state"], without["share_within_target"]) == (None, None, None)
    assert (of_class["class"], of_class["state"], of_class["share_within_target"]) == (0, None, 0.9)
    assert items(deployed)[0]["share_within_target"] == 0.9


def test_an_agent_that_is_older_or_newer_than_the_registry_is_counted(deployed):
    sums = {**delta(1), "application_limited_us": [5], "lookups": ["x"]}
    del sums["delay_us"]
    report(deployed, sums)
    assert (items(deployed)[0]["epochs"], items(deployed)[0]["delay_us"]) == (1, 0)
    assert "sums" not in deployed.get("/v1/agents").json()["items"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": [1, 2]}, "epochs: expected 1 entries as in table, got 2"),
        ({"class": []}, "class: expected 1 entries as in table, got 0"),
        ({"table": [1]}, "expected numbers below 1"),
        ({"bytes": [-1]}, "greater than or equal to 0"),
        ({"bytes": [MAX_SUM + 1]}, "less than or equal to"),
        ({"state": [4096]}, "less than or equal to 4095"),
        ({"sequence": 0}, "greater than or equal to 1"),
        ({"table": [0] * 513}, "at most 512"),
    ],
)
def test_invalid_sums_are_a_422_problem_that_says_what_was_expected(deployed, problem, changes, words):
    answer = deployed.request("POST", "/v1/agents/web-1/reports", json={**STATE, "sums": {**delta(1), **changes}})
    assert words in problem(answer, status=422)["detail"]
    assert items(deployed) == []


def test_a_sum_that_is_too_large_stays_at_the_largest_and_harms_no_other_report(deployed):
    for sequence in (1, 2):
        report(deployed, {**delta(sequence), "bytes": [MAX_SUM]})
    store(deployed, *((f"big-{number}", {**delta(1, serial=2), "bytes": [MAX_SUM]}) for number in range(3)))
    report(deployed, delta(1), "web-2")
    assert epochs(deployed) == {(1,): 3, (2,): 3}
    assert [item["bytes"] for item in items(deployed)] == [2**63, 2**63]


def test_sums_are_selected_by_every_key_and_by_time(deployed):
    report(deployed, delta(1, [(False, 0, 0, 1), (True, 1, 2, 2)]))
    deployed.clock.advance(seconds=3600)
    report(deployed, delta(2, [(False, 0, 0, 4)], channel="canary", serial=2))
    for expected, params in (
        (3, {"channel": "champion"}), (4, {"serial": 2}), (2, {"group": "held_back"}), (5, {"group": "ensemble"}),
        (2, {"class": 1}), (2, {"state": 2}), (7, {"cca": "gr"}), (7, {"agent_id": "web-1"}),
        (4, {"from": "2026-03-01T13:00:00Z"}), (7, {"from": "2026-03-01T12:59:00Z"}),
        (3, {"until": "2026-03-01T13:00:00Z"}), (7, {"until": "2026-03-01T13:00:01Z"}),
        (3, {"until": "2026-03-01T14:00:00+01:00"}),
    ):  # fmt: skip
        assert epochs(deployed, by="", **params) == {(): expected}, params
    assert items(deployed, cca="reno") == items(deployed, agent_id="web-9") == []
    deployed.clock.advance(seconds=25 * 3600)
    assert items(deployed) == []
    assert len(items(deployed, **{"from": "2026-03-01T00:00:00Z"})) == 2


@pytest.mark.parametrize(
    "params",
    [{"by": "serial,serial"}, {"by": "colour"}, {"from": "2026-03-01T12:00:00"}, {"class": 8}, {"state": -1},
     {"by": "agent_id,state"}, {"by": "serial", "state": 1, "agent_id": "web-1"}, {"until": "today"}],
)  # fmt: skip
def test_an_invalid_question_is_a_422_problem(api, problem, params):
    problem(api.get("/v1/qos", params=params), status=422)


def test_a_limited_token_sees_only_what_it_may(deployed):
    store(deployed, ("web-1", delta(1)), ("web-2", delta(1, channel="canary")))
    canary = deployed.limited("read", channels=["canary"])
    assert epochs(canary, by="channel") == epochs(canary, by="channel", agent_id="web-2") == {("canary",): 1}
    assert items(deployed.limited("read", ccas=["reno"])) == []
    agent = deployed.limited("read", "report", agent_id="web-1")
    assert epochs(agent, by="channel") == {("champion",): 1}
    assert items(agent, agent_id="web-2") == []
    assert agent.get("/v1/qos", params={"by": "state"}).status_code == 422


def test_sums_of_a_removed_agent_stay_in_the_whole_and_never_become_those_of_another(deployed):
    report(deployed, delta(1))
    deployed.request("DELETE", "/v1/agents/web-1")
    report(deployed, delta(1, [(False, 0, 0, 5)]), "web-2")
    assert epochs(deployed, by="agent_id") == {("web-2",): 5}
    assert epochs(deployed) == {(1,): 6}


def test_old_sums_are_deleted_by_their_retention_and_in_small_steps(deployed):
    rows = [(False, 0, state, 1) for state in range(5)]
    for _ in range(3):
        store(deployed, *((f"web-{number}", delta(deployed.clock.now.day, rows)) for number in range(3)))
        deployed.clock.advance(seconds=DAY_S)

    def kept() -> list[int]:
        asyncio.run(deployed.part(QosRetention).round(step_rows=2))
        with deployed.database.read() as session:
            return [session.query(table).count() for table in (QosRow, AgentQosRow)]

    assert kept() == [15, 9]
    deployed.clock.advance(seconds=5 * DAY_S)
    assert kept() == [15, 6]
    deployed.clock.advance(seconds=83 * DAY_S)
    assert kept() == [10, 0]
    with deployed.database.write() as session:
        assert repository.delete_older(session, QosRow, before_hour=0, limit=10) == 0


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_command_prints_a_table_and_json(deployed, monkeypatch, capsys):
    monkeypatch.setenv("CCATUNE_TOKEN", deployed.token)
    monkeypatch.setenv("COLUMNS", "80")
    deployed.clock.now = deployed.clock.now.replace(year=2020)
    report(deployed, delta(1, [(False, 0, 3, 2), (True, None, 3, 1)]))
    with Running(deployed.database, open=False) as registry:
        usual = ["qos", "--url", registry.url, "--from", "2020-01-01"]
        assert ccatune.run(usual) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split() for line in lines[2:]] == [
            ["gr/champion", "1", "ensemble", "2", "16.00", "1.00%", "30.0", "ms", "90.0%"],
            ["gr/champion", "1", "held_back", "1", "16.00", "1.00%", "30.0", "ms", "-"],
        ]
        assert max(map(len, lines)) <= 80
        assert ccatune.run([*usual, "--json", "--by", "class,state", "--group", "ensemble", "--state", "3"]) == 0
        (item,) = json.loads(capsys.readouterr().out)
        assert (item["class"], item["state"], item["epochs"]) == (0, 3, 2)
        assert ccatune.run(["qos", "--url", registry.url, "--agent", "web-1"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
        assert ccatune.run([*usual[:3], "--from", "yesterday"]) == 2
        assert "how long ago, such as 7d" in capsys.readouterr().err


def test_a_batch_with_the_names_of_many_tables_that_nobody_deployed_is_stored(deployed):
    """PostgreSQL takes at most 65,535 parameters in a statement, and a batch has up to 1,000 reports."""
    invented = []
    for number in range(1, 701):
        sums = delta(number, ())
        sums["tables"] = [
            {"registry": "lab", "channel": f"c{number}-{table}", "serial": 64 * number + table} for table in range(64)
        ]
        invented.append(("web-1", sums))
    store(deployed, *invented, ("web-2", delta(1, [(False, 0, 0, 3)])))
    assert [item["epochs"] for item in items(deployed)] == [3]
