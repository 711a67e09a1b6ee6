# SPDX-License-Identifier: MIT
"""`ccatune simulate`: runs one scenario in the simulator, prints its figures, and draws it if required."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import click

from emulation.errors import EmulationError
from emulation.options import FiniteRange
from emulation.run.qos import FlowQoS, QoS
from emulation.run.simulator import simulate as run_scenario
from emulation.scenario.files import build_scenario, read_document
from emulation.scenario.model import FlowSpec, Scenario, Transfer
from emulation.scenario.video import VideoFlowQoS, VideoQoS
from emulation.traces._sources import ARCHIVE_SUFFIX, TRACE_SUFFIXES
from kmod.tables import Column, print_table
from kmod.terminal import echo

FLOW_COLUMNS = (
    Column("flow", least=12, cut="end"),
    *(Column(heading, "right") for heading in (
        "Mbit/s", "goodput", "RTT ms\np50", "\np95", "\np99", "retrans.", "RTOs", "epochs"
    )),
)  # fmt: skip
ELEMENT_COLUMNS = (
    Column("element", least=12),
    *(Column(heading, "right") for heading in (
        "entered", "dropped", "share", "inside", "held, ms\np50", "\np95", "\np99"
    )),
)  # fmt: skip

Document = dict[str, Any]

SERIES_POINTS = 900
SERIES_LEAST_S = 0.02
MOST_SHARES = 4
# The fields of which a link has exactly one. An option for one of them replaces the one in the file.
RATES = frozenset({"trace", "rate_mbps", "steps", "made"})
OF_A_TRACE = frozenset({"recording", "start_ms"})
_BUFFER = re.compile(r"(\d{1,18})(pkts|bytes)")
_PARAM = re.compile(r"([a-z][a-z0-9_]*)=(\d{1,18})")


@click.command()
@click.argument("file", required=False, metavar="[SCENARIO.yaml]", type=click.Path(path_type=Path))
@click.option(
    "--traces",
    "trace",
    type=click.Path(path_type=Path),
    help=f"Link's recorded trace ({', '.join([*TRACE_SUFFIXES, ARCHIVE_SUFFIX])}), or a folder with it.",
)
@click.option("--recording", help="Part of its name, where --traces holds several recordings.")
@click.option("--rate-mbps", type=float, help="Link of this constant rate, instead of a trace.")
@click.option("--start-s", type=FiniteRange(min=0), help="Where in the trace the run begins.")
@click.option("--rtt-ms", type=float, help="Propagation delay, both ways together.  [default: 100]")
@click.option("--buffer", "buffer_size", help="Most in the queue, as 1000pkts or 1500000bytes.  [default: 1000pkts]")
@click.option("--loss", type=float, help="Share of packets lost at random, 0 to 1.  [default: 0]")
@click.option("--cca", help="Of the flows: gr, sira, reno, cubic, roccet, vegas, bbr, bbr3, rtcp_...  [default: gr]")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter of the flows; repeatable.")
@click.option("--ensemble", type=click.Path(path_type=Path), help="Ensemble file that the flows follow.")
@click.option("--delay-class", help="Its target, such as 100ms.  [default: its first]")
@click.option("--flows", "n_flows", type=click.IntRange(1, 1000), help="That many flows, all as the first.")
@click.option("--duration", "duration_s", type=float, help="Seconds simulated.  [default: 30]")
@click.option("--warmup", "warmup_s", type=float, help="Seconds at the start that do not count.  [default: 0]")
@click.option("--seed", type=int, help="Of everything random.  [default: 0]")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the run into this .png, .svg, .pdf."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate(*, file: Path | None, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Run one scenario in the simulator. It comes from a file, from options, or from a file with options that replace
    its fields.

    \b
    Example:
      ccatune simulate --rate-mbps 20 --rtt-ms 100 --duration 30 --plot gr.png
      ccatune simulate --traces 4g.down --param delay_threshold_us=20000 --json
      ccatune simulate configs/scenarios/two-flows.yaml --ensemble gr.json --delay-class 100ms
    """
    if plot is not None:
        # Importing matplotlib takes longer than most runs, so it is imported only for pictures.
        from emulation.run.plot import check_path

        check_path(plot)
    document = {} if file is None else read_document(file)
    source = "options" if file is None else str(file)
    lay_over(document, options, source=source)
    scenario = build_scenario(document, source=source, folder=Path() if file is None else file.parent)
    every_s = None if plot is None and scenario.proxy is None else series_every_s(scenario)
    qos = run_scenario(scenario, series_every_s=every_s)
    if plot is not None:
        from emulation.run.plot import draw_run

        draw_run(scenario, qos, path=plot)
    if as_json:
        echo(json.dumps({**qos.summary(), **({"plot": str(plot)} if plot is not None else {})}))
        return
    print_figures(scenario, qos)
    if plot is not None:
        echo(f"picture: {plot}")


