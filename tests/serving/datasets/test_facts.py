# SPDX-License-Identifier: MIT
"""What a runner says of its recordings"""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from serving.client_requests import RegistryRequests
from serving.datasets.facts import describe, facts_of
from serving.datasets.schemas import DatasetFacts
from serving.errors import RegistryClientError


@pytest.fixture
def recordings(tmp_path):
    """A link of 12 Mbit/s for 30 s, and one of 12 and 24 Mbit/s by turns of 2,048 ms for 30 s."""
    even = list(range(1, 30_001))
    steps = [at for at in even for _ in range(1 + at // 2048 % 2)]
    for name, times in (("even", even), ("steps", steps)):
        (tmp_path / f"{name}.down").write_text("".join(f"{at}\n" for at in times), encoding="ascii")
    return tmp_path


def test_the_figures_of_recordings_are_those_of_their_seconds(recordings):
    facts = DatasetFacts.model_validate(facts_of(recordings))
    assert (facts.recordings, facts.hours) == (2, pytest.approx(60 / 3600, abs=1e-6))
    assert facts.mean_mbps == pytest.approx(15.0, rel=0.02)
    assert (facts.p5_mbps, facts.p95_mbps) == (pytest.approx(12.0, rel=0.01), pytest.approx(24.0, rel=0.01))
    assert len(facts.rates_mbps) == 60
    by_scale = {one.scale_ms: one.deviation for one in facts.variation}
    # The windows of a pair differ by 12 of 18 Mbit/s on one link, and not at all on the other, which is as long.
    assert by_scale[2048] == pytest.approx((0.5 * (12 / 18) ** 2 / 2) ** 0.5, rel=0.01)
    assert by_scale[8] < 0.1


def test_equal_recordings_have_an_equal_content_whatever_their_names(recordings):
    known = facts_of(recordings)["content"]
    (recordings / "even.down").rename(recordings / "renamed.down")
    assert facts_of(recordings)["content"] == known
    (recordings / "renamed.down").unlink()
    assert facts_of(recordings)["content"] != known


def test_a_dataset_that_cannot_be_described_holds_up_no_other_one(recordings, tmp_path):
    sent: list[str] = []
    said: list[str] = []

    class Client:
        """Refuses one name, as a registry of an earlier version refuses all."""

        def send(self, method: str, path: str, *, body: Any) -> None:
            if path.endswith("refused"):
                raise RegistryClientError("not found")
            sent.append(f"{method} {path} {body['runner']} {body['recordings']}")

    paths = {"missing": tmp_path / "none", "refused": recordings, "good": recordings}
    client = cast("RegistryRequests", Client())
    describe(client, paths, runner="trainer-1", stop=threading.Event(), once=True, say=said.append)
    assert sent == ["PUT /v1/datasets/good trainer-1 2"]
    assert [line.split(":")[0] for line in said] == ["dataset missing", "dataset refused"]
