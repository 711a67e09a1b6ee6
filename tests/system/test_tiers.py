# SPDX-License-Identifier: MIT
"""The rules of the tiers: what is left out is said, and where it is demanded it is a failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BPF_FILES, LONG_FILES, is_in

TESTS = Path(__file__).resolve().parents[1]
SAMPLE = """
import pytest

def test_that_runs():
    pass

def test_that_skips_itself():
    pytest.skip("no clang here")

@pytest.mark.vm
def test_that_needs_a_machine():
    pass
"""


def run_sample(folder: Path, *, required: str, workers: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the sample under our conftest, with no program on PATH, so that the vm tier cannot run."""
    shutil.copy(TESTS / "conftest.py", folder)
    shutil.copy(TESTS.parent / "pyproject.toml", folder)
    (folder / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    environment = {**os.environ, "PATH": str(folder), "CCATUNE_REQUIRE_TIERS": required}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", str(workers), "test_sample.py"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_skipped_tests_are_listed_by_tier_with_reasons(tmp_path: Path) -> None:
    done = run_sample(tmp_path, required="", workers=1)
    assert done.returncode == 0, done.stdout
    assert "tier unit      1 ran, 1 left out\n     1 left out: no clang here\n" in done.stdout
    assert (
        "tier vm        0 ran, 1 left out\n     1 left out: not installed: qemu-system-x86_64, busybox, setpriv\n"
        in done.stdout
    )
    assert "tier service   no test there or chosen\n" in done.stdout


@pytest.mark.parametrize(("required", "failures"), [("all", 2), ("vm", 1)])
def test_skip_in_a_demanded_tier_is_a_failure(tmp_path: Path, required: str, failures: int) -> None:
    done = run_sample(tmp_path, required=required)
    said = [line for line in done.stdout.splitlines() if re.match(r"tier \w+ is demanded by .*skipped: \S", line)]
    assert len(said) == failures
    assert done.returncode != 0


def test_the_tests_of_the_tier_vm_go_to_one_worker_and_those_of_bpf_too(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
    for folder in ("vm", "bpf"):
        (tmp_path / folder).mkdir()
    one = "import time\n\n\ndef test_{0}():\n    time.sleep(0.02)\n"
    for number in range(6):
        for name in ("vm/test", "bpf/test", "test_beside"):
            (tmp_path / f"{name}_{number}.py").write_text(one.format(number), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "-v", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    ran = re.findall(r"\[(gw\d)\].* PASSED (\S+)::", done.stdout)
    assert len(ran) == 18, done.stdout
    for folder in ("vm/", "bpf/"):
        assert len({worker for worker, file in ran if file.startswith(folder)}) == 1, done.stdout
    assert {worker for worker, _ in ran} == {"gw0", "gw1"}, done.stdout


def test_the_files_whose_order_is_chosen_exist() -> None:
    nodeids = [str(path) for path in TESTS.rglob("test_*.py")]
    for name in (*BPF_FILES, *LONG_FILES):
        assert any(is_in(nodeid, (name,)) for nodeid in nodeids), name


def test_unknown_tier_cannot_be_demanded(tmp_path: Path) -> None:
    done = run_sample(tmp_path, required="vms")
    assert done.returncode == 4
    assert "expected all or some of unit, service, browser, vm, mahimahi, bpf, pantheon, ray, got vms" in done.stderr
