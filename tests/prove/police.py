# SPDX-License-Identifier: MIT
"""Files behind a police action of a real kernel, beside the simulator: how much less R-TCP's modules resend.

    python -m tests.prove.police [--only op1-4mb] [--json] [--work build/police]

The cases are those of configs/fidelity-rtcp.yaml, which runs them over Mahimahi with a policer of nftables. Here the
path is made of network namespaces: a token bucket filter is the access link, tc's police action the limiter, and netem
delays the way back. A boot of the guest, by its own clock, for each run of all cases; the simulator has the path as it
stands in the plan, less Mahimahi's clocks (path_of_guest). As there, a reduction agrees where the kernel's median lies
among the simulator's seeds. Exits 0 where all do. Boots that are over are kept in --work, as long as programs and
modules are the same, so that what was stopped goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from emulation import Jitter, Policer, Scenario, simulate_many
from emulation.fidelity import Case, Plan, cases_of, load_plan
from emulation.fidelity.judge import Middle, Reduction
from emulation.fidelity.pieces import Pieces
from emulation.vm import LINES, GuestError, build_modules, run_in_guest
from emulation.vm.runner import KERNEL_NAMES
from tests.vm import boot

PLAN = boot.REPOSITORY / "configs" / "fidelity-rtcp.yaml"
PROGRAM = Path(__file__).with_name("police_guest.py")
SOURCES = (PROGRAM, boot.GUEST / "limited.py", boot.REPOSITORY / "emulation" / "vm" / "inside.py")
# A packet's way through the guest's namespaces takes longer where its one processor has others to carry: smoothed
# round trips of single packets were 0 to 0.2 ms above the shortest, 0.05 in the median. Nothing else tells CUBIC's
# seeds apart.
JITTER_MS = 0.1
# The token bucket that is the access link holds two frames (emulation/vm/inside.py): a pair, and with it what follows a
# pair in a train, passes sooner than on a link of that rate by the time that two packets take there.
AT_ONCE_BITS = 2 * 1500 * 8
RESULTS, LOG = "results.jsonl", "log.json"
BOOT_S, CASE_S = 600, 300
LOOK_S = 5.0


@dataclass(frozen=True)
class Sides:
    """Retransmission rates of a case's runs, as shares."""

    kernel: list[float]
    simulator: list[float]


def run_of(case: Case) -> dict[str, Any]:
    """What the guest is told of a case: a link with one policer behind it, and one file."""
    assert case.scenario is not None
    link, (flow,) = case.scenario.link, case.scenario.flows
    (policer,), (file,) = link.behind, flow.transfers
    assert isinstance(policer, Policer)
    return {
        "case": case.key,
        "kernel_cca": KERNEL_NAMES[case.cca],
        "rate_mbps": link.rate_mbps,
        "rtt_ms": link.rtt_ms,
        "buffer_pkts": link.buffer_pkts,
        "limit_mbps": policer.rate_mbps,
        "bucket_bytes": policer.bucket_bytes,
        "size_bytes": file.size_bytes,
    }


def booted(line: str, runs: list[dict[str, Any]], *, folder: Path) -> dict[str, float]:
    """The retransmission rate of each case, once.

    Raises:
        click.ClickException: the guest failed, its kernel logged something, or a file did not arrive.
    """
    built = build_modules(line)
    modules = [str(built.paths[name]) for name in sorted(built.paths, key=lambda name: (name != "ccatune", name))]
    told = json.dumps({"modules": modules, "runs": runs, "digest": digest_of(*SOURCES, *map(Path, modules))})
    if not is_over(folder, told):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "runs.json").write_text(told, encoding="utf-8")
        boot_guest(line, folder, cases=len(runs))
    complaints = [said for said in json.loads((folder / LOG).read_text()) if not boot.EXPECTED.search(said)]
    if complaints:
        raise click.ClickException(f"kernel {line}: expected nothing in its log, it said {complaints}")
    found = [json.loads(said) for said in (folder / RESULTS).read_text().splitlines()]
    for run, result in zip(runs, found, strict=True):
        if result["acked_bytes"] < run["size_bytes"]:
            raise click.ClickException(f"{run['case']}: expected {run['size_bytes']} bytes acknowledged, got {result}")
    return {result["case"]: result["resent_pkts"] / result["sent_pkts"] for result in found}


