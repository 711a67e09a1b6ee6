# SPDX-License-Identifier: MIT
"""Options that several commands have, each with its words."""

from __future__ import annotations

from pathlib import Path

import click

traces_option = click.option(
    "--traces", "paths", multiple=True, type=click.Path(path_type=Path), help="Files, folders, archives"
)
skip_bad_option = click.option("--skip-bad", is_flag=True, help="Leave bad trace files out, and say how many")
threads_option = click.option(
    "--threads", type=click.IntRange(1), help="Use at most so many processors  [default: all]"
)
plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw into this .png, .svg, .pdf"
)
progress_file_option = click.option(
    "--progress-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Keep a JSON file up to date with phase, done share, remaining time and best points",
)  # fmt: skip
enforce_option = click.option("--enforce", is_flag=True, help="Exit 1 where a statement differs")
as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the figures as JSON, without progress bars"
)
