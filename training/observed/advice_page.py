# SPDX-License-Identifier: MIT
"""The web page of an advice: one file without scripts and without anything from the network, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kmod.terminal import counted
from training.observed.advice import Advice, StateAdvice
from training.observed.advice_report import CANDIDATES, STATES, by_score, candidate_rows, marks_of, state_rows
from training.observed.advice_svg import both, escape, is_by_loss, over_time, trade_off
from training.observed.advice_text import (
    LIMITS,
    TABLE_NOTES,
    Step,
    answer,
    checks,
    digits,
    label_of,
    milliseconds,
    other_states,
    percent,
    reasons,
    seen_sentences,
    signed,
    steps,
)
from training.observed.flow import Flow

FLOWS = 3
CSS = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #fff; --ink: #1f2428; --faint: #626c76; --grid: #e8eaed;
  --rule: #d9dde2; --accent: #0b6b4b; --tint: #e7f3ed; --today: #b4470f; --blue: #2563a8; --fill: #cfe0f2;
  --beyond: #f6efe9; --code: #f2f3f5;
  --sans: system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --card: #1a1e23; --ink: #e3e6ea; --faint: #9da7b2; --grid: #2a3038; --rule: #353c45;
    --accent: #62d6a0; --tint: #17302a; --today: #f3a06a; --blue: #7db4ee; --fill: #24405e; --beyond: #261f1b;
    --code: #22272e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.2rem 1.25rem 4rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 var(--sans); overflow-wrap: anywhere; }
h1 { font-size: 1rem; font-weight: 600; margin: 0 0 1rem; color: var(--faint); }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .6rem; letter-spacing: -.01em; }
h3 { font-size: 1rem; margin: 1.8rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; }
.answer { background: var(--tint); border-left: 5px solid var(--accent); border-radius: .5rem; padding: 1.3rem 1.5rem; }
.answer.none { background: var(--code); border-color: var(--faint); }
.answer .head { font-size: 1.7rem; line-height: 1.25; font-weight: 680; letter-spacing: -.02em; margin: 0 0 .5rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .9rem; margin: 1.1rem 0 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .9rem 1.1rem;
  margin: 0; }
.tile dt { color: var(--faint); font-size: .88rem; }
.tile dd { margin: .15rem 0 0; }
.tile .big { font-size: 1.45rem; font-weight: 650; font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.tile .old { color: var(--today); font-weight: 500; }
.tile .new { color: var(--accent); }
.quiet, .tile .range { color: var(--faint); font-size: .88rem; }
ul { padding-left: 1.15rem; margin: .5rem 0; max-width: 46rem; }
li { margin: .35rem 0; }
figure { margin: 1.2rem 0; background: var(--card); border: 1px solid var(--rule); border-radius: .5rem;
  padding: 1rem 1rem .8rem; }
figcaption { font-size: .92rem; color: var(--faint); margin-bottom: .8rem; max-width: 46rem; }
figcaption b { color: var(--ink); }
svg { display: block; width: 100%; height: auto; font: 13px var(--sans); }
.narrow { display: none; }
@media (max-width: 40rem) { svg.wide { display: none; } svg.narrow { display: block; }
  span.narrow { display: inline; } body { padding: 1.2rem .9rem; }
  .answer { padding: 1rem 1.1rem; } .answer .head { font-size: 1.35rem; } figure { padding: .8rem .7rem; } }
svg text { fill: var(--ink); }
svg .faint { fill: var(--faint); font-size: 12px; } svg .strong { font-weight: 600; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--faint); }
svg .beyond { fill: var(--beyond); } svg .target { stroke: var(--today); stroke-dasharray: 5 4; stroke-width: 1.5; }
svg .target-text { fill: var(--today); font-size: 12px; }
svg .mark { fill: var(--blue); stroke: var(--card); stroke-width: 1.5; }
svg .mark.today { fill: var(--today); } svg .mark.advised { fill: var(--accent); }
svg .bar { stroke: var(--blue); stroke-width: 2; opacity: .55; }
svg .bar.today { stroke: var(--today); } svg .bar.advised { stroke: var(--accent); }
svg .leader { stroke: var(--faint); stroke-width: .8; }
svg .halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
svg .today-text { fill: var(--today); font-weight: 600; } svg .advised-text { fill: var(--accent); font-weight: 700; }
svg .area { fill: var(--fill); stroke: var(--blue); stroke-width: 1; } svg .lost { fill: var(--today); }
svg .rtt { fill: none; stroke: var(--blue); stroke-width: 1.8; stroke-linejoin: round;
  stroke-linecap: round; }
.scroll { overflow-x: auto; margin: .8rem 0; }
tr .number { display: inline-block; min-width: 1.1rem; color: var(--faint); font-size: .82rem; font-weight: 400; }
.tag { font-size: .74rem; font-weight: 600; border: 1px solid; border-radius: 1rem; padding: .05rem .45rem;
  margin-left: .3rem; opacity: .85; }
table { border-collapse: collapse; font-size: .9rem; min-width: 100%; }
th, td { padding: .42rem .55rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead th { color: var(--faint); font-weight: 600; font-size: .82rem; vertical-align: bottom;
  border-bottom: 1.5px solid var(--ink); }
tbody td, tbody th { border-bottom: 1px solid var(--rule); font-weight: inherit; }
th:first-child, .text { text-align: left; } th:first-child { padding-left: 0; }
tr.advised { background: var(--tint); font-weight: 650; } tr.today td, tr.today th { color: var(--today); }
pre { background: var(--code); border-radius: .4rem; padding: .8rem 1rem; overflow-x: auto; margin: .4rem 0 1rem;
  font: 13.5px/1.5 var(--mono); overflow-wrap: normal; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .6rem; }
@media print { body { max-width: none; padding: 0; } figure, .tile, .answer { break-inside: avoid; } }
"""