def series_every_s(scenario: Scenario) -> float:
    """Return the time between the points of a picture, in s."""
    return max(scenario.duration_s / SERIES_POINTS, SERIES_LEAST_S)


def lay_over(document: Document, options: Document, *, source: str) -> None:
    """Replace the fields of a scenario's document by the given options.

    Raises EmulationError if `link` or `flows` of the document has the wrong type. Raises click.UsageError if an option
    is invalid, or there is no link.
    """
    document |= _given(options, "duration_s", "warmup_s", "seed")
    if not isinstance(document.setdefault("link", {}), dict):
        raise EmulationError(f"{source}: link: expected a mapping, got {document['link']!r}")
    kept = {key: value for key, value in document["link"].items() if key not in _replaced_by(options)}
    document["link"] = {**kept, **_link_options(options)}
    if not document["link"].keys() & RATES:
        raise click.UsageError("expected a link, got none; give SCENARIO.yaml, --traces or --rate-mbps")
    flows = document.setdefault("flows", [{}])
    if not isinstance(flows, list) or not all(isinstance(flow, dict) for flow in flows):
        raise EmulationError(f"{source}: flows: expected a list of mappings, got {flows!r}")
    given, params = _given(options, "cca", "delay_class", "ensemble"), _params(options["params"])
    if options["n_flows"] is not None:
        flows = flows[:1] * options["n_flows"]
    document["flows"] = [{**flow, **given, "params": _with_params(flow.get("params"), params)} for flow in flows]


def _given(options: Document, *names: str) -> Document:
    return {name: options[name] for name in names if options[name] is not None}


def _replaced_by(options: Document) -> frozenset[str]:
    """Return the fields of a file's link that --traces, --rate-mbps and --rtt-ms replace."""
    replaced: frozenset[str] = frozenset() if options["rtt_ms"] is None else frozenset({"delays"})
    if options["trace"] is not None:
        return replaced | RATES
    return replaced | RATES | OF_A_TRACE if options["rate_mbps"] is not None else replaced


def _with_params(own: object, given: dict[str, int]) -> object:
    """Return a flow's parameters with those of the options added or replaced.

    A value that is not a mapping is returned unchanged, and the scenario's validation refuses it.
    """
    return {**own, **given} if isinstance(own, dict) else own or given


def _link_options(options: Document) -> Document:
    given = _given(options, "recording", "rate_mbps", "rtt_ms", "loss", "trace")
    if "trace" in given and "rate_mbps" in given:
        raise click.UsageError("expected one link, got both --traces and --rate-mbps")
    if options["start_s"] is not None:
        given["start_ms"] = round(options["start_s"] * 1000)
    if options["buffer_size"] is not None:
        match = _BUFFER.fullmatch(options["buffer_size"])
        if match is None:
            raise click.UsageError(f"--buffer: expected such as 1000pkts or 1500000bytes, got {options['buffer_size']}")
        given["buffer_pkts"] = given["buffer_bytes"] = None
        given[f"buffer_{match[2]}"] = int(match[1])
    return given


def _params(texts: tuple[str, ...]) -> dict[str, int]:
    values = {}
    for text in texts:
        match = _PARAM.fullmatch(text)
        if match is None:
            raise click.UsageError(f"--param: expected such as bandwidth_window_us=60000, got {text}")
        values[match[1]] = int(match[2])
    return values


