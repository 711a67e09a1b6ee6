# SPDX-License-Identifier: MIT
"""The runner of long campaigns: a pass is kept for as long as nothing that it rests on has changed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.prove.__main__ import (
    CAMPAIGNS,
    Campaign,
    chosen_of,
    digest_of,
    load_campaigns,
    passed_before,
    run_campaign,
)
from tests.prove.kernel import TESTS

ROOT = CAMPAIGNS.parents[2]


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


def test_a_campaign_is_chosen_by_its_name_or_by_the_first_part_of_it() -> None:
    known = {name: campaign() for name in ("vm.one", "vm.two", "vm-targets", "fuzz")}
    assert list(chosen_of([], known)) == list(known)
    assert list(chosen_of(["vm"], known)) == ["vm.one", "vm.two"]
    assert list(chosen_of(["vm.two", "fuzz"], known)) == ["vm.two", "fuzz"]
    with pytest.raises(click.UsageError, match=r"expected some of vm\.one, vm\.two, vm-targets, fuzz, got vm\.three"):
        chosen_of(["vm.three"], known)


def test_further_arguments_end_the_command(root: Path) -> None:
    echoing = campaign("import sys; print(sys.argv[1:])").model_copy(update={"arguments": ("-k", "not new")})
    assert run_campaign("a", echoing, digest="d", root=root, results=root / "results").last_line == "['-k', 'not new']"
    assert digest_of(echoing, root=root) != digest_of(echoing.model_copy(update={"arguments": ()}), root=root)


def test_no_file_of_the_modules_tests_is_forgotten() -> None:
    campaigns = load_campaigns(CAMPAIGNS)
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "vm").glob("test_*.py")}
    of_kind = {head: {one.arguments[0] for name, one in campaigns.items() if name.startswith(f"{head}.")}
               for head in ("vm", "kernel")}  # fmt: skip
    assert of_kind == {"vm": files - {"tests/vm/test_debug.py"}, "kernel": set(TESTS)}