def page_text(advice: Advice, flows: Sequence[Flow], *, serial: int, now: datetime) -> str:
    """The page. flows: those that were observed; the largest are shown. now: in UTC."""
    pooled = advice.pooled
    head, *rest = answer(pooled, target_ms=advice.target_ms)
    kind = "answer" if pooled.advised else "answer none"
    parts = [
        "<header><h1>Which congestion control suits this network?</h1>"
        f'<div class="{kind}"><p class="head">{escape(head)}</p>{_paragraphs(rest)}</div>{_tiles(pooled)}</header>'
    ]
    if why := [*reasons(pooled, target_ms=advice.target_ms), *other_states(advice)]:
        parts.append(f"<section><h2>Why</h2>{_list(why)}</section>")
    if pooled.candidates:
        parts.append(_candidates(advice))
    if advice.states:
        note = "A network state is a range of rates together with a range of minimum RTTs."
        parts.append(f"<section><h2>By network state</h2>{_table(note, STATES, state_rows(advice), numbers=(1, 2))}"
                     "</section>")  # fmt: skip
    parts.append(_seen(advice, flows))
    if its := steps(pooled, advice.candidates, advice.links, serial=serial):
        parts.append(f"<section><h2>What to do</h2><p>Run these commands as root.</p>{_steps(its)}</section>")
    if its := checks(pooled):
        parts.append(f"<section><h2>How to check it afterwards</h2>{_steps(its)}</section>")
    parts.append(
        f"<section><h2>What this cannot know</h2>{_list(LIMITS)}</section>"
        f'<footer class="quiet">Made by <code>ccatune advise</code> on {now:%Y-%m-%d at %H:%M} UTC from '
        f"{counted(advice.runs, 'simulated run')}.</footer>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(head)}</title><style>{CSS}</style></head>\n<body><main>\n" + "\n".join(parts)
        + "\n</main></body></html>\n"
    )  # fmt: skip


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _list(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def _tiles(state: StateAdvice) -> str:
    """The three figures of today's and of the advised algorithm."""
    if state.advised is None or state.today is None or state.change is None:
        return ""
    old, new, change = state.today, state.candidates[state.advised.name], state.change
    rows = [
        ("95th percentile of the queueing delay", milliseconds(old.delay_ms.value), milliseconds(new.delay_ms.value),
         f"95 % interval: {milliseconds(new.delay_ms.low)} to {milliseconds(new.delay_ms.high)}"),
        ("Throughput in Mbit/s", digits(old.throughput_mbps.value), digits(new.throughput_mbps.value),
         f"{signed(change.throughput.value)}, 95 % interval: {signed(change.throughput.low)} to "
         f"{signed(change.throughput.high)}"),
        ("Retransmitted packets", percent(old.retransmitted.value), percent(new.retransmitted.value),
         f"95 % interval: {digits(100 * new.retransmitted.low)} to {percent(new.retransmitted.high)}"),
    ]  # fmt: skip
    tiles = "".join(
        f'<dl class="tile"><dt>{name}</dt><dd class="big"><span class="old">{before}</span> '
        f'<span aria-label="to">→</span> <span class="new">{after}</span></dd>'
        f'<dd class="range">{escape(interval)}</dd></dl>'
        for name, before, after, interval in rows
    )
    return f'<div class="tiles">{tiles}</div>'


def _candidates(advice: Advice) -> str:
    by_loss = is_by_loss(advice)
    shaded = "" if by_loss else " Marks in the shaded part miss the target."
    caption = (f"<b>Throughput over {'retransmissions' if by_loss else 'delay'}.</b> Each mark is an algorithm in the "
               f"simulator, over all links that were seen. Coloured horizontal bars are 95 % intervals.{shaded}"
               '<span class="narrow"> Numbers are the rows of the table.</span>')  # fmt: skip
    picture = both("Throughput of each algorithm over its delay or retransmissions. The table below has the same "
                   "figures.", trade_off, advice)  # fmt: skip
    note = (f"All candidates, the best first. The score is the used share of the link, less where the delay exceeds "
            f"{advice.target_ms:g} ms and for retransmissions. {' '.join(TABLE_NOTES)}")  # fmt: skip
    rows = candidate_rows(advice.pooled, advice)
    marks = [marks_of(one, advice.pooled) for one in by_score(advice.pooled, advice)]
    table = _table(note, CANDIDATES[:-1], [row[:-1] for row in rows], numbers=range(1, len(CANDIDATES)), marks=marks)
    return (f"<section><h2>All candidates</h2><figure><figcaption>{caption}</figcaption>{picture}</figure>{table}"
            "</section>")  # fmt: skip


def _seen(advice: Advice, flows: Sequence[Flow]) -> str:
    largest = sorted(flows, key=lambda flow: -int(flow.steps["delivered_bytes"][-1]))[:FLOWS]
    figures = ""
    for flow in [one for one in largest if len(one.steps) > 1]:
        megabytes = int(flow.steps["delivered_bytes"][-1]) / 1e6
        by = f", {label_of(flow.algorithm)}" if flow.algorithm else ""
        figures += (
            f"<figure><figcaption><b>{escape(flow.name)}</b>: {digits(megabytes)} MB in {digits(flow.duration_s)} s"
            f"{escape(by)}. Dots mark times with losses.</figcaption>"
            f"{both(f'Rate and RTT of the flow {flow.name} over time', over_time, flow)}</figure>"
        )
    head = f"<h3>The largest flows over time</h3>{figures}" if figures else ""
    return f"<section><h2>What was seen</h2>{_list(seen_sentences(advice, advice.links))}{head}</section>"


def _steps(its: Sequence[Step]) -> str:
    return "".join(f"<p>{escape(step.why)}</p><pre>{escape_lines(step.commands)}</pre>" for step in its)


def escape_lines(lines: Sequence[str]) -> str:
    """Lines of commands for the page."""
    return "\n".join(escape(one) for one in lines)


def _table(
    note: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int],
    marks: Sequence[Sequence[str]] = (),
) -> str:  # fmt: skip
    """A table. numbers: the columns that stand on the right. marks: of rows, which are then numbered."""

    def look(at: int) -> str:
        return "" if at in numbers else ' class="text"'

    heads = "".join(f'<th scope="col"{look(at)}>{escape(name.replace("-" + chr(10), "").replace(chr(10), " "))}</th>'
                    for at, name in enumerate(headings))  # fmt: skip
    body = ""
    for number, row in enumerate(rows):
        its = marks[number] if marks else ()
        kind = next((f' class="{name}"' for name in ("advised", "today") if name in its), "")
        place = f'<span class="number">{number + 1}</span> ' if marks else ""
        tags = "".join(f' <span class="tag">{escape(one)}</span>' for one in its)
        cells = "".join(f"<td{look(at)}>{escape(cell)}</td>" for at, cell in enumerate(row) if at)
        body += f'<tr{kind}><th scope="row">{place}{escape(row[0])}{tags}</th>{cells}</tr>'
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return (f'<p class="quiet">{escape(note)}</p>'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(note)}">{table}</div>')  # fmt: skip