def digest_of(*paths: Path) -> str:
    """Of what is in these files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def is_over(folder: Path, told: str) -> bool:
    """Whether a boot that was told the same is in this folder, with its results; the log is written last."""
    return (folder / LOG).exists() and (folder / "runs.json").read_text(encoding="utf-8") == told


def boot_guest(line: str, folder: Path, *, cases: int) -> None:
    """Run what the folder asks for."""
    command = [boot.python(), "-I", "-S", str(PROGRAM), str(boot.REPOSITORY)]
    try:
        done = run_in_guest(line, command, timeout_s=BOOT_S + CASE_S * cases, files=folder, own_clock=True)
    except GuestError as error:
        raise click.ClickException(f"kernel {line}: {error}") from error
    if done.status:
        raise click.ClickException(f"kernel {line}: expected the files sent, the guest ended with {done.stderr}")


def on_kernel(line: str, cases: list[Case], *, runs: int, work: Path) -> list[dict[str, float]]:
    """Each boot's rates. A guest with a clock of its own takes one processor and minds no other."""
    asked = [run_of(case) for case in cases]
    folders = [work / f"{line}-{number}" for number in range(runs)]
    over = threading.Event()

    def tell() -> None:
        while not over.wait(LOOK_S):
            files = [folder / RESULTS for folder in folders]
            count = sum(len(file.read_bytes().splitlines()) for file in files if file.exists())
            click.echo(f"\r{count} of {runs * len(asked)} files sent", nl=False, err=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(lambda folder: booted(line, asked, folder=folder), folders))
    finally:
        over.set()
        teller.join()
        click.echo(err=True)


def path_of_guest(scenario: Scenario) -> Scenario:
    """The same over the path that the guest's namespaces make."""
    link = scenario.link
    assert link.rate_mbps is not None
    sooner_ms = AT_ONCE_BITS / (link.rate_mbps * 1000)
    changed = {"rtt_ms": link.rtt_ms - sooner_ms, "behind": (*link.behind, Jitter(max_ms=JITTER_MS))}
    return scenario.model_copy(update={"link": link.model_copy(update=changed)})


def simulated(scenario: Scenario, *, seeds: int) -> list[float]:
    """A rate a seed."""
    scenario = path_of_guest(scenario)
    runs = simulate_many([scenario.model_copy(update={"seed": seed}) for seed in range(seeds)])
    return [run.retransmission_rate for run in runs]


def reductions(plan: Plan, cases: list[Case], sides: dict[str, Sides]) -> list[Reduction]:
    """Run by run and seed by seed."""
    found = []
    for case in cases:
        base = plan.reductions.get(case.cca)
        if base is None or f"{case.name}/{base}" not in sides:
            continue
        its, of = sides[case.key], sides[f"{case.name}/{base}"]
        kernel = [1 - rate / base_rate for rate, base_rate in zip(its.kernel, of.kernel, strict=True)]
        simulator = [1 - rate / base_rate for rate, base_rate in zip(its.simulator, of.simulator, strict=True)]
        found.append(Reduction(case.name, case.cca, base, Middle.of(kernel), Middle.of(simulator)))
    return found


def percent(middle: Middle) -> str:
    """Median, least and greatest."""
    return f"{100 * middle.median:5.1f} [{100 * middle.least:.1f}, {100 * middle.most:.1f}]"


@click.command()
@click.option("--only", "patterns", multiple=True, help="Only these scenarios or cases (op1-4mb, op1-4mb/cubic).")
@click.option("--kernel", "line", default=LINES[-1], show_default=True, type=click.Choice(LINES))
@click.option("--runs", type=click.IntRange(1), help="Boots, instead of the plan's.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/police"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print every run's rate as JSON.")
def main(*, patterns: tuple[str, ...], line: str, runs: int | None, work: Path, as_json: bool) -> None:
    """Compare, and exit 0 where each reduction agrees. Example: python -m tests.prove.police --only op1-4mb"""
    plan = load_plan(PLAN)
    # None of its links is a piece of a recording.
    cases = cases_of(plan, source=PLAN, pieces=Pieces(None, folder=PLAN.parent), patterns=patterns)
    if not cases:
        raise click.UsageError(f"--only: expected scenarios or cases of {PLAN.name}, got {', '.join(patterns)}")
    boots = on_kernel(line, cases, runs=runs or plan.runs, work=work)
    sides = {}
    for case in cases:
        assert case.scenario is not None
        sides[case.key] = Sides([rates[case.key] for rates in boots], simulated(case.scenario, seeds=plan.seeds))
    less = reductions(plan, cases, sides)
    if as_json:
        rates = {key: {"kernel": side.kernel, "simulator": side.simulator} for key, side in sides.items()}
        agree = {f"{each.name}/{each.cca}": each.agrees for each in less}
        click.echo(json.dumps({"kernel": line, "rates": rates, "reduction_agrees": agree}))
        sys.exit(0 if all(agree.values()) else 1)
    click.echo(f"{'resent, %':<22} {'kernel':<22} simulator")
    for key, side in sides.items():
        click.echo(f"{key:<22} {percent(Middle.of(side.kernel)):<22} {percent(Middle.of(side.simulator))}")
    click.echo(f"\n{'less than its base, %':<22} {'kernel':<22} simulator")
    for each in less:
        told = f"{percent(each.real):<22} {percent(each.simulated):<22} {'agrees' if each.agrees else 'differs'}"
        click.echo(f"{each.name + '/' + each.cca:<22} {told}")
    count = sum(each.agrees for each in less)
    click.echo(f"medians of {len(boots)} boots of Linux {line} and {plan.seeds} seeds; least and greatest in brackets")
    click.echo(f"reductions: {count} of {len(less)} on the kernel lie among the simulator's")
    sys.exit(0 if count == len(less) else 1)


if __name__ == "__main__":
    main()
