# SPDX-License-Identifier: MIT
"""The rules by which numbered files are joined, each with a case that breaks when it does not hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.traces import Gap, Trace, TraceError
from emulation.traces.recording import ParsedFile, find_gaps, join_files

FULL = (0, 500, 30_000)


def file(name: str, times_ms: tuple[int, ...] = FULL, *, location: str = "set") -> ParsedFile:
    return ParsedFile("set", "set", location, name, np.array(times_ms, dtype=np.uint32))


def joined(*files: ParsedFile) -> list[tuple[tuple[str, ...], int]]:
    return [(recording.files, recording.trace.period_ms) for recording in join_files(files)]


def test_numbers_that_run_on_are_joined_slot_by_slot() -> None:
    (recording,) = join_files([file("0009.down"), file("0010.down", (0, 29_900)), file("0011.down", (7, 30_000))])
    assert recording.trace.opportunities_ms.tolist() == [0, 500, 30_000, 30_000, 59_900, 60_007, 90_000]
    assert recording.trace.period_ms == 90_000
    assert recording.name == "set/0009-0011"


def test_order_of_reading_does_not_matter() -> None:
    files = [file(f"{number}.down", (number, 30_000)) for number in (9, 10, 11)]
    assert join_files(files)[0].trace == join_files(files[::-1])[0].trace


def test_a_missing_number_ends_the_recording() -> None:
    assert joined(file("1.down"), file("2.down"), file("4.down")) == [
        (("set/1.down", "set/2.down"), 60_000),
        (("set/4.down",), 30_000),
    ]


def test_a_short_file_ends_the_recording_behind_itself() -> None:
    short = file("2.down", (0, 20_000))
    assert joined(file("1.down"), short, file("3.down"), file("4.down")) == [
        (("set/1.down", "set/2.down"), 50_000),
        (("set/3.down", "set/4.down"), 60_000),
    ]


@pytest.mark.parametrize(("last_ms", "sizes"), [(1, [1, 1, 1, 1]), (899, [1, 1, 1, 1]), (900, [4])])
def test_numbered_files_that_do_not_nearly_fill_their_slot_are_links_of_their_own(
    last_ms: int, sizes: list[int]
) -> None:
    files = [file(f"bw{number}.down", (last_ms,)) for number in range(1, 5)]
    assert [len(names) for names, _ in joined(*files)] == sizes


def test_a_file_longer_than_the_slot_stands_alone() -> None:
    long = file("2.down", (0, 60_000))
    assert [len(files) for files, _ in joined(file("1.down"), long, file("3.down"), file("4.down"))] == [1, 1, 2]


@pytest.mark.parametrize(("last_h", "sizes"), [(12, [2, 1]), (6, [2, 1])])
def test_a_series_that_runs_on_for_longer_than_a_day_goes_on_in_another_recording(
    last_h: int, sizes: list[int]
) -> None:
    half_day, last = (0, 43_200_000), (0, last_h * 3_600_000)
    files = [file("1.down", half_day), file("2.down", half_day), file("3.down", last)]
    assert [len(names) for names, _ in joined(*files)] == sizes
    assert joined(*files)[0][1] == 86_400_000


def test_folders_prefixes_and_suffixes_are_series_of_their_own() -> None:
    files = [
        file("1.down", location="a"),
        file("2.down", location="b"),
        file("2.up", location="a"),
        file("x2.down", location="a"),
    ]
    assert [len(recording.files) for recording in join_files(files)] == [1, 1, 1, 1]


def test_a_long_number_is_no_place_in_a_series() -> None:
    assert len(joined(file("20160101120000.down"), file("20160101120001.down"))) == 2


def test_two_files_with_one_number_are_refused() -> None:
    with pytest.raises(TraceError, match=r"expected one file numbered 1, got 1\.down and 01\.down"):
        join_files([file("1.down"), file("01.down")])


def test_silence_across_the_seam_of_two_files_is_one_gap() -> None:
    (recording,) = join_files([file("1.down", (0, 29_500)), file("2.down", (800, 30_000))])
    assert recording.gaps[1] == Gap(29_500, 30_800)
    assert recording.gaps[1].duration_ms == 1300


def test_gaps_are_found_at_both_ends_from_one_second_on() -> None:
    trace = Trace("t", np.array([1000, 1999, 2999], dtype=np.uint32), 4000)
    assert find_gaps(trace) == (Gap(0, 1000), Gap(1999, 2999), Gap(2999, 4000))


def test_cutting_a_recording_cuts_its_gaps() -> None:
    (recording,) = join_files([file("a.down", (0, 100, 2100, 2200))])
    piece = recording.cut(1000, 2200)
    assert piece.gaps == (Gap(0, 1100),)
    assert piece.duration_s == 1.2


@given(st.sets(st.integers(0, 40), min_size=1))
def test_every_file_is_in_exactly_one_recording(numbers: set[int]) -> None:
    recordings = join_files([file(f"{number}.down") for number in numbers])
    parts = [name for recording in recordings for name in recording.files]
    assert sorted(parts) == sorted(f"set/{number}.down" for number in numbers)
    assert len(recordings) == sum(number - 1 not in numbers for number in numbers)
