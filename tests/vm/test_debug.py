# SPDX-License-Identifier: MIT
"""The modules in the debug kernel, by the campaign `kernel` alone (CCATUNE_VM_DEBUG=1, `make prove-kernel`).

First that the kernel finds faults made on purpose (tests/vm/faulty), so that one without its checks cannot pass. Then,
a boot for each module: memory refused, unloading while sockets come and go, and a search for leaks. What the
kernel logs beside what has to be there is a failure, whatever it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from emulation.vm import build_modules
from tests.vm import boot
from tests.vm.boot import Found, result_of
from tests.vm.job import job
from tests.vm.lines import DEBUG, DEBUG_LINE
from tests.vm.subjects import SUBJECTS, Subject

pytestmark = pytest.mark.vm
if not DEBUG:
    __test__ = False

FAULTY = Path(__file__).parent / "faulty"
TIMEOUT_S = 3600
PROGRAMS = ("faults", "unload")
CHECKS = (
    *("KASAN", "KASAN_GENERIC", "KASAN_VMALLOC", "UBSAN_BOUNDS", "UBSAN_SHIFT", "PROVE_LOCKING", "PROVE_RCU"),
    *("DEBUG_ATOMIC_SLEEP", "DEBUG_PREEMPT", "DEBUG_KMEMLEAK", "DEBUG_OBJECTS_FREE", "DEBUG_LIST"),
    *("FAULT_INJECTION", "FAULT_INJECTION_DEBUG_FS", "FAILSLAB", "FAIL_PAGE_ALLOC"),
)
# What the kernel says of each fault.
SAID = {
    "rcu": r"WARNING: suspicious RCU usage",
    "processor": r"BUG: using smp_processor_id\(\) in preemptible",
    "sleep": r"BUG: sleeping function called from invalid context",
    "shift": r"UBSAN: shift-out-of-bounds",
    "order": r"WARNING: possible circular locking dependency detected",
    "freed": r"BUG: KASAN: slab-use-after-free in faulty",
    "beyond": r"BUG: KASAN: slab-out-of-bounds in faulty",
    "leak": r"kmemleak: \d+ new suspected memory leaks",
}
# What the kernel itself says where a cache for flows is refused, ahead of a trace of the stack; EINVAL where it was the
# name for sysfs that was refused.
REFUSED = re.compile(r"kmem_cache_create\w*\(ccatune_\w+\) failed with error -(12|22)\b")
# And in lines by themselves, of that or of other memory.
REFUSED_ALONE = re.compile(
    r"kobject_add_internal failed for \S*ccatune_\S* \(error: -12|kobject: can not set name properly!|"
    r"SLUB: Unable to allocate memory on CPU|  cache: \S+, object size: \d+|  node \d+: slabs: \d+|"
    r"socket: no more sockets|kmemleak: Cannot allocate a scan area|kmemleak: \d+ new suspected memory leaks"
)


def without_refusals(lines: list[str]) -> list[str]:
    """The lines of a log that do not tell of a refusal; a trace ends with its `</TASK>`."""
    kept, within = [], False
    for line in lines:
        if REFUSED.search(line):
            within = True
        elif not within and not REFUSED_ALONE.search(line):
            kept.append(line)
        elif "</TASK>" in line:
            within = False
    return kept


def told(folder: Path) -> dict[str, Any]:
    """The job: sizes that a kernel of a tenth of the speed gets done in minutes."""
    return {
        **job(folder, long=False),
        "faults": {"writes": 40, "connections": 40, "namespaces": 8, "loads": 2, "processes": 4},
        "unload": {"rounds": 3},
    }


@pytest.fixture(scope="module")
def armed(tmp_path_factory: pytest.TempPathFactory) -> boot.Outcome:
    """What the kernel found of faults on purpose, in a boot of their own."""
    folder = tmp_path_factory.mktemp("armed")
    faulty = build_modules(DEBUG_LINE, source=FAULTY).paths["faulty"]
    words = {**told(folder), "faulty": str(faulty)}
    return boot.run_programs(DEBUG_LINE, ["armed"], words, folder=folder, timeout_s=TIMEOUT_S)["armed"]


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    """The module that a boot is for."""
    return SUBJECTS[request.param]


@pytest.fixture(scope="module")
def found(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the programs found of it."""
    folder = tmp_path_factory.mktemp(f"debug-{subject.cca}")
    names = [f"{program}:{subject.cca}" for program in (*PROGRAMS, "leaks")]
    outcomes = boot.run_programs(DEBUG_LINE, names, told(folder), folder=folder, timeout_s=TIMEOUT_S)
    print({name: outcome.seconds for name, outcome in outcomes.items()})  # noqa: T201 - shown where a test fails
    return outcomes


