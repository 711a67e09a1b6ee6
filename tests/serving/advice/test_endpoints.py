# SPDX-License-Identifier: MIT
"""The advice of a channel: kept, replaced, shown on its page, and refused where it is none."""

from __future__ import annotations

from typing import Any

import pytest

from serving.database import AuditRow
from tests.serving.api import Api, problem_of
from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service
ADVICE = f"{CHAMPION}/advice"


def report(*, advised: str | None = "gr", answer: str = "Use GR instead of CUBIC.") -> dict[str, Any]:
    """The part of an advice that the registry keeps, and a field that it does not know."""

    def figures(factor: float) -> dict[str, Any]:
        of = {"throughput_mbps": 5.0, "delay_ms": 90.0, "retransmitted": 0.01, "score": 0.9}
        return {
            name: {"value": x * factor, "low": x * factor * 0.9, "high": x * factor * 1.1} for name, x in of.items()
        }

    pooled = {"state": "all flows", "flows": 12, "seconds": 300.0, "today": {"cubic": 1.0}, "advised": advised,
              "candidates": {"cubic": figures(0.5), "gr": figures(1.0)}}  # fmt: skip
    own = {"state": "1 to 4 Mbit/s, 20 to 40 ms", "flows": 4, "seconds": 80.0, "advised": "rtcp_cubic"}
    return {"schema": "ccatune-advice/1", "target_ms": 100.0, "answer": [answer], "why": ["CUBIC fills the buffer."],
            "seen": ["12 flows were backlogged for 300 s."], "pooled": pooled, "states": [own], "flows": 12,
            "runs": 36}  # fmt: skip


def test_anonymous(api: Api) -> None:
    problem_of(api.anonymous.get(ADVICE), status=401)
    problem_of(api.anonymous.request("PUT", ADVICE, json=report()), status=401)


def test_the_newest_advice_is_kept_with_its_sender_and_shown_as_text(api: Api) -> None:
    api.move(0)
    problem_of(api.get(ADVICE), status=404)
    for answer in ("Keep CUBIC.", "Use <b>GR</b>."):
        api.clock.advance(seconds=60)
        assert api.request("PUT", ADVICE, json=report(answer=answer)).status_code == 200
    found = api.get(ADVICE).json()
    assert (found["schema"], found["answer"], found["set_by"]) == ("ccatune-advice/1", ["Use <b>GR</b>."], "admin")
    with api.database.read() as session:
        audited = [row.details for row in session.query(AuditRow).filter_by(action="set-advice")]
    assert ["Keep CUBIC." in text for text in audited] == [True, False]
    page = api.person("viewer").get("/ui/channels/gr/champion").text
    assert "Use &lt;b&gt;GR&lt;/b&gt;." in page
    assert "1 to 4 Mbit/s, 20 to 40 ms: rtcp_cubic" in page


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": "ccatune-advice/2"}, "schema"),
        ({"pooled": None}, "pooled"),
        ({"answer": ["x" * 3000]}, "answer"),
        ({"target_ms": -1}, "target_ms"),
    ],
)
def test_what_is_no_advice_is_refused(api: Api, changed: dict[str, Any], words: str) -> None:
    api.move(0)
    assert words in str(problem_of(api.request("PUT", ADVICE, json={**report(), **changed}), status=422))


def test_it_needs_a_channel_and_the_scope_to_train(api: Api) -> None:
    problem_of(api.request("PUT", ADVICE, json=report()), status=404)
    api.move(0)
    problem_of(api.limited("read").request("PUT", ADVICE, json=report()), status=403)
