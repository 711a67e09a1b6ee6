# SPDX-License-Identifier: MIT
"""The published captures: their scenarios, and the table. `python -m experiments captures` reads all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from experiments.captures import Chunk, agrees, chunks_of, command, report_of
from experiments.captures.scenarios import is_for_choosing, setting_of

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "captures"
ONE = "C=5-L=2000000-CD=500-{}-RTT=100-RTTV=0-RTTC=0%-LOSS={}%-TCP=cubic-T=1-CP=10002.pcap.xz"


@pytest.mark.parametrize(
    ("limit", "loss", "scenario"),
    [("PCIR=500000", 0, "A"), ("PCIR=500000-PBC=8000", 0, "B"), ("SCIR=500000-SBC=100000", 0, "E"),
     ("SCIR=10000000", 2, "F"), ("SCIR=500000-SBC=8000", 0, "G")],
)  # fmt: skip
def test_a_name_gives_its_scenario(limit: str, loss: int, scenario: str) -> None:
    assert setting_of(ONE.format(limit, loss)).scenario == scenario


def test_two_connections_are_scenarios_of_their_own() -> None:
    several = ONE.replace("CD=500", "CD1=500-CD2=1000").replace("CP=10002", "CP1=16442-CP2=16443")
    setting = setting_of(several.format("PCIR=10000000-PBC=8000", 0))
    assert (setting.scenario, setting.rate_mbps, setting.ports) == ("C", 10.0, {16442, 16443})
    assert setting_of(several.format("SCIR=10000000", 0)).scenario == "H"
    with pytest.raises(ValueError, match="expected a name with PCIR or SCIR"):
        setting_of("flows.pcap")


def test_targets_are_judged_on_files_that_chose_nothing() -> None:
    names = [ONE.format(f"PCIR={n}", 0) for n in range(30)]
    judging = [name for name in names if not is_for_choosing(name)]
    assert 10 < len(judging) < 30

    def chunk(name: str, *, found: bool) -> Chunk:
        return Chunk(name, policed=True, found=found, by_pd=False, by_detector=True, rate_error=0.01 if found else None)

    report = report_of([chunk(name, found=name in judging) for name in names])
    assert report["judging"]["A"]["accuracy"] == 100
    assert report["choosing"]["A"]["accuracy"] == 0
    assert report["judging"]["A"]["rate_near"] == 100
    assert agrees(report)
    assert not agrees(report_of([chunk(name, found=name not in judging) for name in names]))


def test_a_folder_without_captures_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--captures", str(tmp_path)])
    assert done.exit_code == 2
    assert "expected a folder with captures (.pcap.xz)" in done.output


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published captures are not here")
def test_cross_traffic_is_no_chunk() -> None:
    (path,) = PUBLISHED.glob("*-CD1=500-*-PCIR=3000000-PBC=1000000-*XT=1*")
    chunks = chunks_of(path)
    assert len(chunks) == 10
    assert all(chunk.found == chunk.policed for chunk in chunks)
