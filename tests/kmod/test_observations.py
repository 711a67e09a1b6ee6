# SPDX-License-Identifier: MIT
"""Files of observations: what is written is read, also from a file that ends anywhere."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import pytest

from kmod.observation_writer import ObservationWriter
from kmod.observations import NAMES, Ends, Facts, ObservationError, files_in, read_observations

FACTS = Facts(every_ms=200, find_s=5, share=0.01, addresses="cut to /24 and /48")
ENDS = Ends(local="192.0.2.0/24", local_port=443, peer="198.51.100.0/24", algorithm="cubic")
HEADER = (
    b'{"observations": 1, "session": "a", "file": 0, "start_s": 1.5, "begin_us": 0, "every_ms": 200, "find_s": 5, '
    b'"share": 1, "addresses": "", "ports": [], "algorithms": [], "version": "", "columns": {"a": "bytes_acked"}, '
    b'"missing": []}\n'
)
FLOW = b'f 1 {"local":"","local_port":1,"peer":""}\n'


def row_of(rng: random.Random) -> tuple[int, ...]:
    """A row with numbers of all sizes."""
    return tuple(rng.choice((0, 1, 1448, 1 << 40)) for _ in NAMES)


def written(folder: Path, *, ticks: int, file_bytes: int = 1 << 20) -> dict[int, list[tuple[int, tuple[int, ...]]]]:
    """Write samples of three connections, one of which ends. Returns their rows by number, also unchanged ones."""
    rng = random.Random(ticks)
    writer = ObservationWriter(folder, facts=FACTS, file_bytes=file_bytes, flush_s=1, start_s=1_700_000_000)
    rows: dict[int, list[tuple[int, tuple[int, ...]]]] = {1: [], 2: [], 3: []}
    for tick in range(1, ticks + 1):
        writer.tick(tick * 200_000)
        for number, own in rows.items():
            if number == 3 and tick > ticks // 2:
                if tick == ticks // 2 + 1:
                    writer.end(3, "closed")
                continue
            if not own:
                writer.flow(number, ENDS)
            values = own[-1][1] if own and rng.random() < 0.7 else row_of(rng)
            writer.row(number, values)
            own.append((tick * 200_000, values))
        writer.listed(matching=10, sampled=3, new=1, opened=2, left_out=0)
    writer.finish()
    return rows


def test_rows_are_read_as_written_over_several_files(tmp_path: Path) -> None:
    rows = written(tmp_path, ticks=400, file_bytes=1000)
    files = files_in(tmp_path)
    assert len(files) > 5
    found = read_observations(list(reversed(files)))
    assert (found.found, found.opened, found.is_cut) == (400, 800, False)
    assert [one.ended for one in found.flows] == ["", "", "closed"]
    for one in found.flows:
        known = dict(rows[one.number])
        assert [known[time_us] for time_us in one.times_us] == one.rows
        assert one.times_us[-1] == rows[one.number][-1][0]
        assert one.ends == ENDS
        assert one.start_s == pytest.approx(1_700_000_000)
        # Of a time without a change only the last sample is kept.
        kept = dict(zip(one.times_us, one.rows, strict=True))
        last = None
        for time_us, values in rows[one.number]:
            assert time_us in kept or values == last
            last = values


def test_a_file_without_those_before_it_has_all_values(tmp_path: Path) -> None:
    rows = written(tmp_path, ticks=400, file_bytes=1000)
    (last,) = files_in(tmp_path)[-1:]
    for one in read_observations([last]).flows:
        known = dict(rows[one.number])
        assert [known[time_us] for time_us in one.times_us] == one.rows


def test_a_file_of_before_samples_of_acks_has_none(tmp_path: Path) -> None:
    written(tmp_path, ticks=3)
    (path,) = files_in(tmp_path)
    content = gzip.decompress(path.read_bytes())
    assert content.count(b', "acks_per_s": 0') == 1
    path.write_bytes(gzip.compress(content.replace(b', "acks_per_s": 0', b"")))
    found = read_observations([path])
    assert not found.has_acks
    assert found.flows[0].facts.acks_per_s == 0


def test_a_file_that_is_cut_anywhere_loses_only_its_end(tmp_path: Path) -> None:
    rows = written(tmp_path, ticks=100)
    (path,) = files_in(tmp_path)
    content, most = path.read_bytes(), 0
    for length in range(0, len(content) - 1, 7):
        path.write_bytes(content[:length])
        found = read_observations([path])
        assert found.is_cut
        for one in found.flows:
            known = dict(rows[one.number])
            assert [known[time_us] for time_us in one.times_us] == one.rows
        most = max([most, *(len(one.rows) for one in found.flows)])
    assert most > 50


def test_the_oldest_files_are_removed_beyond_the_size(tmp_path: Path) -> None:
    writer = ObservationWriter(tmp_path, facts=FACTS, keep_bytes=40_000, start_s=1_700_000_000)
    rng = random.Random(1)
    writer.flow(1, ENDS)
    for tick in range(1, 3000):
        writer.tick(tick * 200_000)
        writer.row(1, row_of(rng))
    writer.finish()
    files = files_in(tmp_path)
    assert 20_000 < sum(path.stat().st_size for path in files) <= 40_000
    assert read_observations(files).flows[0].times_us[-1] == 2999 * 200_000


def test_a_file_that_a_killed_writer_left_is_finished_by_the_next(tmp_path: Path) -> None:
    written(tmp_path, ticks=5)
    (path,) = files_in(tmp_path)
    path.rename(path.with_name(f"{path.name}.part"))
    (tmp_path / path.name.replace("-000000", "-000001.gz.part").removesuffix(".gz")).touch()
    assert len(files_in(tmp_path)) == 2
    ObservationWriter(tmp_path, facts=FACTS)
    assert files_in(tmp_path) == [path]


DAMAGED = {
    "no gzip": (b"observations", "line 1: expected gzip"),
    "nothing in it": (gzip.compress(b""), "line 1: expected a first line"),
    "no header": (gzip.compress(b"t 200\n"), "line 1: expected the header"),
    "a later version": (gzip.compress(b'{"observations": 2}\n'), "observations of version 1"),
    "a header without a key": (gzip.compress(HEADER.replace(b'"share": 1, ', b"")), "line 1: expected the header"),
    "a row of no connection": (gzip.compress(HEADER + b"t 1\n7 a1\n"), "line 3: expected a line of observations"),
    "an unknown column": (gzip.compress(HEADER + FLOW + b"1 z1\n"), "line 3"),
    "a number below 0": (gzip.compress(HEADER + FLOW + b"1 a-1\n"), "line 3"),
    "a time that goes back": (gzip.compress(HEADER + b"t -1\n"), "line 2"),
    "a time beyond all numbers": (gzip.compress(HEADER + FLOW + b"t 99999999999999999999\n1 a1\n"), "line 4"),
    "a beginning that is no time": (
        gzip.compress(HEADER.replace(b'"start_s": 1.5', b'"start_s": NaN')),
        "line 1: expected the header",
    ),
    "two files joined": (gzip.compress(HEADER) * 2, "expected the end of the file"),
    "a line without end": (gzip.compress(HEADER + b"x" * 200_000), "lines of at most"),
    "another byte": (zlib.compress(HEADER, wbits=31)[:-8] + bytes(8), "gzip"),
}


@pytest.mark.parametrize(("content", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "observe-20261128T000000Z-a-000000.gz"
    path.write_bytes(content)
    with pytest.raises(ObservationError) as raised:
        read_observations([path])
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
