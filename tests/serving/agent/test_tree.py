# SPDX-License-Identifier: MIT
"""ProcTree on ordinary files: how it opens, writes and reports, which is the same below /proc."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from serving.agent import ProcTree
from serving.agent.tree import MAX_READ_BYTES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "gr").mkdir()
    (tmp_path / "gr" / "ensemble").touch()
    return tmp_path


def test_text_reads_back_as_it_was_written(root: Path) -> None:
    tree = ProcTree(root)
    tree.write("gr", "ensemble", "ccatune-ensemble 1\nend 0\n")
    assert tree.read("gr", "ensemble") == "ccatune-ensemble 1\nend 0\n"


def test_whole_text_goes_out_in_one_write(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(len(data)) or write(fd, data))
    ProcTree(root).write("gr", "ensemble", "x" * 200_000)
    assert sizes == [200_000]


def test_short_writes_are_continued_in_the_same_open_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:7])))
    ProcTree(root).write("gr", "ensemble", "0123456789" * 10)
    assert (root / "gr" / "ensemble").read_text() == "0123456789" * 10


def test_write_that_takes_nothing_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _fd, _data: 0)
    with pytest.raises(OSError, match="took 0 of 3 bytes") as caught:
        ProcTree(root).write("gr", "ensemble", "abc")
    assert caught.value.errno == errno.EIO


def test_error_of_write_keeps_the_kernels_errno(root: Path) -> None:
    (root / "gr" / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as caught:
        ProcTree(root).write("gr", "full", "abc")
    assert caught.value.errno == errno.ENOSPC


def test_error_of_close_reaches_the_caller(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = os.close

    def failing_close(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.ERANGE, "said at close")

    monkeypatch.setattr(os, "close", failing_close)
    with pytest.raises(OSError, match="said at close") as caught:
        ProcTree(root).write("gr", "ensemble", "abc")
    assert caught.value.errno == errno.ERANGE


def test_error_of_write_wins_over_the_one_of_close(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "gr" / "full").symlink_to("/dev/full")
    close = os.close

    def failing_close(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EBADF, "said at close")

    monkeypatch.setattr(os, "close", failing_close)
    with pytest.raises(OSError, match="No space"):
        ProcTree(root).write("gr", "full", "abc")


def test_missing_file_is_never_created(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ProcTree(root).write("gr", "missing", "abc")
    assert not (root / "gr" / "missing").exists()


def test_text_that_is_not_ascii_is_refused_on_both_ways(root: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        ProcTree(root).write("gr", "ensemble", "serial \u00b2\n")
    (root / "gr" / "ensemble").write_bytes(b"serial \xb2\n")
    with pytest.raises(OSError, match="not ASCII at byte 7") as caught:
        ProcTree(root).read("gr", "ensemble")
    assert caught.value.errno == errno.EILSEQ


def test_endless_file_is_not_read_for_ever(root: Path) -> None:
    (root / "gr" / "endless").symlink_to("/dev/zero")
    with pytest.raises(OSError, match=str(MAX_READ_BYTES)) as caught:
        ProcTree(root).read("gr", "endless")
    assert caught.value.errno == errno.EFBIG
