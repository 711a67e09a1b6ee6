# SPDX-License-Identifier: MIT
"""The runner of long campaigns: a pass is kept for as long as nothing that it rests on has changed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.prove.__main__ import (
    CAMPAIGNS,
    Campaign,
    Part,
    Result,
    chosen_of,
    digest_of,
    load_campaigns,
    parts_of,
    passed_before,
    run_campaign,
    whole_of,
)
from tests.prove.kernel import TESTS

ROOT = CAMPAIGNS.parents[2]


A, B = Part(claim="one"), Part(claim="two", depends=("b/*",))


def campaign(code: str = "print('found 0')") -> Campaign:
    return Campaign(claim="a claim", command=("python", "-c", code), depends=("core/*.h",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.h").write_text("int a;\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", load_campaigns(CAMPAIGNS))
def test_every_campaign_depends_on_files_that_exist(name: str) -> None:
    assert len(digest_of(load_campaigns(CAMPAIGNS)[name], root=ROOT)) == 64


def test_pass_is_kept_until_a_file_changes(root: Path) -> None:
    digest = digest_of(campaign(), root=root)
    result = run_campaign("sample", campaign(), digest=digest, root=root, results=root / "results")
    assert (result.passed, result.last_line) == (True, "found 0")
    assert passed_before("sample", digest=digest, results=root / "results") == result
    (root / "core" / "a.h").write_text("int b;\n", encoding="utf-8")
    changed = digest_of(campaign(), root=root)
    assert passed_before("sample", digest=changed, results=root / "results") is None


def test_failure_is_recorded_and_run_again(root: Path) -> None:
    failing = campaign("import sys; print('found 3'); sys.exit(1)")
    result = run_campaign("sample", failing, digest="d", root=root, results=root / "results")
    assert (result.passed, result.last_line) == (False, "found 3")
    assert passed_before("sample", digest="d", results=root / "results") is None


def test_command_is_part_of_the_digest(root: Path) -> None:
    assert digest_of(campaign("pass"), root=root) != digest_of(campaign("1"), root=root)


def test_a_claim_may_be_worded_anew(root: Path) -> None:
    assert digest_of(campaign(), root=root) == digest_of(campaign().model_copy(update={"claim": "a"}), root=root)


def test_dependency_that_matches_no_file_is_refused(root: Path) -> None:
    lost = Campaign(claim="a claim", command=("true",), depends=("moved/*.h",))
    with pytest.raises(click.ClickException, match="moved"):
        digest_of(lost, root=root)


def test_parts_are_told_by_name_and_end_the_command() -> None:
    parts = parts_of("all", campaign().model_copy(update={"parts": {"tests/a.py": A, "tests/b.py": B}}))
    assert {name: part.command[-1] for name, part in parts.items()} == {"all.a": "tests/a.py", "all.b": "tests/b.py"}
    assert not any(part.parts for part in parts.values())
    assert [part.claim for part in parts.values()] == ["one", "two"]
    assert [part.depends for part in parts.values()] == [("core/*.h", "tests/a.py"), ("core/*.h", "b/*", "tests/b.py")]
    assert parts_of("all", campaign()) == {"all": campaign()}


def test_a_part_with_options_has_them_in_its_name_and_rests_on_its_file() -> None:
    whole = campaign().model_copy(update={"parts": {"tests/a.py -k new": A, 'tests/a.py -k "not new"': A}})
    parts = parts_of("all", whole)
    assert list(parts) == ["all.a-new", "all.a-not-new"]
    assert parts["all.a-not-new"].command[-3:] == ("tests/a.py", "-k", "not new")
    assert {part.depends[-1] for part in parts.values()} == {"tests/a.py"}


def test_a_part_is_chosen_by_its_name_and_a_campaign_with_all_of_its_parts() -> None:
    whole = campaign().model_copy(update={"parts": {"tests/a.py": A, "tests/b.py": B}})
    known = {"all": whole, "short": campaign()}
    assert {name: list(chosen) for name, chosen in chosen_of([], known).items()} == {
        "all": ["all.a", "all.b"], "short": ["short"],
    }  # fmt: skip
    assert chosen_of(["all.b", "short"], known) == {
        "all.b": {"all.b": parts_of("all", whole)["all.b"]}, "short": {"short": campaign()},
    }  # fmt: skip
    with pytest.raises(click.UsageError, match=r"expected some of all, short, all\.a, all\.b, got all\.c"):
        chosen_of(["all.c"], known)


def result(*, passed: bool = True, words: str = "=== 3 passed ===") -> Result:
    return Result(digest="d", passed=passed, duration_s=1.5, last_line=words)


def test_a_whole_passes_where_all_of_its_parts_do() -> None:
    whole = whole_of({"all.a": result(), "all.b": result(words="ended")})
    assert whole is not None
    assert (whole.passed, whole.duration_s, whole.last_line) == (True, 3.0, "all.a: 3 passed; all.b: ended")
    failed = whole_of({"all.a": result(), "all.b": result(passed=False), "all.c": None})
    assert failed is not None
    assert not failed.passed
    assert whole_of({"all.a": result(), "all.b": None}) is None
    assert whole_of({"all": None}) is None
    assert whole_of({"all": result()}) == result()


def test_no_file_of_the_modules_tests_is_forgotten() -> None:
    campaigns = load_campaigns(CAMPAIGNS)
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "vm").glob("test_*.py")}
    assert {part.split()[0] for part in campaigns["vm"].parts} == files - {"tests/vm/test_debug.py"}
    assert set(campaigns["kernel"].parts) == set(TESTS)
