# SPDX-License-Identifier: MIT
"""The whole loop on this machine's kernel: a link changes, and the flows get a table that was trained for it.

    flows     three at a time, one after the other, of this machine's kernel, each over a link of its own that Mahimahi
              emulates, under GR in BPF. The links are steady at first. Then their rate changes twice a second
    agents    two processes. One writes to the kernel. The other one has no flows and writes to a stand-in, because a
              kernel has one table of GR in BPF
    registry  `ccatune serve` with an automatic policy: drift, training, comparison, roll-out by switchback
    runner    `ccatune jobs run`, which trains on a Ray cluster of two nodes that runs here

Nobody approves anything. Required are: no drift on the steady link; drift by the delay of the row after the change; a
job that ends on the cluster; no objection of the simulator; a roll-out that promotes, whose interval shows a gain; and
at the end the new table in the kernel.

Example: python -m tests.prove.loop
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from emulation.errors import EmulationError
from emulation.mahimahi.in_bpf import InBpf
from emulation.mahimahi.runner import emulate_in
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import read_recordings
from kmod.bpf_host import BpfHost
from tests.prove.kill_trainer import ROOT, ShortfallError

CCA, CHANNEL = "gr", "champion"
TRACE_S, FLOWS = 60, 3
RTT_MS, BUFFER_PKTS = 100, 1000
# A wait for a whole phase.
MOST_S = 1200.0
STUDY = """
schema: ccatune-study/2
cca: gr
axes: {throughput: {count: 1, step_kbps: 1000}}
clock: {epoch_s: 1, estimate_ms: 250, epsilon_pct: 25}
workload: {kind: epochs, shortest_s: 1, minimum: 2, maximum: 40}
objective:
  kind: delay
  classes: [{percentile: 95, queueing_delay_ms: 60, aim: 0.96, ranges: {delay_threshold_us: [5000, 100000]}}]
ranges: {bandwidth_window_us: [10000, 200000], adaptation_interval_us: [500, 20000]}
search: {kind: dds, intervals: 12, steps: 14, restarts: 1}
stages:
  - {name: single}
  - {name: row, group_by: [throughput], candidates_from: [single], search: {kind: local, steps: 2, reach: 0.1}}
