# SPDX-License-Identifier: MIT
"""Kills the agent, and `ccatune-bpf write` and `load`, with SIGKILL at random moments, on this machine's kernel.

    agents   as tests/prove/kill_service.py does, with GR in BPF instead of the stand-in
    writes   one table after the other, while flows of GR run; each kill at a random moment of a write
    loads    each kill at a random moment of a load: of GR that is not loaded, or of GR that is in use

After every kill the table in force is one that was published, whole, and the next write takes effect. Then no more is
pinned than one configuration, and the sums of two tables. At the end the flows follow the last table, and after
unloading the kernel has no program and no map more than before.

Takes root, BPF, bpftool and `make bpf`, and BPF's names for itself (tests/bpf/sole.py).

Example: python -m tests.prove.kill_bpf --count 50
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from emulation.mahimahi.in_bpf import available_ccas
from kmod.bpf_host import BpfHost
from kmod.ensemble import Deployment, Ensemble, table_text
from serving.agent.kernel import BpfTree
from tests.bpf.conftest import kernel_objects
from tests.bpf.link import link
from tests.bpf.sole import built_program, sole_host
from tests.emulation.tables import like_trained
from tests.prove.kill_service import CCA, CHANNEL, Kernel, campaign

FLOWS = 50
LEVELS = 40
URGENT_EVERY = 2
# A write changes the pins within some 2 ms; every other kill is aimed there.
LONGEST_CHANGE_S = 0.003
# Pins of which each table has its own, and how many there may be.
PINS_OF_TABLES = {"config": 1, "sums": 2, "delays": 2}
FREE_S = 30.0


class ShortfallError(Exception):
    """What should always hold did not."""


def make_ensemble(number: int) -> Ensemble:
    """An ensemble of the size of a real one. Its rows tell its number by the bandwidth window."""
    rows = tuple((20_000 + number, 3000, 12_000 + row) for row in range(LEVELS * 3))
    return like_trained(rows, classes_ms=(50, 100, 200), number=number)


@dataclass
class Tally:
    """What the kills met. cut: a kill left pins that the next write or load had to remove."""

    agents: int = 0
    writes: int = 0
    writes_done: int = 0
    writes_cut: int = 0
    loads: int = 0
    loads_done: int = 0
    loads_cut: int = 0
    loads_of_loaded: int = 0
    objects: int = 0
    objects_after: int = 0

    def line(self) -> str:
        """The figures, last."""
        return (
            f"{self.agents} kills of the agent, {self.writes} of a write ({self.writes_done} had taken effect, "
            f"{self.writes_cut} left pins) and {self.loads} of a load ({self.loads_done} had taken effect, "
            f"{self.loads_cut} left pins, {self.loads_of_loaded} were of a loaded one): the table in force was always "
            f"a published one, and the next write took effect; GR had {self.objects} programs and maps before the "
            f"writes, {self.objects_after} after them, and none after unloading"
        )


@dataclass
class Site:
    """ccatune-bpf with its folder of pins, and the texts of tables that are published one after the other."""

    host: BpfHost
    program: Path
    pins: Path
    folder: Path
    rng: random.Random
    tally: Tally
    serial: int = 0
    others: set[tuple[str, int]] = field(default_factory=kernel_objects)

    def objects(self, most: int) -> int:
        """How many programs and maps the kernel has more than before the campaign.

        Raises ShortfallError if they do not come to be at most so many. The kernel frees them a while later.
        """
        end_s = time.monotonic() + FREE_S
        while len(found := kernel_objects() - self.others) > most:
            if time.monotonic() > end_s:
                raise ShortfallError(f"expected at most {most} programs and maps more than before, got {sorted(found)}")
            time.sleep(0.1)
        return len(found)

    def next_table(self) -> str:
        """Another table, which is urgent every other time."""
        self.serial += 1
        urgent = self.serial % URGENT_EVERY == 0
        return table_text(make_ensemble(self.serial), Deployment("local", CHANNEL, self.serial, urgent=urgent))

    def kill(self, *words: str, text: str = "", longest_s: float, aimed: bool = False) -> None:
        """Start ccatune-bpf, and kill it at a random moment. aimed: the first moments after it has changed the pins."""
        content = self.folder / "text"
        content.write_text(text)
        with content.open() as given:
            process = subprocess.Popen(
                [str(self.program), "--pins", str(self.pins), *words], stdin=given, stderr=subprocess.DEVNULL
            )
            before = self.names()
            while aimed and self.names() == before and process.poll() is None:
                pass
            time.sleep(self.rng.uniform(0.0, LONGEST_CHANGE_S if aimed else longest_s))
            process.kill()
            process.wait()

    def names(self) -> list[str]:
        """The pins."""
        folder = self.pins / CCA
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def pinned(self) -> dict[str, int]:
        """How many pins there are of each kind that a table has its own of."""
        return {kind: sum(name.startswith(f"{kind}-") for name in self.names()) for kind in PINS_OF_TABLES}

    def require_few_pins(self) -> None:
        """Raise ShortfallError if pins pile up."""
        found = self.pinned()
        if any(found[kind] > most for kind, most in PINS_OF_TABLES.items()):
            raise ShortfallError(f"expected at most {PINS_OF_TABLES} pins, got {found}")

    def write(self, text: str) -> None:
        """Write a table; it must be in force then. Raises ShortfallError."""
        self.host.write(CCA, "ensemble", text)
        self.require_in_force(text)
        self.require_few_pins()

    def require_in_force(self, *texts: str) -> str:
        """Return the table in force. Raises ShortfallError if it is none of these."""
        found = self.host.read(CCA, "ensemble")
        if found not in texts:
            raise ShortfallError(f"the table in force is none that may be: {found[:300]!r}")
        return found


def seconds_of(act: Callable[[], object]) -> float:
    """How long it takes."""
    began_s = time.monotonic()
    act()
    return time.monotonic() - began_s


def flow_windows(host: BpfHost) -> list[int]:
    """The bandwidth window of each flow that has a row. A table of `make_ensemble` has one, which tells the table."""
    lines = [line.split()[2:] for line in host.read(CCA, "flows").splitlines()]
    flows = [dict(word.split("=", 1) for word in words) for words in lines]
    return [int(flow["bandwidth_window_us"]) for flow in flows if flow["state"] != "-"]


def window_of(text: str) -> int:
    """The bandwidth window in every row of a table of `make_ensemble`."""
    return int(text.splitlines()[-2].split()[2])


def kill_writes(on: Site, *, count: int, flows: int) -> None:
    """Kill `ccatune-bpf write` under running flows."""
    on.host.load(CCA)
    before = on.next_table()
    on.write(before)
    longest_s = 1.2 * max(seconds_of(lambda: on.host.write(CCA, "ensemble", on.next_table())) for _ in range(3))
    on.tally.objects = len(kernel_objects() - on.others)
    with link() as path, path.flows(CCA, seconds=None, count=flows):
        for number in range(count):
            before, offered, names = on.host.read(CCA, "ensemble"), on.next_table(), set(on.names())
            on.kill("write", CCA, "ensemble", text=offered, longest_s=longest_s, aimed=number % 2 == 1)
            on.tally.writes += 1
            done = on.require_in_force(before, offered) == offered
            on.tally.writes_done += done
            on.tally.writes_cut += not done and set(on.names()) != names
            on.write(on.next_table())
        require_follow(on)
    on.tally.objects_after = on.objects(on.tally.objects)
    on.host.unload(CCA)


def require_follow(on: Site) -> None:
    """Raise ShortfallError unless the flows come to follow an urgent table."""
    text = on.next_table()
    text = on.next_table() if " urgent" not in text else text
    on.write(text)
    end_s = time.monotonic() + FREE_S
    while not (windows := flow_windows(on.host)) or set(windows) != {window_of(text)}:
        if time.monotonic() > end_s:
            raise ShortfallError(f"expected all flows on the table with {window_of(text)} us, got {sorted(windows)}")
        time.sleep(0.1)


def kill_loads(on: Site, *, count: int) -> None:
    """Kill `ccatune-bpf load`: two times of three when GR is not loaded, else when it is in use."""
    longest_s = 1.2 * seconds_of(lambda: on.host.load(CCA))
    on.write(on.next_table())
    for number in range(count):
        if number % 3 == 2:
            kill_load_of_loaded(on, longest_s=longest_s)
            continue
        on.host.unload(CCA)
        on.kill("load", CCA, longest_s=longest_s)
        on.tally.loads += 1
        done = CCA in available_ccas()
        on.tally.loads_done += done
        on.tally.loads_cut += not done and (on.pins / CCA).is_dir()
        if number % 3 == 1:
            undo_recovery(on)
        if number % 3 == 1 or not done:
            on.host.load(CCA)
        on.write(on.next_table())
    on.host.unload(CCA)


def kill_load_of_loaded(on: Site, *, longest_s: float) -> None:
    """A load of what is loaded is refused, and killed or not it changes nothing."""
    in_force = on.host.read(CCA, "ensemble")
    on.kill("load", CCA, longest_s=longest_s)
    on.tally.loads += 1
    on.tally.loads_of_loaded += 1
    on.require_in_force(in_force)
    on.write(on.next_table())


def undo_recovery(on: Site) -> None:
    """Unload after a killed load, which may have loaded nothing yet."""
    if (on.pins / CCA).is_dir():
        on.host.unload(CCA)
    if CCA in available_ccas() or (on.pins / CCA).exists():
        raise ShortfallError("expected nothing left of a killed load after unload")


def in_bpf(host: BpfHost, program: Path, pins: Path) -> Kernel:
    """GR in BPF. A reboot loads it anew."""

    def reboot() -> None:
        host.unload(CCA)
        host.load(CCA)

    def settle() -> None:
        # A killed agent does not take the writer with it that it has started.
        while any(words.startswith(str(program)) for words in commands()):
            time.sleep(0.01)

    return Kernel(
        tree=BpfTree(lambda: host),
        options=["--via", "bpf"],
        environment={"CCATUNE_BPF": str(program), "CCATUNE_BPF_PINS": str(pins)},
        reboot=reboot,
        settle=settle,
    )


def commands() -> Iterator[str]:
    """The command line of each process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it is gone


