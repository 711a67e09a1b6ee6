# SPDX-License-Identifier: MIT
"""The files of ccatune-bpf: the texts, the rules and the errors that /proc has."""

from __future__ import annotations

import errno
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from emulation.standin import StandInTree
from kmod.bpf_host import BPF_CCAS, BpfHost
from tests.bpf.conftest import kernel_objects
from tests.vm import cases
from tests.vm.subjects import GR, ROCCET, Subject

# What the end of the text means: /proc learns of it when the file is closed, and cannot refuse that.
UNFINISHED = "a text without end is discarded"


def errno_of(host: BpfHost, cca: str, file: str, text: str) -> int:
    """0, or why a write is refused."""
    try:
        host.write(cca, file, text)
    except OSError as error:
        return error.errno or -1
    return 0


def status_of(host: BpfHost, cca: str) -> dict[str, str]:
    """The totals by name."""
    return dict(line.split(" ", 1) for line in host.read(cca, "status").splitlines())


@pytest.mark.parametrize("subject", [GR, ROCCET], ids=lambda subject: subject.cca)
def test_every_write_gets_the_answer_of_proc(host: BpfHost, tmp_path: Path, subject: Subject) -> None:
    stand_in, cca = StandInTree(tmp_path / "proc"), subject.cca
    host.load(cca)
    for name, (steps, answers) in cases.cases(subject).items():
        host.write(cca, "ensemble", "clear\n")
        host.write(cca, "parameters", cases.default_parameters(subject))
        before = status_of(host, cca)
        given = [errno_of(host, cca, file, text) for file, text in steps]
        expected = cases.outcome_of_stand_in(stand_in, subject, steps)
        after = status_of(host, cca)
        assert given == ([0, errno.EINVAL] if name == UNFINISHED else answers), name
        assert host.read(cca, "ensemble") == expected["ensemble"], name
        assert host.read(cca, "parameters") == expected["parameters"], name
        assert (after["serial"], after["digest"]) == (expected["serial"], expected["digest"]), name
        assert int(after["generation"]) - int(before["generation"]) == expected["changes"], name
        assert int(after["rejected_writes"]) - int(before["rejected_writes"]) == expected["rejected"], name


def test_a_table_outlives_the_program_and_ends_with_unload(host: BpfHost) -> None:
    before = kernel_objects()
    for cca in BPF_CCAS:
        host.load(cca)
    host.write("gr", "ensemble", cases.text(GR))
    host.write("gr", "recording", "start 100\n")
    assert host.loaded() == sorted(BPF_CCAS)
    assert host.read("gr", "ensemble") == cases.text(GR)
    made = kernel_objects() - before
    assert len(made) > 40
    for cca in BPF_CCAS:
        host.unload(cca)
    assert host.loaded() == []
    deadline = time.monotonic() + 20  # the kernel frees them a while later
    while made & kernel_objects() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not made & kernel_objects()


def test_who_is_not_loaded_says_how_to_load_it(host: BpfHost) -> None:
    with pytest.raises(OSError, match=r"gr is not loaded .*`ccatune-bpf load gr`") as caught:
        host.read("gr", "status")
    assert caught.value.errno == errno.ENOENT


def test_a_second_load_is_refused_and_changes_nothing(host: BpfHost) -> None:
    host.load("gr")
    host.write("gr", "ensemble", cases.text(GR))
    with pytest.raises(OSError, match="gr is loaded already"):
        host.load("gr")
    assert host.read("gr", "ensemble") == cases.text(GR)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "reno"], f"an algorithm among {', '.join(BPF_CCAS)}, got reno"),
        (["read", "gr", "rows"], "expected a file among parameters, .*, got rows"),
        (["--pins", "pins", "load", "gr"], "--pins: expected an absolute folder"),
        (["write", "gr", "status"], "status is only read"),
        (["frobnicate"], "Usage: ccatune-bpf"),
    ],
)
def test_a_wrong_command_is_told_what_was_expected(program: Path, arguments: list[str], said: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode
    assert re.search(said, done.stderr), done.stderr


def test_mutated_writes_put_nothing_in_force_that_nobody_wrote(host: BpfHost) -> None:
    rng = random.Random(1)
    host.load("gr")
    offered = {"", cases.text(GR)}
    host.write("gr", "ensemble", cases.text(GR))
    for serial in range(2, 60):
        text = list(cases.text(GR, serial))
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(3)] = [chr(rng.randrange(1, 127)) for _ in range(rng.randrange(3))]
        mutated = "".join(text)
        offered.add(mutated)
        errno_of(host, "gr", "ensemble", mutated)
        assert host.read("gr", "ensemble") in offered
