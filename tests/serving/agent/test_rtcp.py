# SPDX-License-Identifier: MIT
"""An ensemble of R-TCP, with its two axes, through registry and agent, into the tree that parses with the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.standin import StandInTree
from kmod.ensemble import Axis, DelayClass, Ensemble
from serving.agent.client import parse_offer
from serving.agent.state import PollResult, State
from serving.agent.store import Store
from tests.serving.agent.fakes import applier_of
from tests.serving.api import Api

pytestmark = pytest.mark.service

ENSEMBLE = Ensemble(
    cca="rtcp_cubic",
    epoch_ms=30_000,
    estimate_ms=250,
    epsilon_pct=25,
    classes=(DelayClass(95, 100_000),),
    axes=(Axis("min_rtt_us", "log", 10_000, 5, 1), Axis("limit_bytes_per_s", "log", 31_250, 5, 1)),
    columns=("reduction_permille", "probe_every_rounds", "probe_gain_permille"),
    rows=tuple((600 + 10 * rtt, 20 + limit, 200) for rtt in range(5) for limit in range(5)),
)


def test_what_is_published_is_offered_written_and_read_back(api: Api, tmp_path: Path) -> None:
    published = api.request("POST", "/v1/ensembles", json=ENSEMBLE.to_json())
    assert published.status_code == 201, published.text
    moved = api.request("PUT", "/v1/channels/rtcp_cubic/champion", json={"digest": ENSEMBLE.digest})
    assert moved.status_code in {200, 201}, moved.text
    answer = api.get("/v1/channels/rtcp_cubic/champion")
    _, offered = parse_offer(answer.content, cca="rtcp_cubic", channel="champion")
    tree, store = StandInTree(tmp_path / "tree"), Store(tmp_path / "state")
    with store.acquire():
        applier = applier_of(tree, store, cca="rtcp_cubic")
        applier.start()
        applier.receive(PollResult(State.IN_SYNC, offered))
        assert applier.report().error is None
        assert applier.report().state == State.UNSIGNED
    text = tree.read("rtcp_cubic", "ensemble")
    assert text == offered.text
    assert "axis min_rtt_us log 10000 5 1\naxis limit_bytes_per_s log 31250 5 1\n" in text
    assert text.endswith("end 25\n")
