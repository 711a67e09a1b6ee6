# SPDX-License-Identifier: MIT
"""ccatune publish, channel and ensembles, against a registry behind a socket"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

import ccatune
from kmod.ensemble import Ensemble
from serving.client import RegistryClient
from serving.commands.printing import age_in_words
from serving.commands.printing import short_digest as short
from serving.database import AgentRow
from serving.errors import RegistryClientError
from tests.serving.api import Command, make_ensemble
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


@pytest.fixture
def command(api, run_command) -> Iterator[Command]:
    """Runs a command of `ccatune` on the registry; gives its exit status, output and errors."""
    with Running(api.database) as registry:
        yield lambda *words: run_command(*words, "--url", registry.url)


def test_publish_says_what_is_new_and_what_was_there(command, ensemble_file):
    one, two = ensemble_file(1), ensemble_file(2)
    status, out, _ = command("publish", one)
    assert (status, out) == (0, f"{one}: published {Ensemble.load(one).digest}\n")
    status, out, _ = command("publish", one, two, "--json")
    assert status == 0
    assert [(row["file"], row["created"]) for row in json.loads(out)] == [(str(one), False), (str(two), True)]


def test_publish_says_last_what_the_training_lacks(command, tmp_path):
    state = {"class": 0, "training": {"meets": True}}
    rows = [{**state, "state": [level], "copied_from": None if level < 10 else [9]} for level in range(40)]
    rows += [{**row, "class": 1, "training": {"meets": row["state"][0] % 5 == 0}} for row in rows]
    path = tmp_path / "short.json"
    replace(make_ensemble(0), provenance={"states": rows}).save(path)
    status, out, _ = command("publish", path, "--channel", "champion")
    words = " ".join(out.split())
    assert status == 0
    assert max(len(line) for line in out.splitlines()[3:] if not line.startswith(str(path))) <= 80
    assert f"{path}: 10 of 40 states were trained. The other 30 had too few epochs in the traces" in words
    assert words.endswith("8 of 20 trained rows miss their target on the training data. "
                          "A row belongs to a state and a class.")  # fmt: skip
    assert len(json.loads(command("publish", path, "--json")[1])[0]["warnings"]) == 2


def test_publish_can_point_a_channel_in_the_same_breath(command, ensemble_file):
    path = ensemble_file()
    status, out, _ = command("publish", path, "--channel", "champion", "--hold-back-permille", 100, "--note", "n")
    assert status == 0
    assert out.splitlines()[-1] == f"lab: gr/champion serial 1 {Ensemble.load(path).digest}"
    history = json.loads(command("channels", "history", "gr", "champion", "--json")[1])
    assert [(row["serial"], row["hold_back_permille"], row["note"]) for row in history] == [(1, 100, "n")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--channel", "a b"], "channel: "),
        (["--channel", "champion#a"], "channel: "),
        (["--channel", "champion", "--note", "n" * 1001], "note: "),
        (["--note", "why"], "expected --channel with them"),
        (["--hold-back-permille", 100], "expected --channel with them"),
        (["--urgent"], "expected --channel with them"),
        (["--no-urgent"], "expected --channel with them"),
    ],
)
def test_a_mistake_of_the_move_keeps_the_ensemble_from_being_published(command, ensemble_file, options, expected):
    status, _, error = command("publish", ensemble_file(), *options)
    assert status == 2
    assert f"ccatune: {expected}" in error or expected in error.splitlines()[-1]
    assert json.loads(command("ensembles", "list", "--json")[1]) == []


def test_a_move_that_fails_behind_its_publication_says_what_is_done(command, ensemble_file, monkeypatch):
    def refuse(*_arguments, **_options):
        raise RegistryClientError("no")

    monkeypatch.setattr(RegistryClient, "move", refuse)
    status, _, error = command("publish", ensemble_file(), "--channel", "champion")
    assert (status, error) == (2, f"ccatune: no ({ensemble_file()} is published, --channel alone failed)\n")


def test_one_bad_file_keeps_the_good_ones_from_being_published(command, ensemble_file, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text(ensemble_file().read_text(encoding="utf-8").replace("60000", "61000"), encoding="utf-8")
    status, _, error = command("publish", ensemble_file(1), bad)
    assert status == 2
    assert error.startswith(f"ccatune: {bad}: ")
    assert json.loads(command("ensembles", "list", "--json")[1]) == []


def test_a_roll_back_is_urgent_and_other_moves_are_not_unless_the_command_says_so(command, ensemble_file):
    digest = Ensemble.load(ensemble_file(1)).digest
    command("publish", ensemble_file(1), ensemble_file(2))
    for words, urgent in (
        (("publish", ensemble_file(2), "--channel", "champion"), False),
        (("publish", ensemble_file(2), "--channel", "champion", "--urgent"), True),
        (("channels", "set", "gr", "champion", digest), False),
        (("channels", "set", "gr", "champion", digest, "--no-urgent"), False),
        (("channels", "set", "gr", "champion", digest, "--urgent"), True),
        (("channels", "rollback", "gr", "champion", "--no-urgent"), False),
        (("channels", "set", "gr", "champion", digest), False),
        (("channels", "rollback", "gr", "champion"), True),
    ):
        status, out, _ = command(*words)
        assert status == 0
        assert (" urgent sha256:" in out.splitlines()[-1]) is urgent
        newest = json.loads(command("channels", "history", "gr", "champion", "--json")[1])[0]
        assert newest["urgent"] is urgent
    shown = [line.split() for line in command("channels", "history", "gr", "champion")[1].splitlines()]
    assert shown[0][:5] == ["serial", "table", "held", "back", "urgent"]
    assert [row[2] for row in shown[1:]] == ["yes", "no", "no", "yes", "no", "no", "yes", "no"]
    command("channels", "set", "gr", "champion", digest)
    moved = command("channels", "set", "gr", "champion", Ensemble.load(ensemble_file(2)).digest, "--json")
    assert json.loads(moved[1])["urgent"] is False
    assert json.loads(command("channels", "rollback", "gr", "champion", "--json")[1])["urgent"] is True


def test_a_move_from_a_serial_that_is_gone_is_refused(command, ensemble_file):
    command("publish", ensemble_file(), "--channel", "champion")
    digest = Ensemble.load(ensemble_file()).digest
    status, _, error = command("channels", "set", "gr", "champion", digest, "--if-serial", 0)
    assert status == 2
    assert "it stands at serial 1" in error
    assert command("channels", "set", "gr", "champion", digest, "--if-serial", 1)[0] == 0


def test_a_registry_that_is_not_there_is_told_in_one_line(capsys, new_database_url):
    del new_database_url
    assert ccatune.run(["channels", "list", "--url", "http://127.0.0.1:1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is `ccatune serve` running there?" in error
    assert ccatune.run(["channels", "list", "--url", "nonsense"]) == 2


def test_lists_longer_than_a_page_are_whole(command, api):
    for number in range(60):
        api.move(number % 2)
    assert len(json.loads(command("channels", "history", "gr", "champion", "--json")[1])) == 60


def test_a_channel_is_shown_with_what_a_terminal_can_print(command, ensemble_file):
    command("publish", ensemble_file(), "--channel", "champion", "--note", "\x1b[2Jred")
    status, out, _ = command("channels", "show", "gr", "champion")
    assert status == 0
    shown = dict(line.split(maxsplit=1) for line in out.splitlines() if " " in line.strip())
    assert (shown["serial"], shown["table"]) == ("1", short(Ensemble.load(ensemble_file()).digest))
    assert shown["note"] == "\\x1b[2Jred"
    assert "\x1b" not in command("channels", "history", "gr", "champion")[1]
    assert json.loads(command("channels", "show", "gr", "champion", "--json")[1])["ensemble"]["cca"] == "gr"


def test_the_first_digits_of_a_digest_are_enough_where_they_name_one_ensemble(command, ensemble_file):
    command("publish", ensemble_file(1), ensemble_file(2))
    digest = Ensemble.load(ensemble_file(1)).digest
    for prefix in (digest[:19], digest.removeprefix("sha256:")[:8]):
        status, out, _ = command("channels", "set", "gr", "champion", prefix, "--json")
        assert (status, json.loads(out)["digest"]) == (0, digest)
    assert command("ensembles", "show", digest[:19])[1] == ensemble_file(1).read_text(encoding="utf-8")
    status, _, error = command("channels", "set", "gr", "champion", "sha256:" + "0" * 12)
    assert status == 2
    assert "expected sha256:000000000000 to begin the digest of one published ensemble of gr, got none" in error
    status, _, error = command("channels", "set", "gr", "champion", digest[:11])
    assert (status, "expected a digest or at least its first 8 hexadecimal digits" in error) == (2, True)


def test_agents_are_listed_with_the_age_of_their_reports(command, api):
    report = {"cca": "gr", "channel": "champion", "state": "InSync", "error": "\x1b[31m"}
    for name, channel in (("a", "champion"), ("b", "canary")):
        answer = api.request("POST", f"/v1/agents/{name}/reports", json={**report, "channel": channel})
        assert answer.status_code == 204
    status, out, _ = command("agents", "list", "--channel", "champion")
    assert status == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["a", "gr/champion", "InSync"]]
    assert "\x1b" not in out
    assert json.loads(command("agents", "list", "--state", "Offline", "--json")[1]) == []
    assert [row["agent_id"] for row in json.loads(command("agents", "list", "--json")[1])] == ["a", "b"]


def test_an_agent_that_does_not_report_any_more_is_marked_as_silent(command, api):
    report = {"cca": "gr", "channel": "champion", "state": "InSync"}
    api.request("POST", "/v1/agents/a/reports", json=report)
    for age, is_silent in ((timedelta(minutes=2), False), (timedelta(hours=5), True)):
        with api.database.write() as session:
            session.execute(update(AgentRow).values(received_at=datetime.now(UTC) - age))
        assert ("silent 5 h" in command("agents", "list")[1]) is is_silent


def test_a_channel_is_said_to_be_new_and_can_be_removed(command, ensemble_file):
    digest = Ensemble.load(ensemble_file()).digest
    command("publish", ensemble_file(), "--channel", "champion")
    assert command("channels", "set", "gr", "champoin", digest)[1].startswith("gr/champoin: a new channel\n")
    assert "new channel" not in command("channels", "set", "gr", "champion", digest)[1]
    assert command("channels", "remove", "gr", "champoin", "--if-serial", 2)[0] == 2
    assert command("channels", "remove", "gr", "champoin")[:2] == (
        0,
        "gr/champoin: removed; its agents keep their tables\n",
    )
    assert [row["channel"] for row in json.loads(command("channels", "list", "--json")[1])] == ["champion"]
    assert "got gr/champoin, which does not exist" in command("channels", "show", "gr", "champoin")[2]


def test_an_agent_is_removed_by_its_id(command, api):
    report = {"cca": "gr", "channel": "champion", "state": "InSync"}
    for name in ("a", "b"):
        api.request("POST", f"/v1/agents/{name}/reports", json=report)
    assert command("agents", "remove", "a")[:2] == (0, "a: removed\n")
    assert [row["agent_id"] for row in json.loads(command("agents", "list", "--json")[1])] == ["b"]
    assert "expected the id of an agent that has reported, got a" in command("agents", "remove", "a")[2]
    status, _, error = command("agents", "remove", "../channels")
    assert (status, error.count("\n")) == (2, 1)
    assert error.startswith("ccatune: agent id: ")


@pytest.mark.parametrize(
    ("age_s", "words"), [(12.4, "12 s"), (7300, "2 h"), (0.0, "unknown"), (-3.0, "unknown"), (None, "unknown")]
)
def test_an_age_by_a_clock_that_was_set_back_is_unknown(new_database_url, age_s, words):
    del new_database_url
    assert age_in_words(age_s) == words
