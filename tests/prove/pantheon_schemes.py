# SPDX-License-Identifier: MIT
"""Builds every scheme of `ccatune pantheon`, runs each of them, and compares a test with `ccatune emulate`.

    schemes     each is set up and sends for SCHEME_S over a constant link of 20 Mbit/s; a run that is not ok fails
    agreement   CUBIC for AGREE_S over the same link by `pantheon test` and `emulate`, RUNS times in turn: the medians
                of throughput and of the 95th percentile of the one-way delay differ by at most AGREE_SHARE

Example: python -m tests.prove.pantheon_schemes
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.runner import emulate_many
from emulation.pantheon.analysis import analyse
from emulation.pantheon.schemes import SchemeError, read_schemes
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "configs" / "emulators" / "constant-20mbps.yaml"
DELAY_MS, QUEUE_PKTS = 25, 167
SCHEME_S, AGREE_S, RUNS, AGREE_SHARE = 15, 30, 3, 0.02


def run_test(data_dir: Path, schemes: str, seconds: int, *options: str) -> list[dict[str, Any]]:
    """The rows of a test."""
    words = ["pantheon", "test", "--schemes", schemes, "--emulator", str(EMULATOR), "--data-dir", str(data_dir)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "ccatune.py"), *words, "--runtime", str(seconds), "--json", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        raise SystemExit(f"ccatune pantheon test exits {done.returncode}: {done.stderr[-500:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def schemes_that_fail(folder: Path) -> list[str]:
    """Set all schemes up and run them; a line for each that fails."""
    failed, built = [], []
    for scheme in read_schemes().values():
        try:
            scheme.set_up()
            built.append(scheme.name)
        except SchemeError as error:
            failed.append(str(error))
    rows = run_test(folder, " ".join(built), SCHEME_S)
    failed += [f"{row['scheme']}: {row['verdict']}: {row['reason']}" for row in rows if row["verdict"] != "ok"]
    for scheme in analyse(folder).schemes:
        summary = scheme.summary
        if summary.throughput_mbps and summary.delay_p95_ms:
            click.echo(
                f"{scheme.scheme:<18} {summary.throughput_mbps.mean:6.2f} Mbit/s {summary.delay_p95_ms.mean:6.1f} ms"
            )
    return failed


def _medians(folder: Path) -> dict[str, tuple[float, float]]:
    """(throughput in Mbit/s, p95 of the one-way delay in ms) of CUBIC by each command, in turn."""
    scenario = Scenario(
        name="cubic", link=LinkSpec(rate_mbps=20, rtt_ms=2 * DELAY_MS, buffer_pkts=QUEUE_PKTS),
        flows=(FlowSpec(cca="cubic"),), duration_s=AGREE_S,
    )  # fmt: skip
    found: dict[str, list[tuple[float, float]]] = {"pantheon": [], "emulate": []}
    for number in range(RUNS):
        run_test(folder / str(number), "cubic", AGREE_S, "--jobs", "1")
        its = analyse(folder / str(number)).schemes[0].summary
        assert its.throughput_mbps is not None
        assert its.delay_p95_ms is not None
        found["pantheon"].append((its.throughput_mbps.mean, its.delay_p95_ms.mean))
        with kept_awake():
            (qos,) = emulate_many([scenario])
        found["emulate"].append((qos.throughput_mbps, DELAY_MS + qos.queueing_delay.percentile_ms(95)))
    return {
        name: (statistics.median(rate for rate, _ in rows), statistics.median(delay for _, delay in rows))
        for name, rows in found.items()
    }


@click.command()
def main() -> None:
    """Build and run the schemes, and exit 0 where everything holds."""
    with tempfile.TemporaryDirectory(prefix="ccatune-pantheon-") as name:
        failed = schemes_that_fail(Path(name) / "schemes")
        medians = _medians(Path(name) / "cubic")
    for line in failed:
        click.echo(line)
    (rate, delay), (its_rate, its_delay) = medians["pantheon"], medians["emulate"]
    rate_off, delay_off = rate / its_rate - 1, delay / its_delay - 1
    click.echo(
        f"cubic: {rate:.2f} Mbit/s by pantheon, {its_rate:.2f} by emulate ({rate_off:+.1%}); "
        f"p95 one-way delay {delay:.1f} ms by pantheon, {its_delay:.1f} by emulate ({delay_off:+.1%})"
    )
    agree = max(abs(rate_off), abs(delay_off)) <= AGREE_SHARE
    click.echo(
        f"{len(read_schemes()) - len(failed)} of {len(read_schemes())} schemes run; {'agree' if agree else 'differ'}"
    )
    sys.exit(bool(failed) or not agree)


if __name__ == "__main__":
    main()