def kill_all(on: Site, *, agents: int, writes: int, loads: int, flows: int, seed: int) -> None:
    """Run the campaign. Raises ShortfallError."""
    on.host.load(CCA)
    found = campaign(kills=agents, seed=seed, kernel=in_bpf(on.host, on.program, on.pins))
    if found.failures:
        raise ShortfallError("; ".join(found.failures))
    on.tally.agents = agents
    on.require_few_pins()
    on.host.unload(CCA)
    kill_writes(on, count=writes, flows=flows)
    kill_loads(on, count=loads)
    on.objects(0)


def run_campaign(folder: Path, *, program: Path, agents: int, writes: int, loads: int, flows: int, seed: int) -> Tally:
    """Run the campaign in a folder, with a BPF file system of its own. Raises ShortfallError."""
    pins = folder / "bpffs"
    with sole_host(program, pins) as host:
        on = Site(host, program, pins / "ccatune", folder, random.Random(seed), Tally())
        kill_all(on, agents=agents, writes=writes, loads=loads, flows=flows, seed=seed)
    return on.tally


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=50, show_default=True, help="Kills of each program.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the moments and of the moves.")
def main(*, count: int, seed: int) -> None:
    """Kill each program COUNT times; exit 0 where everything held, 1 where something did not."""
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-bpf-") as folder:
        try:
            tally = run_campaign(
                Path(folder), program=built_program(), agents=count, writes=count, loads=count, flows=FLOWS, seed=seed
            )
        except ShortfallError as error:
            click.echo(f"kill_bpf: falls short: {error}")
            sys.exit(1)
    click.echo(tally.line())


if __name__ == "__main__":
    main()
