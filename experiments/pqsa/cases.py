# SPDX-License-Identifier: MIT
"""The ensemble, the links and the cases of the report of PQSA.

    qos        one flow at a time over unseen links, figures 7 to 10; hour by hour, figure 11
    varied     the same with another RTT, buffer or duration, figures 2, 3 and 12
    levels     the same over pieces of a low and of a high throughput level, figures 13 and 14
    targets    flows with each target of the ensemble, table IV
    epochs     long flows with other epochs and windows of eq. 1, and with one row for all levels, table V
    paths      GR with and without a share gain over disturbed paths
    fairness   flows with one algorithm, which start one after the other, figure 15

Flows follow an ensemble with the levels and targets of table III. They do not track their target.

DEVIATION: only parts of the paper's datasets are available: one location of 3G and of 4G, and drives in other networks.
For table V only the flows have other epochs. Their rows were trained with epochs of 30 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from emulation.run.qos import QoS
from emulation.run.simulator import default_threads
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Jitter
from emulation.traces import Recording, default_traces
from experiments.campaign import MADE_COUNT, Case, Links, Row, made_like, over_pieces, pieces_of
from experiments.pqsa.settings import PqsaSettings
from kmod.ensemble import Deployment, Ensemble, table_text
from training.commands import recordings_of
from training.errors import TrainingError
from training.intervals import LEAST_SEEDS
from training.reports.conditions import CONDITIONS, places_of, scenarios_of
from training.study import Study, load_study, require_recordings
from training.study.ensemble import require_singles

GR, ONE_ROW = "pqsa-gr", "without SD1"
GAINED, SHARED = f"{GR}, share gain", f"{ONE_ROW}, share gain"
EVERY_S = 0.1
FAIR_WITHIN, FAIR_FOR_S = 0.25, 5.0  # a flow has its fair rate if it is within 25 % of it for 5 s


def links_of(settings: PqsaSettings, paths: Sequence[Path]) -> Links:
    """The recordings by place, or made ones if there are none. The ensemble is trained if it does not exist.

    Raises:
        TrainingError: there is nothing to train on.
    """
    is_made = not paths and default_traces() is None
    if is_made:
        places = {at: made_like(model, count=2 * MADE_COUNT) for at, model in settings.models.items()}
        training = [recording for its in places.values() for recording in its[:MADE_COUNT]]
        places = {at: its[MADE_COUNT:] for at, its in places.items()}
    else:
        training = recordings_of(paths, part="train")
        unseen = recordings_of(paths, part="validation")
        places = {at: [r for r in unseen if r.dataset.removesuffix("-validation") == dataset]
                  for at, dataset in settings.datasets.items()}  # fmt: skip
    if not settings.ensemble.exists():
        study = load_study(settings.study).model_copy(update={"verify": None})
        settings.ensemble.parent.mkdir(parents=True, exist_ok=True)
        Study(study, require_recordings(training, study), threads=default_threads()).run().save(settings.ensemble)
    return Links(places, is_made, training)


def ensemble_of(settings: PqsaSettings) -> Ensemble:
    """The ensemble of the report.

    Raises:
        TrainingError: it has one throughput level, so that PQSA-GR would be GR with one row for all levels.
    """
    ensemble = Ensemble.load(settings.ensemble)
    if ensemble.n_states == 1:
        raise TrainingError(f"{settings.ensemble}: expected an ensemble with several throughput levels, got one level; "
                            "train one with configs/studies/gr-levels.yaml, or leave out --ensemble")  # fmt: skip
    return ensemble


def flow_of(ensemble: Ensemble, delay_class: int, **params: int) -> FlowSpec:
    """A flow that follows the ensemble with a target. params: values of parameters that are not in the rows."""
    text = table_text(ensemble, Deployment("report", "pqsa", 1))
    return FlowSpec(cca="gr", params=params, ensemble_text=text, delay_class=delay_class)


def flows_of(settings: PqsaSettings) -> dict[str, FlowSpec]:
    """PQSA-GR and the other algorithms, by name."""
    own = flow_of(ensemble_of(settings), settings.delay_class)
    return {GR: own, **{name: FlowSpec(cca=name) for name in settings.rivals}}


def _cases(
    settings: PqsaSettings, key: tuple[str, ...], recordings: Sequence[Recording], flows: Mapping[str, FlowSpec],
    *, duration_s: float | None = None, runs: int | None = None, every_s: float | None = None, **path: float,
) -> Iterator[Case]:  # fmt: skip
    """A case for each flow, over the same pieces of the recordings."""
    pieces = pieces_of(recordings, length_s=duration_s or settings.duration_s, most=runs or settings.runs)
    run = partial(over_pieces, pieces, path={**settings.path.model_dump(), **path})
    for name, flow in flows.items():
        yield Case((*key, name), partial(run, flow), figures if every_s is None else rates, every_s)


def qos_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """Each algorithm over each place's links."""
    for at, recordings in links.recordings.items():
        yield from _cases(settings, ("qos", at), recordings, flows_of(settings))


