# SPDX-License-Identifier: MIT
"""The command of a campaign: its options, and its results as text, Markdown, JSON or a picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from emulation.run.plot import check_path, save
from experiments.campaign import Campaign, Part, Results, Store, judge, settings_text, summary_of
from experiments.figures import statement_lines
from kmod.terminal import counted, echo
from training.options import as_json_option, enforce_option, plot_option, threads_option
from training.progress import Terminal

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "reports"


def command_of(campaign: Campaign[Any]) -> click.Command:
    """Make the command of a campaign."""
    names = [part.name for part in campaign.parts]

    def run(
        *, config: Path, work: Path, threads: int | None, markdown: bool, enforce: bool, as_json: bool,
        parts: tuple[str, ...] = (), paths: tuple[Path, ...] = (), plot: Path | None = None, **changes: object,
    ) -> None:  # fmt: skip
        chosen = campaign.chosen(parts)
        _check(campaign, chosen, plot=plot, markdown=markdown)
        given = {name: value for name, value in changes.items() if value is not None}
        settings = campaign.load(config).model_copy(update=given)
        results = run_parts(campaign, chosen, settings, paths=paths, work=work, threads=threads, quiet=as_json)
        rows = judge(campaign, chosen, results)
        if plot is not None and campaign.draw is not None:
            save(campaign.draw(results), path=plot)
        echo(_text(campaign, chosen, results, rows, markdown=markdown, as_json=as_json))
        if enforce and not all(row["agrees"] for row in rows):
            sys.exit(1)

    default = CONFIGS / f"{campaign.name}.yaml"
    options = [
        click.option("--config", type=click.Path(path_type=Path), default=default,
                     help=f"[configs/reports/{default.name}]"),
        *campaign.options,
        click.option("--work", type=click.Path(path_type=Path), default=Path(f"report-{campaign.name}.parts"),
                     show_default=True, help="Finished cases are kept here, and not run again"),
        threads_option,
        click.option("--markdown", is_flag=True, help="Print the tables of the documents instead of the statements."),
        enforce_option,
        as_json_option,
    ]  # fmt: skip
    if len(names) > 1:
        only = click.option(
            "--only", "parts", multiple=True, type=click.Choice(names), help="This part; repeatable  [all]"
        )
        options.insert(1, only)
    if any(part.needs_links for part in campaign.parts):
        options.append(click.option("--traces", "paths", multiple=True, type=click.Path(path_type=Path),
                                    help="Recorded links: files, folders, archives"))  # fmt: skip
    if campaign.draw is not None:
        options.append(plot_option)
    for option in reversed(options):
        run = option(run)
    return click.command(campaign.name, help=campaign.help)(run)


def _check(campaign: Campaign[Any], chosen: Sequence[Part[Any]], *, plot: Path | None, markdown: bool) -> None:
    """Refuse a picture or tables of parts that have none.

    Raises:
        click.UsageError: none of the chosen parts is drawn, or has a table.
        EmulationError: the picture's name has another extension.
    """
    if plot is not None:
        check_path(plot)
        if not {part.name for part in chosen} & set(campaign.drawn):
            raise click.UsageError(f"--plot: expected a part that is drawn ({', '.join(campaign.drawn)})")
    if markdown and not any(part.table for part in chosen):
        tabled = ", ".join(part.name for part in campaign.parts if part.table)
        raise click.UsageError(f"--markdown: expected a part that has a table ({tabled})")


def run_parts(
    campaign: Campaign[Any], chosen: Sequence[Part[Any]], settings: Any, *, paths: Sequence[Path] = (),
    work: Path | None = None, threads: int | None = None, quiet: bool = True,
) -> Results[Any]:  # fmt: skip
    """Run these parts, and show the progress unless `quiet`."""
    results = Results(settings, {})
    store = Store(work, settings_text(settings), threads)
    with Terminal(quiet=quiet) as terminal:
        if any(part.needs_links for part in chosen):
            terminal.phase("reading traces", total=1)
            results = Results(settings, {}, campaign.links(settings, paths))
        for part in chosen:
            cases = list(part.cases(settings, results.links))
            terminal.phase(part.name, total=len(cases))
            results.cases.update(store.run(cases, advance=terminal.advance))
    return results


def _text(
    campaign: Campaign[Any], chosen: Sequence[Part[Any]], results: Results[Any], rows: Sequence[dict[str, Any]],
    *, markdown: bool, as_json: bool,
) -> str:  # fmt: skip
    agreeing = sum(row["agrees"] for row in rows)
    if as_json:
        settings = results.settings.model_dump(mode="json")
        figures = {"settings": settings, "made_links": results.links.made, "cases": summary_of(results), "rows": rows,
                   "rows_differing": len(rows) - agreeing}  # fmt: skip
        return json.dumps(figures, indent=1)
    if markdown:
        return "\n".join([line for part in chosen if part.table for line in ["", *part.table(results)]][1:])
    titles = {part.name: part.title for part in chosen}
    lines = []
    for name, its in groupby(rows, key=lambda row: str(row["part"])):
        found = statement_lines(list(its))
        lines += [titles[name], *found, ""] if titles[name] else found
    for part in chosen:
        if part.table and not part.statements:
            lines += [part.title, *part.table(results), ""]
    agree = f"{agreeing} of {counted(len(rows), 'row')} agree; " if rows else ""
    return "\n".join([*lines, *campaign.notes, agree + campaign.describe(results)])