def print_figures(scenario: Scenario, qos: QoS) -> None:
    """Print a line for each flow, then the link's figures."""
    rows = [
        (
            f"{number} {spec.cca}{', ensemble' if spec.ensemble_text else ''}",
            f"{flow.throughput_mbps:.3f}",
            f"{flow.goodput_mbps:.3f}",
            *(f"{value:.0f}" for value in flow.rtt.summary_ms().values()),
            f"{flow.retransmission_rate:.3%}",
            str(flow.timeouts),
            str(len(flow.epoch_ends)),
        )
        for number, (spec, flow) in enumerate(zip(scenario.flows, qos.flows, strict=True), start=1)
    ]
    print_table(FLOW_COLUMNS, rows, title=qos.scenario)
    if len(qos.elements) > 1 or qos.acks is not None or scenario.link.codel is not None:
        print_elements(qos)
    for number, (spec, flow) in enumerate(zip(scenario.flows, qos.flows, strict=True), start=1):
        if isinstance(flow, VideoFlowQoS):
            echo(describe_video(number, spec, flow.video))
        elif spec.video_of is not None:
            echo(f"flow {number}:".ljust(16) + f"{len(flow.transfers)} chunks of the video of flow {spec.video_of + 1}")
        elif flow.transfers:
            echo(describe_transfers(number, spec.plan, flow))
    if qos.servers is not None:
        held = " ".join(f"{name} {value / 1000:.0f}," for name, value in qos.buffered_summary().items())
        echo(f"proxy:          holds {held.rstrip(',')} kB; from servers {qos.servers.throughput_mbps:.3f} Mbit/s")
    delay = qos.queueing_delay.summary_ms()
    lost = f"{qos.dropped} dropped by the queue, {qos.lost_at_random} lost at random"
    echo(f"packets:        {qos.packets} delivered, {lost}")
    if len(qos.flows) > 1:
        shares = " / ".join(f"{share:.1%}" for share in qos.bandwidth_shares[:MOST_SHARES])
        more = " ..." if len(qos.flows) > MOST_SHARES else ""
        echo(f"fairness:       {qos.fairness:.4f} (Jain), shares {shares}{more}")
    echo(
        f"queueing delay: p50 {delay['p50']:.1f}, p95 {delay['p95']:.1f}, p99 {delay['p99']:.1f}, "
        f"mean {qos.mean_queueing_delay_ms:.1f} ms"
    )
    echo(
        f"throughput:     {qos.throughput_mbps:.3f} of {qos.capacity_mbps:.3f} Mbit/s, "
        f"utilization {qos.utilization:.2%}"
    )


def print_elements(qos: QoS) -> None:
    """Print a line for each element of the path, in the order in which packets meet them, and one for the ACK path."""
    rows = [
        (
            element.name,
            str(element.entered),
            str(element.dropped),
            f"{element.dropped / max(element.entered, 1):.2%}",
            str(element.inside),
            *(f"{value:.1f}" if element.delay.total else "-" for value in element.delay.summary_ms().values()),
        )
        for element in (*qos.elements, *([] if qos.acks is None else [qos.acks]))
    ]
    print_table(ELEMENT_COLUMNS, rows)


def describe_transfers(number: int, plan: tuple[Transfer, ...], flow: FlowQoS) -> str:
    """Return a line with the number of a flow's complete transfers, and how long they took."""
    took_s = sorted(t.duration_s for t in flow.transfers if t.duration_s is not None)
    text = f"flow {number}:".ljust(16) + f"{len(took_s)} of {sum(t.count for t in plan)} transfers complete"
    if not took_s:
        return text
    if len(took_s) == 1:
        return f"{text}, in {took_s[0]:.3f} s"
    return f"{text}, in {took_s[0]:.3f} to {took_s[-1]:.3f}, median {statistics.median(took_s):.3f} s"


def describe_video(number: int, spec: FlowSpec, video: VideoQoS) -> str:
    """Return two lines about a flow's video: the chunks that arrived, and the QoE with its components."""
    played, of = video.played, 0 if spec.video is None else spec.video.chunks
    abr = "" if spec.video is None else f" by {spec.video.abr}"
    text = f"flow {number}:".ljust(16) + f"{len(played)} of {of} chunks{abr}"
    if video.startup_s is None:
        return text
    rebuffered = f"rebuffering {video.rebuffer_s:.3f} s in {video.interruptions}"
    return (
        f"{text}, start-up {video.startup_s:.3f} s\n{'':16}QoE {video.qoe:.3f}: "
        f"{video.mean_kbps:.0f} kbit/s, {video.switches} switches, {rebuffered}"
    )
