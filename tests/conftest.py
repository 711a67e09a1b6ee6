# SPDX-License-Identifier: MIT
"""What every test can use, and the rules of the tiers.

A test without a tier's marker is of the tier `unit`. A tier that the machine cannot run is skipped with the
reason, and the summary lists every tier: how many ran, or why none did. CCATUNE_REQUIRE_TIERS ("all", or
names with commas between) turns every skip in the named tiers into a failure: CI sets it, so that nothing is
left out there unnoticed.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

from emulation.mahimahi import lacking as lacking_for_links
from emulation.pantheon.runner import lacking as lacking_for_schemes
from emulation.vm import lacking
from kmod import bpf_host

# How long an example takes says how busy the machine is, and nothing of what is tested.
hypothesis.settings.register_profile("ccatune", deadline=None)
hypothesis.settings.load_profile("ccatune")

# Who is started in the background of a shell ignores Ctrl-C, and so would every program that a test starts and stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Readline, which pytest imports, sets them to the size of a terminal. Output to a pipe has no width of its own.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)
    os.unsetenv(variable)

REPOSITORY = Path(__file__).resolve().parent.parent
VM_FOLDER = "vm"
# These take turns with the names of BPF (tests/bpf/sole.py), so a second worker would only wait for the first one.
BPF_FILES = (
    "bpf/", "emulation/test_bpf_bench.py", "mahimahi/test_in_bpf.py", "mahimahi/test_proxy.py", "test_this_kernel.py",
)  # fmt: skip
# Files that take a minute or so. If one of them began last, a worker would wait for it.
LONG_FILES = ("evaluation/test_cluster.py", "real_links/test_policers.py", "real_links/test_real_links.py")
# Flows of this machine's kernel in real time: another load of the machine, or of its host, changes what they reach.
REAL_TIME = ("mahimahi", "bpf", "pantheon")
AXE = REPOSITORY / "build" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
REQUIRED = frozenset(os.environ.get("CCATUNE_REQUIRE_TIERS", "").replace(",", " ").split())


def lacks_commands(*commands: str) -> str:
    """The commands of these that are not on PATH, as a reason; "" if all are."""
    lacking = [command for command in commands if shutil.which(command) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def lacking_for_bpf() -> str:
    """What the tier bpf lacks: the objects are built by its first test."""
    return bpf_host.lacking() or lacks_commands("clang-19", "bpftool", "ip", "tc")


def lacking_for_browser() -> str:
    """What the tier browser lacks: Playwright, Chromium, and what `make setup` brings by npm."""
    if find_spec("playwright") is None:
        return "not installed: playwright"
    if not AXE.is_file():
        return "not installed: axe-core, which `make setup` brings by npm"
    return lacks_commands("chromium")


# Each tier and what it lacks on this machine ("" when it can run).
TIERS: dict[str, Callable[[], str]] = {
    "unit": lambda: "",
    "service": lambda: "",
    "browser": lacking_for_browser,
    "vm": lacking,
    "mahimahi": lacking_for_links,
    "bpf": lacking_for_bpf,
    "pantheon": lacking_for_schemes,
    "ray": lambda: "" if find_spec("ray") else "not installed: ray (the extra `search`)",
}


def tier_of(keywords: object) -> str:
    """The tier whose marker is among a test's keywords; `unit` without one."""
    assert hasattr(keywords, "__contains__")
    return next((tier for tier in TIERS if tier != "unit" and tier in keywords), "unit")


