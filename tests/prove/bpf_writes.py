# SPDX-License-Identifier: MIT
"""Random and mutated writes to every file of `ccatune-bpf write`, on this machine's kernel.

    python -m tests.prove.bpf_writes [--count 10000] [--seed 1]

Each write is a process, and so is the look at the file after it. The files take turns at random, so that tables are
also replaced while a recording runs. After every write:

  - the table in force is none, or the beginning of a text that was written, up to its `end`; and it is the table of the
    stand-in (emulation/standin.py), which got the same texts
  - the parameters are those of the stand-in. The settings are as before if the write was refused, and otherwise they
    have the values that the text names. The recording runs exactly if the last accepted command started it
  - the exit status is 0 or one of the errors of docs/proc.md, the same as the stand-in's, and a refusal says what was
    expected

The algorithms with a table share the writes and run at the same time: a write that is taken waits for the kernel. The
writes come in rounds between a load and an unload. The number of maps stays what the configurations take. After that no
program, no map and no pin is left of those that were made. Exits 0 where all of this holds, otherwise 1 with the text
that showed it.
"""

from __future__ import annotations

import errno
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import click

from emulation.standin import StandInTree
from kmod.bpf_host import BPF_CCAS, BpfHost
from tests.bpf.conftest import kernel_objects
from tests.bpf.sole import built_program, sole_host
from tests.vm import cases
from tests.vm.subjects import SUBJECTS, Subject

REPOSITORY = Path(__file__).resolve().parents[2]
# Programs of the guest: they import each other by name.
sys.path[:0] = [str(REPOSITORY / "tests" / "vm" / "guest"), str(REPOSITORY / "emulation" / "vm")]

from storm import near  # noqa: E402 - found on the path just made

FILES = ("ensemble", "parameters", "settings", "recording")
ERRORS = {0, errno.EINVAL, errno.ERANGE, errno.EFBIG, errno.EEXIST, errno.ESTALE}
SETTINGS = "class_source 1\nclass_mask 4294967295\ndefault_class 0\nmax_flows 65536\n"
COMMAND = re.compile(r"(?:start ([1-9][0-9]*)|stop|clear)\n?")
MOST_RECORDS = 1 << 18
# What a refusal has to contain.
EXPLAINED = re.compile(r"expected |the table in force has the serial ")
# Maps of one table (its sums and delays, and those of the one before), of a configuration and of a recording.
MOST_MORE_MAPS = 8
SETTLE_S = 60.0
# Writes to each file between a load and an unload, of all algorithms. Other users of BPF get their turn after a round.
ROUND = 2500


class ShortfallError(Exception):
    """What should always hold did not."""


