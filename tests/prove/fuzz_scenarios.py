# SPDX-License-Identifier: MIT
"""Runs random scenarios (tests/prove/scenarios.py) with the engine's own accounts checked at every event.

    python -m tests.prove.fuzz_scenarios --count 100000
    python -m tests.prove.fuzz_scenarios --from 4711 --count 1     that one again

emulation/cpp/simulation/audit.hpp says what is checked: no packet lost from accounting, no ACK beyond what was sent,
nothing negative in flight, no clock that goes back, everything acknowledged in the end. Here: every transfer of a flow
that is not stopped is complete.

A scenario that fails is made smaller for as long as it fails, and left in build/fuzz-scenarios/NUMBER as a scenario
file with its traces. How far a run has come is kept beside it, so one that was interrupted goes on; another engine,
or other scenarios, begin anew.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from emulation import EmulationError, QoS, Scenario, _engine, simulate
from kmod.ensemble import write_atomically
from tests.prove import scenarios
from tests.prove.scenarios import Document, Drawn, draw, load, save

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "build" / "fuzz-scenarios"
MOST_CPU_S = 120
MOST_FAILURES = 10
PER_REPORT = 500


class EndlessError(Exception):
    """A run that took too long."""


@dataclass
class Tally:
    """How far a range of scenarios has come."""

    done: int = 0
    packets: int = 0
    failed: tuple[int, ...] = ()


def check(scenario: Scenario) -> QoS:
    """Run it, audited. Raises EmulationError for what does not add up or complete, EndlessError."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise EndlessError(f"{scenario.name}: more than {MOST_CPU_S} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        qos = simulate(scenario, audit=True)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    for number, (spec, flow) in enumerate(zip(scenario.flows, qos.flows, strict=True)):
        planned = sum(plan.count for plan in spec.plan)
        complete = sum(transfer.complete_s is not None for transfer in flow.transfers)
        if spec.stop_s is None and complete != planned:
            raise EmulationError(f"{scenario.name}: flow {number}: {complete} of {planned} transfers are complete")
    return qos


def fault_of(drawn: Drawn) -> str | None:
    """What is wrong with a run of it; None: nothing."""
    try:
        check(load(drawn))
    except (EmulationError, EndlessError) as error:
        return str(error)
    return None


def smaller(document: Document) -> Iterator[Document]:
    """Documents with one thing less."""

    def changed(act: Callable[[Document], object]) -> Document:
        copied = copy.deepcopy(document)
        act(copied)
        return copied

    flows, link = document["flows"], document["link"]
    if len(flows) > 1:
        for i in range(len(flows)):
            yield changed(lambda d, i=i: d["flows"].pop(i))
    for side in ("before", "behind"):
        for i in range(len(link.get(side, ()))):
            yield changed(lambda d, side=side, i=i: d["link"][side].pop(i))
    for name in {"loss", "acks", "codel", "buffer_bytes", "start_ms", "opportunity_bytes"} & set(link):
        yield changed(lambda d, name=name: d["link"].pop(name))
    for i, flow in enumerate(flows):
        if flow["params"] and flow["cca"] != "fixed":
            yield changed(lambda d, i=i: d["flows"][i].update(params={}))
        if flow["start_s"]:
            yield changed(lambda d, i=i: d["flows"][i].update(start_s=0.0))
        if flow.get("size_bytes", 0) > 1448:
            yield changed(lambda d, i=i: d["flows"][i].update(size_bytes=d["flows"][i]["size_bytes"] // 2))
        if len(flow.get("transfers", ())) > 1:
            yield changed(lambda d, i=i: d["flows"][i]["transfers"].pop())


def minimise(drawn: Drawn, fails: Callable[[Drawn], bool], *, tries: int = 200) -> Drawn:
    """The smallest that still fails, of what can be had by leaving out one thing after the other."""
    found, goes_on = drawn, True
    while goes_on and tries:
        goes_on = False
        for document in smaller(found.document):
            tries -= 1
            candidate = Drawn(document, drawn.traces)
            if fails(candidate):
                found, goes_on = candidate, True
                break
            if not tries:
                break
    return Drawn(found.document, {name: times for name, times in drawn.traces.items() if name in str(found.document)})


def report(number: int, drawn: Drawn, fault: str, *, folder: Path) -> str:
    """Leave the smallest scenario that fails in the folder; what is to be said of it."""
    endless = "processor time" in fault  # each try would take as long
    least = drawn if endless else minimise(drawn, lambda candidate: fault_of(candidate) is not None)
    path = save(least, folder / str(number))
    return f"{number}: {fault if endless else fault_of(least)}\n{path}:\n{path.read_text(encoding='utf-8')}"


def digest() -> str:
    """Of the engine and of what draws the scenarios."""
    files = (Path(_engine.__file__), Path(scenarios.__file__))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def resume(path: Path, key: dict[str, Any]) -> Tally:
    """How far a run of the same range on the same files has come."""
    state = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if state.get("key") != key:
        return Tally()
    return Tally(state["done"], state["packets"], tuple(state["failed"]))


@click.command()
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, help="The first one's number.")
@click.option("--count", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--most-s", type=click.IntRange(1), help="Stop after so many seconds; the next call goes on from there.")
@click.option("--fresh", is_flag=True, help="Begin anew.")
def main(*, first: int, count: int, most_s: int | None, fresh: bool) -> None:
    """Run scenarios FROM to FROM + COUNT. Exits 0 when all were run and hold."""
    os.nice(10)
    FOLDER.mkdir(parents=True, exist_ok=True)
    key, path = {"digest": digest(), "from": first, "count": count}, FOLDER / "state.json"
    tally, began_s = Tally() if fresh else resume(path, key), time.monotonic()
    before = tally.done

    def keep() -> None:
        state = {"key": key, "done": tally.done, "packets": tally.packets, "failed": tally.failed}
        write_atomically(path, json.dumps(state).encode())

    while tally.done < count and len(tally.failed) < MOST_FAILURES:
        number = first + tally.done
        drawn = draw(number)
        try:
            tally.packets += check(load(drawn)).sent
        except (EmulationError, EndlessError) as error:
            click.echo(report(number, drawn, str(error), folder=FOLDER))
            tally.failed = (*tally.failed, number)
        tally.done += 1
        if tally.done % PER_REPORT == 0 or tally.failed[-1:] == (number,):
            keep()
            rate = (tally.done - before) / (time.monotonic() - began_s)
            words = f"{tally.done} of {count}, {tally.packets / 1e6:.0f} million packets, {rate:.0f} runs/s"
            click.echo(f"{words}, {len(tally.failed)} failed", err=True)
        if most_s is not None and time.monotonic() - began_s > most_s:
            break
    keep()
    held = tally.done - len(tally.failed)
    click.echo(
        f"{held} of {tally.done} simulations hold, {tally.packets / 1e6:.1f} million packets, numbers {first} to "
        f"{first + tally.done - 1} of {first + count - 1}"
    )
    sys.exit(0 if held == count else 1)


if __name__ == "__main__":
    main()