def is_required(tier: str) -> bool:
    """Whether a skip in this tier is to be a failure."""
    return bool(REQUIRED & {"all", tier})


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a tier that does not exist, which would otherwise demand nothing."""
    del config
    unknown = REQUIRED - {"all", *TIERS}
    if unknown:
        raise pytest.UsageError(
            f"CCATUNE_REQUIRE_TIERS: expected all or some of {', '.join(TIERS)}, got {', '.join(sorted(unknown))}"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tier vm goes first: it takes longest. Flows of this machine's kernel go last: they disturb nobody there.

    Within each of these groups, long files begin first, so that both workers end at about the same time. A test of such
    flows that fails runs a second time, and the summary lists it. A fault of the product fails both times.
    """

    def turn(item: pytest.Item) -> tuple[int, bool]:
        if item.get_closest_marker("vm"):
            return 0, False
        in_turn, real_time = is_in(item.nodeid, BPF_FILES), tier_of(item.keywords) in REAL_TIME
        return 2 if in_turn else 3 if real_time else 1, not is_in(item.nodeid, LONG_FILES)

    items.sort(key=turn)
    for item in items:
        if tier_of(item.keywords) in REAL_TIME:
            item.add_marker(pytest.mark.flaky(reruns=1))


def is_in(nodeid: str, files: tuple[str, ...]) -> bool:
    """Whether a test is in one of the files. A name that ends in / is of a folder, and others are ends of paths."""
    file = "/" + nodeid.partition("::")[0]
    return any(f"/{name}" in file if name.endswith("/") else file.endswith(f"/{name}") for name in files)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """With --dist loadgroup: the folder of the tier vm to one worker, any other file to whoever is free, in order.

    The files that take turns with the names of BPF go to one worker as well. The virtual machines take turns then, and
    the other worker does the rest; a file's fixtures are made once.
    pytest-xdist's own groups travel in the name of a test, where pytest from 9.2 on does not look any more: they are
    silently ignored.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if is_in(nodeid, BPF_FILES):
                return "bpf"
            return "vm" if VM_FOLDER in file.split("/")[:-1] else file

    config.option.loadscopereorder = False
    return Scheduling(config, log)  # type: ignore[arg-type]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tier this machine cannot run."""
    reason = TIERS[tier_of(item.keywords)]()
    if reason:
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where its tier is demanded."""
    report = yield
    tier = tier_of(item.keywords)
    if report.skipped and is_required(tier) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"tier {tier} is demanded by CCATUNE_REQUIRE_TIERS, but was skipped: {reason_of(report)}"
    return report


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped, without pytest's own prefix."""
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def tier_lines(tier: str, *, ran: int, left_out: Counter[str]) -> list[str]:
    """What the summary says of one tier; left_out counts tests by reason."""
    if ran or left_out:
        reasons = [f"     {count} left out: {reason}" for reason, count in left_out.items()]
        return [f"tier {tier:<9} {ran} ran, {left_out.total()} left out", *reasons]
    lacks = TIERS[tier]()
    return [f"tier {tier:<9} no test there or chosen" + (f"; this machine could run none: {lacks}" if lacks else "")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each tier: how many tests ran, and why any was left out."""
    ran: Counter[str] = Counter()
    left_out: dict[str, Counter[str]] = {tier: Counter() for tier in TIERS}
    for outcome in ("passed", "failed", "error", "xfailed"):
        reports = terminalreporter.getreports(outcome)
        # A file that cannot be imported is an error of no tier.
        ran.update(tier_of(report.keywords) for report in reports if isinstance(report, pytest.TestReport))
    for report in terminalreporter.getreports("skipped"):
        left_out[tier_of(report.keywords)][reason_of(report)] += 1
    terminalreporter.section("tiers")
    for tier in TIERS:
        for line in tier_lines(tier, ran=ran[tier], left_out=left_out[tier]):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def replayer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replays recordings of a kernel in the core (tests/contract/replaying.py); compiled once for all workers."""
    from tests.contract.replaying import compile_replayer
    from tests.once import made_once

    return made_once(tmp_path_factory, "replayer", compile_replayer) / "replay"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the working copy."""
    return REPOSITORY


@pytest.fixture(scope="session")
def recorded_traces() -> Path:
    """The folder of recorded traces: $CCATUNE_TRACES, else shared/traces beside the working copy.

    Skips the test where neither is there. A test that needs any trace rather than these makes one.
    """
    named = os.environ.get("CCATUNE_TRACES")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(f"no recorded traces at {folder if named else '../shared/traces'}; set CCATUNE_TRACES")
    return folder
