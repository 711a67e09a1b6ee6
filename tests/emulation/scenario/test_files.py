# SPDX-License-Identifier: MIT
"""YAML as it is read: by the rules of YAML 1.2, with the place of an error, and in bounded time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.errors import EmulationError
from emulation.scenario.files import load_scenario, read_document

LINK = "link: {rate_mbps: 4}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.yaml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 3000, "line 1, column 101: .*more than 100 nested collections"),
        (f"seed: {'9' * 5000}", "line 1, column 7: .*too long a number"),
        ("name: !!bool x", "line 1, column 7: .*another value than bool"),
        ("seed: !!int 1:30", "line 1, column 7: .*another value than int"),
        ("name: !!timestamp 2020-01-01", "line 1, column 7: .*timestamp"),
        ("name: a\nname: b", "line 2, column 1: .*found name twice"),
        ("link: {flows: [{cca: gr, 'cca': gr}]}", "line 1, column 26: .*found cca twice"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", "line 1, column 17: .*found << twice"),
        ("link: {codel: &a {x: *a}}", "line 1, column 22: .*a collection that contains itself"),
        ("a: \x00", ": .*unacceptable character"),
        (r'a: "\UFFFFFFFF"', ": .*got other text"),
    ],
)
def test_what_is_no_yaml_of_ours_is_refused_in_one_line(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(EmulationError, match=words) as caught:
        read_document(file)
    assert str(caught.value).startswith(str(file))
    assert ": expected a scenario as YAML, got other text (" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scalars_follow_the_core_schema_of_yaml_1_2(file: Path) -> None:
    file.write_text("[0100, 0o17, 0x1f, -08, 1e6, .5, .inf, ~, true, False, '7', 1:30, no, 2020-13-45, 1_000]")
    file.write_text(f"a: {file.read_text()}")
    numbers = [100, 15, 31, -8, 1e6, 0.5, float("inf"), None, True, False]
    assert read_document(file)["a"] == [*numbers, "7", "1:30", "no", "2020-13-45", "1_000"]


@pytest.mark.parametrize("level", ["l{n}: &l{n} [{above}]", "l{n}: &l{n} {{<<: [{above}]}}"])
def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(file: Path, level: str) -> None:
    # 64 levels, each of which contains the level above it nine times: 9^64 values.
    levels = [level.format(n=n, above=", ".join([f"*l{n - 1}"] * 9)) for n in range(1, 65)]
    file.write_text("\n".join(["l0: &l0 {a: 1}", *levels]))
    with pytest.raises(EmulationError, match=r"line \d+, column \d+: .*aliases that repeat more than 100000 values"):
        read_document(file)


@pytest.mark.parametrize("field", ["seed: [{}]", "link: [{}]", "flows: [[{}]]", "duration_s: '{}'", "seed: [[[{}]]]"])
def test_a_long_value_is_cut_in_a_message(file: Path, field: str) -> None:
    file.write_text(("" if "link" in field else LINK) + field.format(", ".join(["0"] * 10_000)))
    with pytest.raises(EmulationError, match=r"expected .* got .*\.\.\.") as caught:
        load_scenario(file)
    assert len(str(caught.value)) < len(str(file)) + 250


def test_a_key_of_its_own_stands_over_a_merged_one(file: Path) -> None:
    file.write_text("a: {deep: &base {x: 1, y: 2}, b: &more {<<: *base, x: 3}}\nc: {<<: *more, y: 4}\nd: *more\n")
    found = read_document(file)
    assert found["a"]["b"] == found["d"] == {"x": 3, "y": 2}
    assert found["c"] == {"x": 3, "y": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("link: {rate_mbps: yes}", r"link\.rate_mbps: expected a valid number, got 'yes'"),
        (LINK + "duration_s: 1:30", r"duration_s: expected a valid number, got '1:30'"),
        ("link: {trace: a.down, recording: 0100}", r"link\.recording: expected a text, got 100; put it into quotes"),
        ("link: {rate_mbps: '20'}", r"link\.rate_mbps: expected a valid number, got '20'"),
        (f"link: {{rate_mbps: 1{'0' * 400}}}", r"link\.rate_mbps: expected a valid number, got 10+"),
        ("link: {rate_mbps: 4, buffer_pkts: true}", r"link\.buffer_pkts: expected a valid integer, got True"),
        (
            "link: {rate_mbps: 4, behind: [{kind: loss, share: on}]}",
            r"behind\.0\.loss\.share: expected a valid number, got 'on'",
        ),
        ("link: {made: {model: m.json, duration_s: yes}}", r"made: duration_s: expected a valid number, got 'yes'"),
        ("link: {made: {duration_s: 3}}", r"made: expected one of model and poisson_mbps"),
        ("link: {made: {poisson_mbps: 0, duration_s: 3}}", r"made: poisson_mbps: expected greater than 0, got 0"),
        ("link: {rate_mbps: 4, behind: [{kind: [a]}]}", r"behind\.0\.kind: expected one of access, .*, got \['a'\]"),
        ("link: {rate_mbps: 4, start_ms: 5}", r"link\.start_ms: expected a trace beside it, got none"),
        (LINK + "seed: true", r"seed: expected a valid integer, got True"),
        (LINK + "flows: [{params: [1]}]", r"flows\.0\.params: expected a mapping, got \[1\]"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(EmulationError, match=message) as caught:
        load_scenario(file)
    assert "\n" not in str(caught.value)


def test_numbers_with_an_exponent_are_numbers(file: Path) -> None:
    file.write_text("link: {rate_mbps: 1e1, loss: 1e-3, rtt_ms: 2.5E+1}\nduration_s: 3\nname: e1\n")
    scenario = load_scenario(file)
    assert (scenario.link.rate_mbps, scenario.link.loss, scenario.link.rtt_ms) == (10.0, 0.001, 25.0)
    assert scenario.name == "e1"


def test_a_poisson_link_is_made_without_a_model(file: Path) -> None:
    file.write_text("link: {made: {poisson_mbps: 3, duration_s: 100, seed: 2}}\n")
    scenario = load_scenario(file)
    assert scenario.link.trace is not None
    assert scenario.link.trace.duration_s == 100
    assert scenario.link.trace.mean_rate_mbps == pytest.approx(3, rel=0.03)


def test_lists_in_lists_are_read(file: Path) -> None:
    video = "{bitrates_kbps: [300, 700], chunks: 2, sizes_bytes: [[9000, 20000], [8000, 19000]]}"
    file.write_text(f"link: {{steps: [{{at_s: 0, rate_mbps: 4}}]}}\nflows: [{{cca: cubic, video: {video}}}]\n")
    video_of = load_scenario(file).flows[0].video
    assert video_of is not None
    assert video_of.sizes_bytes == ((9000, 20_000), (8000, 19_000))
