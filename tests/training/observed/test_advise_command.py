# SPDX-License-Identifier: MIT
"""`ccatune advise`: its output, its page and its errors, on made flows."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ccatune
from serving.advice.schemas import AdviceReport
from training.observed import sources
from training.observed.flow import STEP, Flow
from training.observed.seen import SeenLink
from training.observed.sources import Observed

HOSTILE = "<script>alert(1)</script>&\x1b[31m"
KEYS = {"answer", "advice", "checks", "flows", "left_out", "pooled", "reason", "remarks", "runs", "schema", "seen",
        "states", "steps", "target_ms", "why"}  # fmt: skip
STATE_KEYS = {"state", "flows", "seconds", "today", "advised", "best", "reason", "required_gain",
              "share_beside_today", "change", "measured", "today_figures", "candidates"}  # fmt: skip


def flow(name: str = HOSTILE) -> Flow:
    steps = np.zeros(50, STEP)
    steps["time_us"] = np.arange(50) * 200_000
    steps["delivered_bytes"] = np.arange(50) * 50_000
    steps["rtt_us"] = np.where(np.arange(50) % 7, 60_000 + np.arange(50) * 1000, 0)
    steps["lost_pkts"] = np.arange(50) // 20
    return Flow(name=name, source="made", kind="observe", steps=steps, algorithm="cubic")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow and its link, in place of files."""
    link = SeenLink("made", 10, 40, rate_mbps=2, buffer_pkts=150, algorithm="cubic")
    monkeypatch.setattr(sources, "read_flows", lambda _paths, **_: Observed([flow()], ("A remark.",)))
    monkeypatch.setattr(sources, "links_of", lambda _flows, **_: [link])


class Page(HTMLParser):
    """The elements of a page, and whatever it would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [f"{name}={value}" for name, value in attrs if name in ("src", "href") or name.startswith("on")]


@pytest.mark.usefixtures("made")
def test_the_json_data_has_stable_keys_and_the_page_is_safe_and_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "advice.html"
    assert ccatune.run(["advise", str(tmp_path), "--json", "--html", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == KEYS
    assert set(document["pooled"]) == STATE_KEYS
    assert document["schema"] == "ccatune-advice/1"
    assert document["advice"]["algorithm"] in ("bbr", "gr")
    assert AdviceReport.model_validate(document).pooled.flows == 1  # the registry takes it
    assert document["pooled"]["candidates"]["cubic"]["delay_ms"].keys() == {"value", "low", "high"}
    text = page.read_text()
    found = Page(text)
    assert "script" not in found.tags
    assert not found.fetched
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text
    assert found.tags.count("svg") == 4  # two pictures, each wide and narrow
    assert found.tags.count("table") == 1


@pytest.mark.usefixtures("made")
def test_the_text_begins_with_the_answer_and_ends_with_what_it_cannot_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run(["advise", ".", "--current", "bbr", "--target-ms", "400"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("No advice to change: keep BBRv1.")
    assert "What this cannot know" in out
    assert "A remark." in err


def test_no_advice_for_lack_of_data_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sources, "read_flows", lambda _paths, **_: Observed([flow()], ()))
    monkeypatch.setattr(sources, "links_of", lambda _flows, **_: [])
    page = tmp_path / "advice.html"
    assert ccatune.run(["advise", ".", "--html", str(page)]) == 0
    assert capsys.readouterr().out.startswith("No advice: the flows showed their links for 0 s in all")
    assert "No advice" in page.read_text()


@pytest.mark.parametrize(("arguments", "expected"), [
    (["missing.pcap"], "missing.pcap: expected a capture, a log or a folder of them, got no such file"),
    ([".", "--target-ms", "1"], "--target-ms"),
    ([".", "--current", "warp"], "--current"),
    ([".", "--html", "no/such/folder/a.html"], "no/such/folder/a.html"),
    ([".", "--html", "a.html", "--segments"], "--html: expected without --segments"),
    (["/dev/null"], "/dev/null: expected a file, got a device"),
    ([], "Missing argument"),
])  # fmt: skip
def test_unusable_input_exits_2_and_names_what_was_expected(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ccatune.run(["advise", *arguments]) == 2
    assert expected in capsys.readouterr().err
