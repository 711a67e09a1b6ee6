# SPDX-License-Identifier: MIT
"""Public datasets as they are published: which columns count, when each rate holds, and what is refused.

The rows below are made. Their columns, formats and oddities are those of the datasets.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import TraceError
from emulation.scenario.files import load_scenario
from emulation.traces import Trace, read
from emulation.traces._tables import Piece
from emulation.traces.cli import traces
from emulation.traces.importing import opportunities_of

UCC = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,"
    "State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ"
)
LUMOS = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,lte_rssi,lte_rsrp,"
    "lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,trajectory_direction,tower_id"
)
GOPHERS = "protocol,num_tcp_conn,seq_num,Sprint_throughput_mbps,TMobile_throughput_mbps,Verizon_throughput_mbps"

EPOCH_MS = 1_700_000_000_000


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(traces, ["import", *map(str, words)], catch_exceptions=False)


def imported(*words: str | Path) -> list[dict[str, object]]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    rows: list[dict[str, object]] = json.loads(result.stdout)["traces"]
    return rows


def carried(trace: Trace, bin_ms: int) -> list[int]:
    """Packets that end in each bin. An opportunity at the end of a bin belongs to that bin."""
    counts: list[int] = np.bincount((trace.opportunities_ms - 1) // bin_ms).tolist()
    return counts


def ucc_row(second: int, *, down: str, up: str = "600") -> str:
    at = f"2019.12.14_10.{second // 60:02}.{second % 60:02}"
    return f"{at},-8.4,51.9,0,B,12,5G,-100,-10,8.0,9,-,{down},{up},D,-,-,-,-,-,C,A,B,1,-100,-1"


@pytest.fixture
def ucc(tmp_path: Path) -> Path:
    """12 Mbit/s for 2 s, 24 for 2 s with a repeated row, none known for 56 s, then 6 for 2 s."""
    rates = [(0, "12000"), (1, "12000"), (2, "24000"), (2, "24000"), (3, "24000"), (4, "-"), (60, "6000"), (61, "6000")]
    file = tmp_path / "5G" / "Download" / "B_2019.12.14_10.16.30.csv"
    file.parent.mkdir(parents=True)
    file.write_text("\ufeff" + "\r\n".join([UCC, *(ucc_row(second, down=rate) for second, rate in rates)]))
    return file


def test_the_5g_dataset_of_ucc_is_read_by_its_downlink_and_cut_where_the_log_has_holes(
    ucc: Path, tmp_path: Path
) -> None:
    (tmp_path / "5G" / "README.md").write_text("Rates in kbit/s\n")
    rows = imported(tmp_path / "5G", "-o", tmp_path / "ucc-5g")
    assert {row["columns"] for row in rows} == {
        "DL_bitrate in kbit/s, times in Timestamp (dates), without 1 row that has no rate"
    }
    first, second = read(tmp_path / "ucc-5g" / "Download").recordings
    assert carried(first.trace, 1000) == [1000, 1000, 2000, 2000]
    assert carried(second.trace, 1000) == [500, 500]
    assert first.files == (f"Download/{ucc.stem}-part1-link.down",)
    assert f"not read: {tmp_path}/5G/README.md" in run(tmp_path / "5G", "-o", tmp_path / "ucc-5g").stdout
    (uplink, _) = imported(ucc, "--column", "UL_bitrate", "-o", tmp_path / "up")
    assert (str(uplink["trace"])[-8:], uplink["mean_rate_mbps"]) == ("-link.up", pytest.approx(0.6, rel=0.01))


def test_each_run_of_lumos5g_is_a_link_of_its_own(tmp_path: Path) -> None:
    rows = [
        f"{run},{second},2,45,-93,1,150,NONE,-61,-94,-14,7,-8,-8,-8,{120 * run},driving,CW,8"
        for second in range(1, 11)
        for run in (1, 2)
    ]
    (tmp_path / "Lumos5G-v1.0.csv").write_text("\n".join([LUMOS, *rows]))
    (one, _) = imported(tmp_path / "Lumos5G-v1.0.csv", "-o", tmp_path / "lumos")
    assert one["columns"] == "Throughput in Mbit/s, times in seq_num (s)"
    found = read(tmp_path / "lumos").recordings
    assert [(recording.duration_s, recording.trace.mean_rate_mbps) for recording in found] == [(10, 120), (10, 240)]


def test_a_rate_of_pensieve_holds_since_the_row_before_it(tmp_path: Path) -> None:
    (tmp_path / "cooked").mkdir()
    (tmp_path / "cooked" / "norway_bus_10").write_text("0.0\t99.0\n0.5\t2.4\n2.0\t0.0\n3.0\t1.2\n")
    (row,) = imported(tmp_path / "cooked", "-o", tmp_path / "pensieve")
    assert row["columns"] == "column 2 in Mbit/s, times in column 1 in s"
    (recording,) = read(tmp_path / "pensieve").recordings
    assert carried(recording.trace, 500) == [100, 0, 0, 0, 50, 50]
    assert recording.files == ("pensieve/norway_bus_10-link.down",)


def leo(folder: Path, number: int, *, delays: str = "24\n" * 600 + "18\n" * 600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"bw_{number}.txt").write_text("".join(f"{at}\n" * 3 for at in range(12_000)))
    (folder / f"delay_{number}.txt").write_text(delays)
    return folder / f"bw_{number}.txt"


def test_a_pair_of_leoreplayer_becomes_a_link_and_its_delays(tmp_path: Path) -> None:
    for number in (1, 2):
        leo(tmp_path / "A" / str(number), number)
    rows = imported(tmp_path / "A", tmp_path / "A" / "1" / "delay_1.txt", "-o", tmp_path / "leo")
    assert [row["source"] for row in rows] == [str(tmp_path / "A" / n / f"bw_{n}.txt") for n in "12"]
    assert len(read(tmp_path / "leo").recordings) == 2
    file = tmp_path / "s.yaml"
    file.write_text("link: {trace: leo/1/bw_1-link.down, delays: {trace: leo/1/bw_1-link.delays}}\n")
    link = load_scenario(file).link
    assert link.trace is not None
    assert link.trace == read(tmp_path / "A" / "1" / "bw_1.txt").recordings[0].trace
    assert link.delays is not None
    assert [(step.at_s, step.rtt_ms) for step in link.delays.steps] == [(0, 48), (6, 36)]
    assert link.delays.period_s == 12


@pytest.mark.parametrize(
    ("delays", "message"),
    [
        ("24\n" * 600, r"bw_1\.txt: expected delays for the 11\.999 s of the link, got 6 s; .*--delay-interval-ms"),
        ("24\n24\n0\n", r"delay_1\.txt, line 3: expected a delay above 0, of at most 30000 ms, got '0'"),
        ("24\n0 24\n", r"delay_1\.txt, line 2: expected a delay above 0, of at most 30000 ms, got '0 24'"),
        ("", r"delay_1\.txt: expected a delay above 0, of at most 30000 ms, got no line"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(tmp_path: Path, delays: str, message: str) -> None:
    link = leo(tmp_path, 1, delays=delays)
    with pytest.raises(TraceError, match=message):
        run(link, "-o", tmp_path / "out")
    (tmp_path / "delay_1.txt").unlink()
    with pytest.raises(TraceError, match=r"bw_1\.txt: expected LeoReplayer's delay_1\.txt beside it, got no such file"):
        run(link, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (f"{GOPHERS}\nTCP,8,0,1,2,3", [], "expected one column of rates .* got Sprint_.*, TMobile_.*; name it"),
        ("time_s,Throughput\n1,2\n", [], "expected one column of rates with its unit, .* got time_s, Throughput;"),
        ("time_s,rate MBps\n1,2\n", [], "expected one column of rates with its unit, .* got time_s, rate MBps"),
        ("time_s,rate\n1,2\n", ["--column", "rate"], "expected a unit of rate, such as --column rate:kbit/s, got none"),
        ("time_s,rate\n1,2\n", ["--column", "rate:MBps"], "expected a unit of rate, .* got MBps"),
        ("time_s,rate\n1,2\n", ["--column", "speed:Mbps"], "expected --column to name one of time_s, rate, got speed"),
        ("x,a_mbps\n1,2\n", [], "expected one column of times, such as Timestamp or time_s, got x, a_mbps; name it"),
        ("time,timestamp,a_mbps\n1,2,3\n", [], "expected one column of times, .* got time, timestamp; name it"),
        ("time,a_mbps\n1000,2\n2000,2\n3000,2\n", [], "rows at most 60 s apart, got a median of 1000"),
        (f"time,a_mbps\n{EPOCH_MS},2\n{EPOCH_MS + 20},2\n", [], "line 2: expected a time .* --time-column time:ms"),
        (f"{EPOCH_MS} 2\n{EPOCH_MS + 20} 2\n", [], "line 1: expected a time in s and a rate in Mbit/s"),
        ("time,a_mbps\n1,2\n3,2\n2,2\n", [], "line 4: expected a time of at least 3 s, .* got 2 s"),
        ("time,a_mbps\n1,2\n2,-1\n", [], "line 3: expected a rate in Mbit/s of 0 to .* in a_mbps, got '-1'"),
        ("time,a_mbps\n1,inf\n", [], "line 2: expected a rate in Mbit/s of 0 to .* in a_mbps, got 'inf'"),
        ("time,a_mbps\nnoon,1\n", [], "line 2: expected a time as a number, .* got 'noon'"),
        ("time,a_mbps\n1,2\n", [], "line 2: expected rows of at least two times, got one"),
        ("time,a_mbps\n", [], "expected rows with a rate in a_mbps, got none"),
        ("time,a_gbps\n0,900\n1,900\n", [], "expected at most 100000000 opportunities, got 1.5e.08 .*check the unit"),
        ("1,2\n2,3\n", [], "line 1: expected the names of columns, or a time in s and a rate .* got '1,2'"),
        ("1\n2\n", [], "line 1: expected the names of columns, or a time"),
        ("0 1\n1 2 3\n", [], "line 2: expected a time in s and a rate in Mbit/s, got '1 2 3'"),
        ("0 1\n1 2\n", ["--column", "x"], "expected a header with the named column, got two columns of numbers"),
        ("0 1\n", [], "expected at least two rows, got 1"),
        ("", [], "line 1: expected the names of columns"),
    ],
)  # fmt: skip
def test_an_ambiguous_or_wrong_table_is_refused_with_what_was_expected(
    tmp_path: Path, text: str, options: list[str], message: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(TraceError, match=rf"a\.csv.*{message}"):
        run(tmp_path / "a.csv", *options, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_columns_that_the_user_names_are_read_with_their_units(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at;Throughput;b_mbps\n2024-01-01T00:00:00Z;12000;1\n2024-01-01T00:00:01Z;6000;1\n")
    (row,) = imported(
        tmp_path / "a.csv", "--column", "Throughput:kbit/s", "--time-column", "at", "-o", tmp_path / "out"
    )
    assert (row["duration_s"], row["mean_rate_mbps"]) == (2, 9)
    (tmp_path / "b.csv").write_text("t,DL (Kbps)\n0,12000\n500,6000\n")
    (row,) = imported(tmp_path / "b.csv", "--time-column", "t:ms", "-o", tmp_path / "out")
    assert (row["columns"], row["duration_s"], row["mean_rate_mbps"]) == ("DL (Kbps) in kbit/s, times in t (ms)", 1, 9)


def test_a_second_source_of_one_name_is_refused_before_it_replaces_the_first(tmp_path: Path) -> None:
    for folder, mbps in (("a", 12), ("b", 24)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(f"time,a_mbps\n1,{mbps}\n2,{mbps}\n")
    with pytest.raises(TraceError, match=r"b/x\.csv: expected another name than that of .*a/x\.csv"):
        run(tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv", "-o", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["x-link.down"]
    assert read(tmp_path / "out").recordings[0].trace.mean_rate_mbps == 12


@given(st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([0, 0.3, 7.5, 400])), min_size=1, max_size=12))
def test_at_every_edge_the_link_has_carried_what_the_rates_say_within_a_packet(rows: list[tuple[int, float]]) -> None:
    edges_ms = np.concatenate(([0], np.cumsum([step_ms for step_ms, _ in rows])))
    rates_mbps = np.array([rate for _, rate in rows], dtype=float)
    trace = opportunities_of(Piece("", edges_ms / 1000, rates_mbps), name="x")
    packets = np.concatenate(([0], np.cumsum(np.diff(edges_ms) * rates_mbps))) / 12
    if trace is None:
        assert packets[-1] < 1
        return
    assert trace.period_ms == edges_ms[-1] == trace.opportunities_ms[-1]
    counts = np.searchsorted(trace.opportunities_ms, edges_ms[:-1], side="right")
    assert (np.abs(counts - packets[:-1]) <= 1).all()
    assert abs(len(trace.opportunities_ms) - packets[-1]) <= 1
