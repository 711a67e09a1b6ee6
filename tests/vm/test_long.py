# SPDX-License-Identifier: MIT
"""What takes minutes under software emulation: run by the campaign `vm` alone (CCATUNE_VM_LONG=1)."""

from __future__ import annotations

import statistics
import subprocess

import pytest

from emulation.vm import PROVED_LINES
from tests.vm import boot
from tests.vm.boot import result_of
from tests.vm.job import job
from tests.vm.lines import LONG
from tests.vm.subjects import SUBJECTS

# Not of the tier: in the tier they would be left out, which it does not allow.
pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

PACKAGE = "ccatune-0.1.0"


@pytest.fixture(scope="session", params=PROVED_LINES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, boot.Outcome]:
    """One boot for each: throughput goes by the guest's own clock."""
    folder = tmp_path_factory.mktemp(f"long-{request.param}")
    source = tmp_path_factory.mktemp("dkms")
    make = ["make", "-s", "-C", str(boot.REPOSITORY / "kmod" / "linux"), "dkms-source", f"DESTDIR={source}"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    told = {**job(folder, long=True), "dkms_source": str(source / "usr" / "src" / PACKAGE)}
    found = boot.run_programs(request.param, ["dkms"], told, folder=folder, timeout_s=1800)
    return found | boot.run_programs(request.param, ["bulk"], told, folder=folder, timeout_s=1800, own_clock=True)


if LONG:

    def test_dkms_builds_installs_and_removes_the_modules(found: dict[str, boot.Outcome]) -> None:
        seen = result_of(found, "dkms")
        assert "built" in seen["built"]
        assert "installed" in seen["installed"]
        assert seen["trees"] == sorted(SUBJECTS)
        for subject, path in zip(SUBJECTS.values(), seen["from"], strict=True):
            assert f"/updates/dkms/{subject.module}.ko" in path
        assert seen["left"] == []
        assert found["dkms"].complaints == []

    @pytest.mark.parametrize("cca", SUBJECTS)
    def test_a_bulk_flow_reaches_95_percent_of_cubics_throughput(found: dict[str, boot.Outcome], cca: str) -> None:
        rates = result_of(found, "bulk")
        share = statistics.median(rates[cca]) / statistics.median(rates["cubic"])
        assert share >= 0.95, rates
        assert found["bulk"].complaints == []
