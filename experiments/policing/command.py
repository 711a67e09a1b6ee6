# SPDX-License-Identifier: MIT
"""`python -m experiments policing`: compares statements of R-TCP 2026 on files behind a policer with the simulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kmod.terminal import echo
from training.options import as_json_option, enforce_option, plot_option, threads_option

__all__ = ["policing"]

NOTES = (
    "* unvalidated: no kernel here has BBRv3",
    "BBRv2, of which section 3.1 says what 3.1-4 and 3.1-6 say of BBRv3, is not in the simulator",
)
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "reports" / "policing.yaml"


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, help="[configs/reports/policing.yaml]")
@click.option("--seeds", type=click.IntRange(5, 10_000), help="Runs of each case  [the config's]")
@click.option("--policer", type=click.Choice(["before", "behind"]), help="Of the access link  [the config's]")
@threads_option
@plot_option
@click.option("--markdown", is_flag=True, help="Print the table of docs/policing.md instead of the statements.")
@enforce_option
@as_json_option
def policing(
    *, config: Path, seeds: int | None, policer: str | None, threads: int | None, plot: Path | None, markdown: bool,
    enforce: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare the R-TCP paper's statements on policed files with the simulator, at each access rate.

    A figure is a mean over the seeds with its 95 % interval. ! marks a figure that differs from the statement. BBRv3 is
    unvalidated, because no kernel here has it. docs/policing.md gives the differences and their reasons.

    \b
    Example:
      python -m experiments policing --plot policing.png
    """
    from experiments.figures import statement_lines
    from experiments.policing import judge, load_settings, rates_table, run_campaign
    from experiments.policing.campaign import cases_of, moment_keys
    from training.progress import Terminal

    given = {name: value for name, value in {"seeds": seeds, "policer": policer}.items() if value is not None}
    settings = load_settings(config).model_copy(update=given)
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
    with Terminal(quiet=as_json) as terminal:
        terminal.phase("running files", total=settings.seeds * (len(cases_of(settings)) + len(moment_keys(settings))))
        results = run_campaign(settings, threads=threads, advance=terminal.advance)
    rows = judge(results)
    if plot is not None:
        from experiments.policing.plot import draw

        draw(results, path=plot)
    differing = sum(not row["agrees"] for row in rows)
    incomplete = sum(files.incomplete for files in results.files.values())
    if as_json:
        echo(json.dumps({"settings": settings.model_dump(mode="json"), "rows": rows, "rows_differing": differing,
                               "incomplete": incomplete}, indent=1))  # fmt: skip
    elif markdown:
        echo("\n".join(rates_table(results)))
    else:
        lines = statement_lines(access_named(rows), at="access")
        echo("\n".join([*lines, *NOTES, f"agree in {len(rows) - differing} of {len(rows)}; {settings.seeds} "
                              f"seeds; files that did not complete: {incomplete}"]))  # fmt: skip
    if enforce and differing:
        sys.exit(1)


def access_named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with its access rate as text in the entry `access`."""
    return [{**row, "access": f"{row['access_mbps']:g} Mbit/s"} for row in rows]
