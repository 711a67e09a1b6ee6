# SPDX-License-Identifier: MIT
"""Agents and registries that are one release apart, by the exchanges that earlier versions recorded"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.compatibility import scenario
from tests.serving.compatibility.player import playing

pytestmark = pytest.mark.service

RECORDINGS = sorted(Path(__file__).parent.glob("schema-*.json"))
# Values that differ between two runs of the same version.
VOLATILE = frozenset({"deployed_at", "published_at", "received_at", "age_s"})
LATER = {"of_a_later_version": {"unknown": [1, None, "text"]}}


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What an earlier version recorded."""
    return dict(json.loads(request.param.read_text(encoding="utf-8")))


def lacks(old: Any, new: Any, where: str = "answer") -> list[str]:
    """Where the new answer lacks a field of the old one, or has another value there."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            place
            for key, value in old.items()
            if key not in VOLATILE or key not in new
            for place in (lacks(value, new[key], f"{where}.{key}") if key in new else [f"{where}.{key} is missing"])
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [place for number, pair in pairs for place in lacks(*pair, f"{where}.{number}")]
    return [] if old == new else [f"{where}: expected {old!r}, got {new!r}"]


class Replay:
    """Sends recorded requests to this version's registry. An ETag becomes the one of the same answer of this run."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._etags: dict[str, str] = {}

    def send(self, exchange: dict[str, Any]) -> httpx.Response:
        """Send one request."""
        headers = {name: self._etags.get(value, value) for name, value in exchange["headers"].items()}
        body = {} if exchange["body"] is None else {"json": exchange["body"]}
        answer: httpx.Response = self._api.request(exchange["method"], exchange["path"], headers=headers, **body)
        if "etag" in exchange["answer_headers"]:
            self._etags[exchange["answer_headers"]["etag"]] = answer.headers["etag"]
        return answer


def test_requests_of_an_older_version_get_what_they_got_then(api, recorded):
    replay = Replay(api)
    for exchange in recorded["exchanges"]:
        answer = replay.send(exchange)
        what = f"{exchange['method']} {exchange['path']}"
        assert answer.status_code == exchange["status"], f"{what}: {answer.text}"
        if answer.status_code >= 400:
            assert answer.json()["type"] == exchange["answer"]["type"]
        elif exchange["answer"] is not None:
            assert lacks(exchange["answer"], answer.json()) == [], what


def test_reports_with_fields_of_a_later_version_are_accepted(api, recorded):
    reports = [exchange for exchange in recorded["exchanges"] if exchange["path"].endswith("/reports")]
    assert reports
    for exchange in reports:
        assert Replay(api).send({**exchange, "body": {**exchange["body"], **LATER}}).status_code == 204


def heard(recorded: dict[str, Any], folder: Path, later: dict[str, Any]) -> list[str]:
    """What this version's agent finds by the recorded answers, each with further fields."""
    answers = [
        {**exchange, "answer": exchange["answer"] and {**exchange["answer"], **later}}
        for exchange in recorded["exchanges"]
        if exchange["by"] == "agent"
    ]
    with playing(answers) as url:
        agent = scenario.AgentOfScenario(url, folder)
        scenario.run(agent, lambda _step: None)
    return agent.found


def in_later_words(found: list[str]) -> list[str]:
    """Without a pinned root document an agent says Unsigned. Agents from before the signatures said InSync."""
    return [one.replace("InSync", "Unsigned") for one in found]


@pytest.mark.parametrize("later", [{}, LATER], ids=["as recorded", "with fields of a later version"])
def test_answers_of_another_version_lead_the_agent_to_the_same_tables(recorded, tmp_path, later):
    assert in_later_words(heard(recorded, tmp_path, later)) == in_later_words(recorded["found"])