def hour_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """The same over the links of each hour."""
    flows = flows_of(settings)
    for at, recordings in links.recordings.items():
        for hour, its in hours_of(recordings).items():
            yield from _cases(settings, ("hour", at, hour), its, flows)


def hours_of(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """The recordings by the hour that their folder names; empty if none does."""
    found: dict[str, list[Recording]] = {}
    for recording in recordings:
        folders = [part for part in recording.name.split("/") if part.startswith("hour")]
        for folder in folders:
            found.setdefault(folder.replace("hour", "hour "), []).append(recording)
    return found


def varied_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """PQSA-GR on 4G links with another RTT, buffer or duration."""
    own = {GR: flow_of(ensemble_of(settings), settings.delay_class)}
    for name, values in settings.varied.model_dump().items():
        for value in values:
            yield from _cases(settings, ("varied", name, f"{value:g}"), links.recordings["4g"], own, **{name: value})


def level_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """PQSA-GR and BBR over pieces of a low and of a high level; none for a level with too few pieces."""
    flows = {name: flow for name, flow in flows_of(settings).items() if name in {GR, "bbr"}}
    length_ms = round(1000 * settings.duration_s)
    every = [piece for its in links.recordings.values() for one in its for piece in one.pieces(length_ms)]
    for level, (least_mbps, most_mbps) in settings.levels_mbps.items():
        chosen = [piece for piece in every if least_mbps <= piece.trace.mean_rate_mbps < most_mbps
                  and piece.duration_s >= settings.duration_s]  # fmt: skip
        if len(chosen) >= LEAST_SEEDS:
            yield from _cases(settings, ("level", level), chosen, flows, every_s=EVERY_S)


def target_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """Flows with each target on 4G links."""
    ensemble = ensemble_of(settings)
    flows = {f"{target.queueing_delay_us / 1000:g}": flow_of(ensemble, number)
             for number, target in enumerate(ensemble.classes)}  # fmt: skip
    yield from _cases(settings, ("target",), links.recordings["4g"], flows)


def epoch_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """Long flows on 3G links: other epochs, other windows of eq. 1, and one row for all levels."""
    epochs, table = settings.epochs, ensemble_of(settings)
    clocks: dict[str, dict[str, Any]] = {f"epoch {s:g} s": {"epoch_ms": round(1000 * s)} for s in epochs.epoch_s}
    # A window is no longer than its epoch.
    clocks |= {f"window {ms} ms": {"estimate_ms": ms} for ms in epochs.estimate_ms if ms <= table.epoch_ms}
    flows = {name: flow_of(replace(table, **clock), settings.delay_class) for name, clock in clocks.items()}
    flows[ONE_ROW] = FlowSpec(cca="gr", params=require_singles(table)[settings.delay_class])
    yield from _cases(settings, ("epochs",), links.recordings["3g"], flows, duration_s=epochs.duration_s,
                      runs=epochs.runs)  # fmt: skip


def fairness_cases(settings: PqsaSettings, _links: Links) -> Iterator[Case]:
    """Flows of BBR, of PQSA-GR, and of GR with one row for all levels; the latter two also with a share gain."""
    ensemble, shared = ensemble_of(settings), settings.fairness.shared
    row = require_singles(ensemble)[settings.delay_class]
    flows = {"bbr": FlowSpec(cca="bbr")}
    for names, params in (((GR, ONE_ROW), {}), ((GAINED, SHARED), shared)):
        its = flow_of(ensemble, settings.delay_class, **params), FlowSpec(cca="gr", params={**row, **params})
        flows |= zip(names, its, strict=True)
    for rtt_ms in settings.fairness.rtt_ms:
        for count in settings.fairness.flows:
            for name, flow in flows.items():
                key = ("fairness", f"{rtt_ms:g}", f"{count}", name)
                yield Case(key, partial(_together, settings, rtt_ms, count, flow), shares, EVERY_S)


def _together(settings: PqsaSettings, rtt_ms: float, count: int, flow: FlowSpec) -> list[Scenario]:
    fairness = settings.fairness
    last_s = fairness.later_s * (count - 1)
    link = LinkSpec(rate_mbps=fairness.rate_mbps, rtt_ms=rtt_ms, buffer_pkts=settings.path.buffer_pkts,
                    behind=(Jitter(max_ms=fairness.jitter_ms),))  # fmt: skip
    flows = tuple(flow.model_copy(update={"start_s": number * fairness.later_s}) for number in range(count))
    return [Scenario(link=link, flows=flows, duration_s=last_s + fairness.together_s, warmup_s=last_s, seed=seed)
            for seed in range(1, fairness.seeds + 1)]  # fmt: skip


def path_cases(settings: PqsaSettings, links: Links) -> Iterator[Case]:
    """GR with one row over disturbed paths: without a share gain, and with it at several thresholds."""
    paths, row = settings.paths, require_singles(Ensemble.load(settings.ensemble))[settings.delay_class]
    places = places_of([recording for its in links.recordings.values() for recording in its], paths.flows)
    trials = {GR: {"delay_threshold_us": paths.threshold_us}}
    trials |= {f"{us}": {"delay_threshold_us": us, **settings.fairness.shared} for us in paths.shared_us}
    for condition in (one for one in CONDITIONS if one.name in paths.conditions):
        for name, params in trials.items():
            flow = FlowSpec(cca="gr", params={**row, **params})
            yield Case(("path", condition.name, name), partial(scenarios_of, condition, places, flow), figures)


def figures(_scenario: Scenario, qos: QoS) -> Row:
    """Throughput, use of the link, and the packets by their queueing delay (bins: compact_edges_us)."""
    counts = qos.windows.delay_counts.sum(axis=0, dtype=np.int64).tolist()
    return {"mbps": qos.throughput_mbps, "utilization": qos.utilization, "delays": counts}


def rates(scenario: Scenario, qos: QoS) -> Row:
    """Those of figures(), and the share of time in which the flow sends at less than the link's rate."""
    series = qos.series or {}
    below = series["pacing_mbps"] <= series["capacity_mbps"]
    return {**figures(scenario, qos), "below": float(below.mean())}


def shares(scenario: Scenario, qos: QoS) -> Row:
    """Jain's index, the time from the last start until all rates are fair (None: never), delay and throughput."""
    count, series = len(scenario.flows), qos.series or {}
    mbps, times_s = (series[name].reshape(-1, count) for name in ("rate_mbps", "time_s"))
    mbps = mbps[times_s[:, 0] > scenario.warmup_s]
    seconds = mbps[: len(mbps) // 10 * 10].reshape(-1, 10, count).mean(axis=1)
    fair_mbps = seconds.sum(axis=1, keepdims=True) / count
    fair = (np.abs(seconds - fair_mbps) <= FAIR_WITHIN * fair_mbps).all(axis=1)
    held = [i for i in range(len(fair)) if fair[i : i + round(FAIR_FOR_S)].sum() == FAIR_FOR_S]
    return {"jain": qos.fairness, "converged_s": float(held[0]) if held else None,
            "p95_ms": qos.queueing_delay.percentile_ms(95), "mbps": qos.throughput_mbps}  # fmt: skip