"""
BLOCK_S, WASHOUT_S = 15, 5
# The owner of this channel asks for the delay; a lower rate is no harm to him.
PLAN = {
    "steps": [{"share": 0.5, "least_s": 16 * BLOCK_S, "most_s": 40 * BLOCK_S}],
    "switchback": {"block_s": BLOCK_S, "washout_s": WASHOUT_S},
    "limits": [{"metric": "within_target", "margin": 0.05}, {"metric": "retransmission_rate", "margin": 0.05}],
    "must_improve": "within_target", "alpha": 0.2, "looks_per_step": 4, "silent_s": 60, "silent_share": 0.5,
}  # fmt: skip
POLICY = {
    "study": "loop", "datasets": ["changed"], "compare": {"datasets": ["changed-later"], "paths": None}, "plan": PLAN,
    "automatic": True,
}  # fmt: skip


def write_link(path: Path, rates_mbps: NDArray[np.float64], ends_s: NDArray[np.float64]) -> None:
    """Write a link as a trace: float [part] rate in Mbit/s, and the end of each part in s, the last after TRACE_S."""
    at_ms = np.arange(TRACE_S * 1000)
    packets = np.cumsum(rates_mbps[np.searchsorted(ends_s * 1000, at_ms)] * 1e3 / 8 / 1500)
    times_ms = np.repeat(at_ms + 1, np.diff(np.floor(packets), prepend=0).astype(int))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(str, [*times_ms, TRACE_S * 1000])) + "\n", encoding="ascii")


def make_links(folder: Path, rng: np.random.Generator) -> None:
    """Write the recordings: steady ones, ones of the change, and later ones of it."""
    for number in range(3):
        write_link(folder / "steady" / f"{number}.down", np.array([2.0]), np.array([TRACE_S + 1.0]))
    for name in ("changed", "changed-later"):
        for number in range(3):
            ends_s = np.cumsum(rng.uniform(0.3, 0.8, 4 * TRACE_S))
            rates = np.where(
                np.arange(len(ends_s)) % 2, rng.uniform(1, 2, len(ends_s)), rng.uniform(10, 14, len(ends_s))
            )
            write_link(folder / name / f"{number}.down", rates, ends_s)


class Flows:
    """Flows of this machine's kernel, until they are ended. `change` lets further ones have the changed links."""

    def __init__(self, bpf: InBpf, links: Path) -> None:
        self._bpf, self._links = bpf, links
        self._name = "steady"
        self._ended = threading.Event()
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(FLOWS)]
        for thread in self._threads:
            thread.start()

    def change(self) -> None:
        """Give the flows that begin from now on the changed links."""
        self._name = "changed-later"

    def end(self) -> None:
        """End after the flows that run."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise ShortfallError(f"a flow failed: {self._errors[0]}")

    def _send(self, number: int) -> None:
        while not self._ended.is_set() and not self._errors:
            (recording,) = read_recordings(self._links / self._name / f"{number}.down")
            link = LinkSpec(trace=recording.trace, rtt_ms=RTT_MS, buffer_pkts=BUFFER_PKTS)
            # Of the class without a mark, and under the table that the agent has written.
            scenario = Scenario(name=f"flow {number}", link=link, flows=(FlowSpec(cca=CCA),), duration_s=40, warmup_s=2)
            try:
                emulate_in(self._bpf, scenario)
            except EmulationError as error:
                self._errors.append(str(error))


class Site:
    """The registry's folder and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the time."""
        click.echo(f"{time.monotonic() - self._began_s:6.0f} s  {text}")

    def ccatune(self, *words: object) -> Any:
        """Run a command, and return its JSON. Raises ShortfallError where it fails."""
        command = [sys.executable, str(ROOT / "ccatune.py"), *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode:
            raise ShortfallError(f"{words[:3]} exits {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def asked(self, *words: object) -> Any:
        """Run a command that asks the registry."""
        return self.ccatune(*words, "--url", self.url)

    @contextmanager
    def running(self, name: str, *words: object, environment: dict[str, str] | None = None) -> Iterator[None]:
        """A program that runs during the context, with its output in a file of this name."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)], stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            )  # fmt: skip
        try:
            yield
            if process.poll() is not None:
                raise ShortfallError(f"{name} ended with {process.returncode}: {self.tail(name)}")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def tail(self, name: str) -> str:
        """The end of a log."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def wait(self, what: str, look: Callable[[], Any], *, every_s: float = 1.0) -> Any:
        """Wait until the look finds something, and return it."""
        end_s = time.monotonic() + MOST_S
        while not (found := look()):
            if time.monotonic() > end_s:
                raise ShortfallError(f"expected {what} within {MOST_S:g} s")
            time.sleep(every_s)
        return found


@contextmanager
def registry(site: Site) -> Iterator[None]:
    """A registry with the study, the names of the datasets, and a closed shadow gate."""
    settings = {
        "database_url": f"sqlite:///{site.folder}/registry.db", "port": 0, "open": True, "studies": "studies",
        "datasets": ["changed", "changed-later"], "shadow_gate": "required", "retraining_check_s": 2,
    }  # fmt: skip
    (site.folder / "registry.yaml").write_text(json.dumps(settings), encoding="utf-8")
    ready = site.folder / "url"
    with site.running("registry", ROOT / "ccatune.py", "serve", "--config", "registry.yaml", "--ready-file", ready):
        site.wait("the registry to answer", ready.exists, every_s=0.1)
        site.url = ready.read_text(encoding="ascii").strip()
        yield


@contextmanager
def cluster() -> Iterator[None]:
    """A Ray cluster of two nodes with a processor each, to which RAY_ADDRESS points."""
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        found.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = found.address
        yield
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        found.shutdown()


def run_loop(folder: Path) -> str:
    """The campaign; its last line. Raises ShortfallError."""
    site = Site(folder)
    make_links(folder / "links", np.random.default_rng(1))
    (folder / "studies").mkdir()
    study = folder / "studies" / "loop.yaml"
    study.write_text(STUDY, encoding="utf-8")
    site.ccatune("train", CCA, "--study", study, "--traces", folder / "links" / "steady", "--out", "steady.json")
    with ExitStack() as stack:
        stack.enter_context(registry(site))
        (published,) = site.asked("publish", "steady.json", "--channel", CHANNEL)
        baseline = published["digest"]
        (folder / "policy.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
        site.asked("retrain", "set", CCA, CHANNEL, "--policy", "policy.yaml")
        stack.enter_context(cluster())
        data = [
            word for name in ("changed", "changed-later") for word in ("--dataset", f"{name}={folder}/links/{name}")
        ]
        runner = ("jobs", "run", "--url", site.url, *data, "--work", folder / "work", "--executor", "ray")
        stack.enter_context(site.running("runner", ROOT / "ccatune.py", *runner, "--address", "auto"))
        bpf = stack.enter_context(InBpf([CCA]))
        for name, kernel in (("server", ("--via", "bpf")), ("idle", ("--stand-in", folder / "tree"))):
            words = ("-m", "serving.agent", "--url", site.url, "--cca", CCA, "--agent-id", name, *kernel,
                     "--state-dir", folder / name, "--report-every", 1, "--report-spread", 0)  # fmt: skip
            stack.enter_context(site.running(name, *words, environment={"CCATUNE_BPF_PINS": str(bpf.pins)}))
        host = BpfHost(pins=bpf.pins)
        site.wait("the table in the kernel", lambda: baseline in host.read(CCA, "ensemble"), every_s=0.2)
        flows = Flows(bpf, folder / "links")
        stack.callback(flows.end)
        return follow(site, flows, host)


def follow(site: Site, flows: Flows, host: BpfHost) -> str:
    """Watch the loop, and return what it did."""
    began_s = time.monotonic()

    def drift() -> Any:
        return site.asked("drift", f"{CCA}/{CHANNEL}")

    def retraining() -> Any:
        return next(iter(site.asked("retrain", "list", CCA, CHANNEL)), None)

    before = site.wait("a verdict on the steady link", lambda: (it := drift())["verdict"] != "unknown" and it)
    site.say(f"drift on the steady link: {before['verdict']}; {before['reasons'][0]}")
    if before["verdict"] != "ok":
        raise ShortfallError("expected no drift on the steady link")
    flows.change()
    site.say("the links change")
    seen: list[str] = []

    def moved() -> Any:
        found = retraining()
        if found and found["state"] not in seen:
            seen.append(found["state"])
            site.say(f"retraining {found['state']}: {found['outcome'] or found['reasons'][0]}")
        if found and found["rollout_id"]:
            for event in site.asked("rollout", "explain", CCA, CHANNEL)["events"]:
                said = f"roll-out, {event['action']}: {' '.join(event['reasons'])}"
                if event["action"] != "block" and said not in seen:
                    seen.append(said)
                    site.say(said)
        return found if found and found["ended_at"] else None

    ended = site.wait("a retraining that ends", moved)
    if ended["state"] != "promoted":
        raise ShortfallError(f"expected it promoted, it is {ended['state']}: {ended['outcome']}")
    site.wait("the new table in the kernel", lambda: ended["candidate"] in host.read(CCA, "ensemble"), every_s=0.2)
    took_s = time.monotonic() - began_s
    return f"drift, training on Ray, comparison, switchback, promotion in {took_s:.0f} s: {ended['candidate'][:19]}"


@click.command()
def main() -> None:
    """Run the loop; exit 0 where it promoted, 1 where something fell short."""
    with tempfile.TemporaryDirectory(prefix="ccatune-loop-") as folder:
        try:
            line = run_loop(Path(folder))
        except ShortfallError as error:
            click.echo(f"loop: falls short: {error}")
            sys.exit(1)
    click.echo(line)


if __name__ == "__main__":
    main()