@dataclass
class Campaign:
    """What was written, and what should be in force of it."""

    subject: Subject
    rng: random.Random
    serial: int = 0
    answers: dict[str, Counter[int]] = field(default_factory=lambda: {name: Counter() for name in FILES})
    unexplained: Counter[str] = field(default_factory=Counter)
    tables: int = 0

    def begin(self, host: BpfHost, command: list[str], *, folder: Path) -> None:
        """Begin a round on a host that was just loaded. command: the program, with its folder of pins."""
        self.host, self.command = host, command
        self.stand_in = StandInTree(folder / f"stand-in-{self.cca}")
        self.written = set()
        self.settings = self.read_settings()
        self.is_recording = False

    @property
    def cca(self) -> str:
        """The algorithm."""
        return self.subject.cca

    def write_many(self, count: int) -> None:
        """Write so often to each file, in a random order. Raises ShortfallError."""
        order = [name for name in FILES for _ in range(count)]
        self.rng.shuffle(order)
        for name in order:
            self.write(name)

    def good(self, file: str) -> str:
        """A text that the file takes, or took once."""
        if file == "parameters":
            return self.rng.choice(
                [cases.default_parameters(self.subject), f"{self.subject.knob[0]} {self.subject.knob[2]}\n", "clear\n"]
            )
        if file == "settings":
            return SETTINGS
        if file == "recording":
            return self.rng.choice(["start 100\n", "stop\n", "clear\n"])
        if self.rng.random() < 0.05:
            return "clear\n"
        self.serial += 1
        serial = max(1, self.serial - self.rng.choice((0, 0, 0, 1, 2)))
        channel = self.rng.choice(("champion", "champion", "champion", "canary"))
        text = cases.text(self.subject, serial, channel=channel, base=self.rng.randrange(10, 80))
        return cases.urgent(text) if self.rng.random() < 0.2 else text

    def text(self, file: str) -> str:
        """A text to write: nearly good, or too long."""
        text = near(self.rng, self.good(file))
        if self.rng.random() < 0.01:
            text += text * (300_000 // max(len(text), 1))
        return text

    def write(self, file: str) -> None:
        """Write once and look. Raises ShortfallError."""
        text = self.text(file)
        status, said = self.run(file, text)
        self.answers[file][status] += 1
        if status not in ERRORS:
            raise ShortfallError(
                f"{file}: expected an error of docs/proc.md, got status {status}: {said!r} for {text!r}"
            )
        if status and not EXPLAINED.search(said):
            self.unexplained[f"{file}: {said.strip()}"] += 1
        try:
            getattr(self, f"look_at_{file}")(text, status)
        except ShortfallError as error:
            raise ShortfallError(f"{self.cca}/{file}: {error}, after status {status} for {text[:2000]!r}") from None

    def run(self, file: str, text: str) -> tuple[int, str]:
        """Exit status and complaint of a write. The bytes need not be text, so this does without BpfHost.write."""
        command = [*self.command, "write", self.cca, file]
        done = subprocess.run(command, input=text.encode("latin-1"), capture_output=True, check=False)
        return done.returncode, done.stderr.decode(errors="replace")

    def answer_of_stand_in(self, file: str, text: str) -> int:
        """The errno that it gives for the same text."""
        try:
            self.stand_in.write(self.cca, file, text)
        except OSError as error:
            return error.errno or -1
        return 0

    def look_at_ensemble(self, text: str, status: int) -> None:
        """The table in force, beside what was written and beside the stand-in's."""
        self.written.add(text)
        expected = self.answer_of_stand_in("ensemble", text)
        # /proc discards a text without `end` when the file is closed, and cannot say so.
        is_unfinished = expected == 0 and status == errno.EINVAL
        if status != expected and not is_unfinished:
            raise ShortfallError(f"expected status {expected}")
        in_force = self.host.read(self.cca, "ensemble")
        if in_force != self.stand_in.read(self.cca, "ensemble"):
            raise ShortfallError(f"the stand-in has another table in force than {in_force[:300]!r}")
        if in_force and not any(one.startswith(in_force) for one in self.written):
            raise ShortfallError(f"nobody wrote the table in force, {in_force!r}")
        self.tables += status == 0 and bool(in_force)
        # Only a text that is in force can be met again.
        self.written = {one for one in self.written if in_force and one.startswith(in_force)}

    def look_at_parameters(self, text: str, status: int) -> None:
        """The parameters, beside the stand-in's."""
        expected = self.answer_of_stand_in("parameters", text)
        if status != expected:
            raise ShortfallError(f"expected status {expected}")
        found = self.host.read(self.cca, "parameters")
        if found != self.stand_in.read(self.cca, "parameters"):
            raise ShortfallError(f"the stand-in has other parameters than {found!r}")

    def look_at_settings(self, text: str, status: int) -> None:
        """The settings: those from before, or those that the text names."""
        if status == 0:
            self.settings |= {name: int(value) for name, value in map(str.split, text.splitlines())}
        found = self.read_settings()
        if found != self.settings:
            raise ShortfallError(f"expected {self.settings}, got {found}")

    def look_at_recording(self, text: str, status: int) -> None:
        """Whether it runs."""
        command = COMMAND.fullmatch(text)
        is_good = bool(command) and (not command[1] or int(command[1]) <= MOST_RECORDS)
        if is_good != (status == 0):
            raise ShortfallError(f"expected it {'taken' if is_good else 'refused'}")
        if is_good:
            self.is_recording = text.startswith("start")
        try:
            self.host.read_bytes(self.cca, "recording")
            runs = False
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            runs = True
        if runs != self.is_recording:
            raise ShortfallError(f"expected it {'running' if self.is_recording else 'stopped'}")

    def read_settings(self) -> dict[str, int]:
        """Values by name."""
        lines = [line.split() for line in self.host.read(self.cca, "settings").splitlines()]
        return {words[0]: int(words[1]) for words in lines}


def objects_once(holds: Callable[[set[tuple[str, int]]], bool], *, before: set[tuple[str, int]]) -> Counter[str]:
    """How many programs and maps there are beside those of before, once it holds or after SETTLE_S.

    The kernel frees objects a moment after their last use.
    """
    end_s = time.monotonic() + SETTLE_S
    while not holds(found := kernel_objects() - before) and time.monotonic() < end_s:
        time.sleep(0.2)
    return Counter(kind for kind, _ in found)


def run_round(program: Path, folder: Path, campaigns: list[Campaign], *, count: int) -> None:
    """Load, write, look and unload. count: writes to each file, which the campaigns share. Raises ShortfallError."""
    with sole_host(program, folder / "bpffs") as host, ThreadPoolExecutor(len(campaigns)) as pool:
        before = kernel_objects()
        for campaign in campaigns:
            host.load(campaign.cca)
        loaded = Counter(kind for kind, _ in kernel_objects() - before)
        pins = folder / "bpffs" / "ccatune"
        for campaign in campaigns:
            campaign.begin(host, [str(program), "--pins", str(pins)], folder=folder)
        jobs = [pool.submit(campaign.write_many, -(-count // len(campaigns))) for campaign in campaigns]
        for job in jobs:
            job.result()
        most_maps = loaded["map"] + MOST_MORE_MAPS * len(campaigns)
        held = objects_once(lambda found: sum(kind == "map" for kind, _ in found) <= most_maps, before=before)
        for campaign in campaigns:
            host.unload(campaign.cca)
        left = objects_once(lambda found: not found, before=before)
        pinned = sorted(path.name for path in pins.iterdir())
    figures = f"{dict(loaded)} loaded, {dict(held)} after the writes, {dict(left)} after unload"
    if held["map"] > most_maps or left or pinned:
        raise ShortfallError(f"expected at most {most_maps} maps, then none, and no pin, got {figures}, pins {pinned}")
    click.echo(f"{count} writes to each file; programs and maps: {figures}")


def run_campaign(program: Path, *, count: int, seed: int) -> str:
    """Run all rounds; what was found, in a line. Raises ShortfallError."""
    subjects = [subject for cca, subject in SUBJECTS.items() if cca in BPF_CCAS]
    campaigns = [Campaign(subject, random.Random(f"{seed} {subject.cca}")) for subject in subjects]
    for done in range(0, count, ROUND):
        with tempfile.TemporaryDirectory(prefix="ccatune-bpf-writes-") as folder:
            run_round(program, Path(folder), campaigns, count=min(ROUND, count - done))
    for campaign in campaigns:
        for name, answers in campaign.answers.items():
            given = ", ".join(
                f"{errno.errorcode[code] if code else 'taken'} {n}" for code, n in sorted(answers.items())
            )
            click.echo(f"{campaign.cca}/{name}: {given}")
    unexplained = sum((campaign.unexplained for campaign in campaigns), Counter[str]())
    if unexplained:
        raise ShortfallError(f"refusals that do not say what was expected: {dict(unexplained)}")
    writes = {name: sum(campaign.answers[name].total() for campaign in campaigns) for name in FILES}
    tables = sum(campaign.tables for campaign in campaigns)
    return (
        f"{min(writes.values())} writes to each of {len(FILES)} files, {tables} tables taken: none in force that "
        "nobody wrote, every refusal explained, nothing left after unload"
    )


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=10_000, show_default=True, help="Writes to each file.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the texts and their order.")
def main(*, count: int, seed: int) -> None:
    """Write; exit 0 where everything held, 1 where something did not."""
    try:
        click.echo(run_campaign(built_program(), count=count, seed=seed))
    except ShortfallError as error:
        click.echo(f"bpf_writes: falls short: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