if DEBUG:

    def test_every_check_is_part_of_the_kernel(armed: boot.Outcome) -> None:
        assert not armed.error, armed.error
        lines = armed.result["configuration"].splitlines()
        assert [name for name in CHECKS if f"CONFIG_{name}=y" not in lines] == []

    def test_the_kernel_finds_each_fault_made_on_purpose(armed: boot.Outcome) -> None:
        log = "\n".join(armed.kernel_log)
        assert set(armed.result["faults"]) == set(SAID)
        assert [name for name, words in SAID.items() if not re.search(words, log)] == [], log
        assert "unreferenced object" in armed.result["unreferenced"]

    def test_memory_is_refused_where_it_is_to_be(armed: boot.Outcome) -> None:
        assert armed.result["asked"] == ""
        assert "Cannot allocate memory" in armed.result["asked and refused"]

    def test_locks_are_proved_until_the_first_fault_in_their_order(armed: boot.Outcome) -> None:
        assert (armed.result["before"], armed.result["after"]) == ("1", "0")

    @pytest.mark.parametrize("program", [*PROGRAMS, "leaks"])
    def test_nothing_is_in_the_kernel_log(found: Found, subject: Subject, program: str) -> None:
        result_of(found, program, subject)
        complaints = found[f"{program}:{subject.cca}"].complaints
        # What kmemleak counts late is of `faults`, too; whose it is says the result.
        assert (without_refusals(complaints) if program in {"faults", "leaks"} else complaints) == []

    def test_refused_memory_is_told_and_what_was_in_force_stays(found: Found, subject: Subject) -> None:
        seen = result_of(found, "faults", subject)
        assert seen["written"]["tables_nobody_wrote"] == 0
        for name in ("ensemble", "parameters", "settings", "recording"):
            answers = seen["written"]["answers"][name]
            assert answers.keys() <= {"done", "ENOMEM", "ESTALE", "EEXIST"}, seen
            assert answers["done"] > 0, seen
            assert answers["ENOMEM"] > 0, seen
        assert seen["good table afterwards"]
        assert seen["leaked"] == ""

    def test_connections_without_memory_are_plain_and_lose_nothing(found: Found, subject: Subject) -> None:
        seen = result_of(found, "faults", subject)
        assert seen["connected"]["lost"] == seen["afterwards"]["lost"] == 0
        assert seen["connected"]["names"].keys() == {subject.name, subject.plain_name}
        assert seen["afterwards"]["names"].keys() == {subject.name}

    def test_namespaces_and_modules_without_memory_are_not_made(found: Found, subject: Subject) -> None:
        seen = result_of(found, "faults", subject)
        assert seen["namespaces"].keys() <= {"done", "ENOMEM"}
        assert seen["namespaces"]["ENOMEM"] > 0
        assert seen["loaded"].keys() == {"refused"}

    def test_a_module_is_unloaded_while_sockets_come_and_go(found: Found, subject: Subject) -> None:
        assert result_of(found, "unload", subject)["unloaded"] == 3

    def test_nothing_leaks_and_locks_were_proved_to_the_end(found: Found, subject: Subject) -> None:
        seen = result_of(found, "leaks", subject)
        assert seen["loaded"] == seen["unloaded"] == ""
        assert seen["lockdep"]["debug_locks"] == "1"
