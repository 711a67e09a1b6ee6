# SPDX-License-Identifier: MIT
"""`ccatune report surrogate`: the rows of states that never ran, beside those that trained."""

from __future__ import annotations

import click

from training.reports.judged import Judged, finish, of_ensemble, requirement_lines

__all__ = ["surrogate"]


@click.command()
@of_ensemble
@click.option("--axis", help="The axis whose levels are left out  [the first one]")
@click.option("--level", "levels", multiple=True, type=click.IntRange(0), help="Leave it out  [each third level]")
@click.option("--least", type=click.IntRange(2), default=5, show_default=True, help="Cases of a state that counts")
@click.option("--most", type=click.IntRange(2), default=30, show_default=True, help="Cases of a state at most")
def surrogate(*, judged: Judged, axis: str | None, levels: tuple[int, ...], least: int, most: int) -> None:
    """Leave levels out of the model of a study with `kind: surrogate`, and judge the rows that it gives them.

    \b
    Example:
      ccatune report surrogate gr.json
      ccatune report surrogate roccet.json --axis min_rtt --level 1
    """
    from emulation.run.simulator import default_threads
    from training.commands import recordings_of
    from training.reports.surrogate import SCHEMES, first_rows, judge, left_out_of, summary
    from training.study import Study, require_recordings

    with judged.read(with_targets=False) as (ensemble, settings, recordings, terminal):
        training = recordings
        if settings.workload.needs_recordings:
            training = require_recordings(recordings_of(judged.paths, part="train"), settings)
        study = Study(settings, training, unseen=recordings, threads=judged.threads or default_threads(),
                      progress=terminal)  # fmt: skip
        left_out = left_out_of(study, axis=axis, levels=levels)
        terminal.phase("learning", total=1)
        rows = first_rows(study, ensemble, left_out)
        terminal.phase("judging", total=1)
        found = summary(judge(study, ensemble, rows, least=least, most=most))
    lines = requirement_lines(found, SCHEMES)
    for one in found:
        for name in SCHEMES[1:3]:
            loss = one[f"loses_to_{name}"]
            interval = "" if loss["interval"] is None else f" ± {loss['interval']:.4f}"
            lines.append(f"class {one['class']}: first rows cost {loss['cost']:+.4f}{interval} beside the {name} ones")
    finish(found, lines, line="first rows meet their requirement in as many states as the nearest trained state's rows",
           as_json=judged.as_json)  # fmt: skip
