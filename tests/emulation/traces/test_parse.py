# SPDX-License-Identifier: MIT
"""Boundary rows for every kind of bad line, and agreement with Python's own int()."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.traces import TraceError
from emulation.traces._parse import MAX_TIME_MS, parse_trace

TIMES = st.lists(st.integers(0, 10) | st.integers(0, MAX_TIME_MS), min_size=1, max_size=80).map(sorted)


def text(times_ms: list[int], end: str = "\n") -> bytes:
    return "".join(f"{time}{end}" for time in times_ms).encode()


@given(TIMES.filter(lambda times: times[-1] > 0), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_numbers_come_back_as_written(times_ms: list[int], end: str, has_last_end: bool) -> None:
    data = text(times_ms, end)
    parsed = parse_trace(data if has_last_end else data.removesuffix(end.encode()), name="f")
    assert parsed.dtype == np.uint32
    assert parsed.tolist() == times_ms


@given(st.binary(max_size=40) | st.text("0123456789-\n. x", max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused_with_the_name(data: bytes) -> None:
    try:
        parsed = parse_trace(data, name="some.down")
    except TraceError as error:
        message = str(error)
        assert message.startswith("some.down")
        return
    assert parsed.tolist() == [int(line) for line in data.replace(b"\r\n", b"\n").split()]


def test_leading_zeros_are_numbers() -> None:
    assert parse_trace(b"007\n8\n0000000000012\n", name="f").tolist() == [7, 8, 12]


def test_a_byte_order_mark_is_no_part_of_the_numbers() -> None:
    assert parse_trace(b"\xef\xbb\xbf1\r\n8\r\n", name="f").tolist() == [1, 8]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("1\n".encode("utf-16"), "f, line 1: expected a text of numbers, got UTF-16; save it as ASCII or UTF-8"),
        (b"5\nx\n3\n6\n", "f, line 2: .*, got 'x'; line 3: expected a time of at least 5, .*, got '3'$"),
        (b"x\n" * 9, "f, line 1: .*; line 5: expected a whole .*, got 'x'; and 4 more bad lines$"),
        (b"", "f: expected a line per delivery opportunity, got an empty file"),
        (b"\n", "f, line 1: expected a whole number of milliseconds, got ''"),
        (b"1\n\n2\n", "f, line 2: expected a whole number of milliseconds, got ''"),
        (b"1\n2\n\n", "f, line 3: expected a whole number of milliseconds, got ''"),
        (b"1\nx\n", "f, line 2: expected a whole number of milliseconds, got 'x'"),
        (b"0 2\n1 3\n", "f, line 1: .*, got '0 2'; .*; `ccatune traces import` converts tables of rates$"),
        (b"1\n2.5\n", "f, line 2: expected a whole number of milliseconds, got '2.5'"),
        (b"1\n 2\n", "f, line 2: expected a whole number of milliseconds, got ' 2'"),
        (b"1\n+2\n", "f, line 2: expected a whole number of milliseconds, got '\\+2'"),
        (b"1\n--2\n", "f, line 2: expected a whole number of milliseconds, got '--2'"),
        (b"-1\n2\n", "f, line 1: expected a time of at least 0, not a negative one, got '-1'"),
        (b"1\n5\n4\n6\n", "f, line 3: expected a time of at least 5, the line before it, not one going backwards"),
        (b"1\n10\n9\n", "f, line 3: .*going backwards, got '9'"),
        (b"1\n4294967296\n", "f, line 2: expected at most 4294967295 ms, not too large a number"),
        (b"1\n" + b"9" * 100_000 + b"\n", "f, line 2: expected at most 4294967295 ms"),
        (b"0\n0\n0\n", "f, line 3: expected a time above 0 at the end, got a file of zeros"),
        (b"1\n2\n\x00\x01", "f, line 3: expected a text of numbers, got a binary file \\(byte 0x00\\)"),
        ("1\n2\n٣\n".encode(), "f, line 3: expected a text of numbers, got a binary file"),
        (b"1\r2\n", "f, line 1: expected a whole number"),
    ],
)
def test_bad_files_are_refused_by_name_and_line(data: bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        parse_trace(data, name="f")


def test_the_largest_number_is_read() -> None:
    assert parse_trace(b"4294967295\n", name="f").tolist() == [MAX_TIME_MS]


def test_a_long_bad_line_is_shown_shortened() -> None:
    with pytest.raises(TraceError) as caught:
        parse_trace(b"y" * 10_000, name="f")
    assert len(str(caught.value)) < 200
