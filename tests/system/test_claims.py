# SPDX-License-Identifier: MIT
"""The page of claims: what commands printed, and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from tests.prove.__main__ import CAMPAIGNS, chosen_of, load_campaigns
from tests.prove.claims import (
    CLAIMS,
    PAGE,
    Claim,
    figure_of,
    load_claims,
    page_of,
    put_block,
    save_claims,
    show,
)

ROOT = CLAIMS.parents[2]


def test_page_is_what_the_claims_say(tmp_path: Path) -> None:
    claims = load_claims(CLAIMS)
    assert PAGE.read_text(encoding="utf-8") == page_of(claims)
    save_claims(tmp_path / "claims.yaml", claims)
    assert load_claims(tmp_path / "claims.yaml") == claims


@pytest.mark.parametrize("name", [n for n, claim in load_claims(CLAIMS).items() if claim.block])
def test_every_document_named_has_a_place_for_its_output(name: str, tmp_path: Path) -> None:
    document = load_claims(CLAIMS)[name].block
    assert document is not None
    copy = tmp_path / "copy.md"
    copy.write_text((ROOT / document).read_text(encoding="utf-8"), encoding="utf-8")
    put_block(copy, name, "3 rows\n")
    assert f"<!-- output of {name} -->\n```\n3 rows\n```\n<!-- end of output -->" in copy.read_text(encoding="utf-8")


@pytest.mark.parametrize("claim", [c for c in load_claims(CLAIMS).values() if c.command.startswith("make prove ")])
def test_every_campaign_or_part_named_is_there(claim: Claim) -> None:
    words = shlex.split(claim.command)[-1]
    chosen_of(words.removeprefix("ARGS=").split(), load_campaigns(CAMPAIGNS))


def test_document_without_a_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(click.ClickException, match="expected the marks of claim 1a"):
        put_block(tmp_path / "page.md", "1a", "x")


def test_figure_is_the_last_line_or_the_lines_that_are_picked() -> None:
    output = "one   1\ntwo 2\n\nlast  line\n\n"
    assert figure_of(output, None) == "last line"
    assert figure_of(output, "^(one|two)") == "one 1; two 2"
    assert figure_of(output, "three") == "(no output)"


def test_a_command_past_its_time_is_ended_with_what_it_began(tmp_path: Path) -> None:
    command = f"""bash -c 'echo begun; (sleep 60; touch {tmp_path}/late) & sleep 60'"""
    shown, output = show(Claim(claim="a claim", command=command), root=tmp_path, most_s=0.5)
    assert not shown.holds
    assert output.split("\n") == ["begun", "", "not over after 0.5 s", ""]
    assert shown.seconds < 30


@pytest.mark.parametrize(("code", "holds"), [("print('found 3')", True), ("print('found 3'); exit(1)", False)])
def test_claim_holds_where_its_command_exits_0(tmp_path: Path, code: str, holds: bool) -> None:
    claim = Claim(claim="c | d", command=f'python -c "{code}"')
    shown, output = show(claim, root=tmp_path)
    assert (shown.holds, shown.figure, output) == (holds, "found 3", "found 3\n")
    outcome = "holds" if holds else "**falls short**"
    assert f"| c \\| d | `{claim.command}` | {outcome}: found 3 |" in page_of(
        {"1": claim.model_copy(update={"shown": shown})}
    )


def test_page_says_by_which_command_where_the_claim_has_another_now(tmp_path: Path) -> None:
    shown, _output = show(Claim(claim="c", command="echo 3"), root=tmp_path)
    page = page_of({"1": Claim(claim="c", command="echo 4", shown=shown)})
    assert "| c | `echo 4` | holds (by `echo 3`): 3 |" in page
