# SPDX-License-Identifier: MIT
"""The programs that run in the one boot of a line, for the tests of the modules and of the algorithms in BPF."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.vm import boot
from tests.vm.boot import Found
from tests.vm.job import job
from tests.vm.lines import DEBUG, FULL_LINES, LONG
from tests.vm.subjects import GR, RTCP, RTCP_CUBIC, SIRA, SUBJECTS, Subject

PROGRAMS = ["clients", "rules", "rights", "reload", "life", "follow", "record"]
PROGRAMS += ["recall", "storm", "marks", "many"] if LONG or DEBUG else []
# What other modules have of their own, in the tier; all else is the shell's, as under GR, and the campaign's. The tier
# bpf has recordings of all algorithms.
OWN_PROGRAMS = {"rtcp_cubic": ["clients"]}
# What the other lines have, by module: in the tier a table written, a flow under it, and its replay, all of them brief.
BRIEF = {GR.cca: ["record"]}
ESSENTIALS = {cca: ["record"] for cca in SUBJECTS} | {GR.cca: ["rules", "record"]}
# The program of test_bpf.py, and that of test_clients.py.
BPF = "bpf"
CLIENTS = f"clients:{RTCP_CUBIC.cca}"
TIMEOUT_S = 7200 if LONG or DEBUG else 1500
# Where the verifier cannot follow R-TCP (docs/bpf.md).
WITHOUT_RTCP = {"6.1"}
# Times as long as alone. A closed socket whose peer's last words a path took with it when it went tries again for some
# 150 s, and its module stays for it: a program that unloads has to wait for those of the programs before.
PATIENCE = 20
# On a debug kernel a sender hardly keeps fifty flows busy: between two of a flow's pauses, which measure the sender,
# there are seldom the 250 ms of the other tables' estimates, and a flow without any has no row.
SLOW_ESTIMATE_MS = 50


def programs_of(line: str, cca: str) -> list[str]:
    """What runs for a module on a line."""
    if line not in FULL_LINES:
        return (ESSENTIALS if LONG else BRIEF).get(cca, [])
    if not LONG and not DEBUG and cca != GR.cca:
        return OWN_PROGRAMS.get(cca, [])
    # Whose rows are not by throughput; who answers marks of ECN itself; one of those who share their files' code.
    marks_lack = cca not in (GR.cca, SIRA.cca)
    lacks = {"follow": SUBJECTS[cca].shares_clients, "marks": marks_lack, "clients": cca != RTCP_CUBIC.cca}
    return [name for name in PROGRAMS if not lacks.get(name)]


def bpf_flows(line: str) -> list[Subject]:
    """Whose flows run in BPF on a line."""
    return [subject for subject in SUBJECTS.values() if subject not in RTCP or line not in WITHOUT_RTCP]


def names_of_modules(line: str, *, files: set[str], ccas: set[str]) -> list[str]:
    """The programs of these files of tests, and of these modules in them, as boot.run_programs names them."""
    if "test_modules.py" not in files:
        return [CLIENTS] if "test_clients.py" in files else []
    known = [f"{program}:{cca}" for cca in SUBJECTS for program in programs_of(line, cca)]
    also = CLIENTS if "test_clients.py" in files else ""
    names = [name for name in known if name == also or name.partition(":")[2] in ccas]
    return names + ([f"leaks:{GR.cca}"] if DEBUG and GR.cca in ccas else [])


def run_on(line: str, names: list[str], *, folder: Path) -> Found:
    """Boot the line and run these programs."""
    full = line in FULL_LINES
    told = {**job(folder, long=LONG), "patience": PATIENCE, "full_line": full}
    told["bpf_flows"] = [subject.cca for subject in bpf_flows(line)]
    if not full and not LONG:
        told["brief"] = True
    if DEBUG:
        for its in told["subjects"].values():
            its["tables"] |= with_brief_estimates(its["tables"])
    outcomes = boot.run_programs(line, names, told, folder=folder, timeout_s=TIMEOUT_S)
    print({name: outcome.seconds for name, outcome in outcomes.items()})  # noqa: T201 - shown where a test fails
    outcomes["folder"] = boot.Outcome("folder", folder, "", [], 0)
    outcomes["line"] = boot.Outcome("line", line, "", [], 0)
    outcomes["brief"] = boot.Outcome("brief", told["brief"], "", [], 0)
    return outcomes


def with_brief_estimates(tables: dict[str, str]) -> dict[str, str]:
    """The tables that fifty flows are on, with estimates that a slow sender leaves time for."""
    own = f"\nestimate_ms {SLOW_ESTIMATE_MS}\n"
    return {name: tables[name].replace("\nestimate_ms 250\n", own) for name in ("held_back", "moved")}


def bpf_lacks() -> str:
    """What this machine lacks to build ccatune-bpf and to count its objects; "" if nothing."""
    # The PATH of an ordinary user lacks the folder of bpftool; that of the guest has it.
    places = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    lacking = [name for name in ("clang-19", "bpftool") if not shutil.which(name, path=places)]
    return f"not installed: {', '.join(lacking)} (make setup)" if lacking else ""


def build_bpf() -> str:
    """Build ccatune-bpf, under the lock of `make bpf`. What the compiler said where it failed; "" otherwise."""
    done = subprocess.run(["make", "-s", "bpf"], cwd=boot.REPOSITORY, capture_output=True, text=True, check=False)
    return f"make bpf: status {done.returncode}\n{done.stderr}" if done.returncode else ""
