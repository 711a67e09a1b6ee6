# SPDX-License-Identifier: MIT
"""Finds trace files and their bytes in files, folders and .tar.xz archives, which are read in memory.

A trace file ends in .down, .up, .trace or .txt. A folder is searched with all folders in it, and archives found there
are read too. In folders and archives, other files are not read, and their names are reported. So are delay files of
LeoReplayer (`delay_1.txt`), which are no links. Files and folders whose name starts with a dot are ignored. An archive
is streamed: nothing is unpacked to disk, and links and devices in it are ignored.

The dataset of a file in an archive is the archive's name. For another file it is the name of its folder, or of the
folder above that if its folder is an hour ("hour03").
"""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from emulation.errors import TraceError
from kmod.terminal import listed, visible

Refuse = Callable[[TraceError], None]

TRACE_SUFFIXES = (".down", ".up", ".trace", ".txt")
ARCHIVE_SUFFIX = ".tar.xz"
LINKS_FILE = "links.json"  # of `ccatune traces from-flows`
# Larger files are refused. A day at 1 Gbit/s has 7 billion lines, which would not fit into memory.
MAX_FILE_BYTES = 2**30
HOUR = re.compile(r"hour[-_]?\d+", re.IGNORECASE)
DELAYS = re.compile(r"delays?(?![a-z]).*", re.IGNORECASE)
MOST_NAMES_SHOWN = 3


def refuse(error: TraceError) -> None:
    """Raise the error of a bad file. Other callbacks of this type note it, so that the other files are read."""
    raise error


@dataclass(frozen=True)
class TraceFile:
    """One trace file. folder: the name of its folder in messages; location: the real place of that; data: its bytes.

    All names but location are visible text, because models of traces and other JSON hold only valid UTF-8.
    """

    dataset: str
    folder: str
    location: str
    file_name: str
    data: bytes

    @property
    def name(self) -> str:
        """The name of the file in messages: dataset, hour if there is one, and file."""
        return f"{self.folder}/{self.file_name}"


def find_files(
    paths: Sequence[Path], *, wanted: Callable[[str], bool], bad: Refuse, unread: list[str]
) -> Iterator[TraceFile]:
    """Every trace file of files, folders and archives, each once: folders sorted by name, archives in their own order.

    wanted: decides by the name of its dataset whether a file is read. bad: called with the error of each file that
    cannot be read, is over 2^30 bytes, or is a broken archive. unread: receives the name of each file that is no trace.

    Raises TraceError for a path that does not exist or does not have the name of a trace, and if there is no trace.
    """
    found: set[Path] = set()
    for path in paths:
        for below, root in _paths_of(path):
            if below.resolve() in found:
                continue
            if _is_archive(below.name):
                found.add(below.resolve())
                if wanted(below.name.removesuffix(ARCHIVE_SUFFIX)):
                    yield from _archive_files(below, bad=bad, unread=unread)
                continue
            dataset, folder = _labels(below, root=root)
            if not is_trace(below.name):
                unread += [str(below)] if wanted(dataset) else []
                continue
            found.add(below.resolve())
            if wanted(dataset):
                yield from _plain_file(below, dataset=dataset, folder=folder, bad=bad)
    if not found:
        given = ", ".join(str(path) for path in paths) or "no path"
        raise TraceError(
            f"{given}: expected files {', '.join(TRACE_SUFFIXES)} or {ARCHIVE_SUFFIX}, got {_others(unread)}"
        )


def _others(unread: Sequence[str]) -> str:
    """What there is instead of a trace."""
    others = listed(unread, most=MOST_NAMES_SHOWN)
    if not unread:
        return "none of them"
    if all(name.rpartition("/")[2] == LINKS_FILE for name in unread):
        return f"only {others}, whose flows yielded no trace, for example because they were policed (docs/links.md)"
    return f"only others ({others}); `ccatune traces import` converts other formats"


def _paths_of(path: Path) -> Iterator[tuple[Path, Path]]:
    """The files at or below a path that are not hidden, each with the folder from which its dataset is derived."""
    if path.is_dir():
        for below in sorted(path.rglob("*")):
            if below.is_file() and not any(part.startswith(".") for part in below.relative_to(path).parts):
                yield below, path
    elif not path.is_file():
        raise TraceError(f"{path}: expected a trace file, folder or archive, got nothing there; check the path")
    elif is_trace(path.name) or _is_archive(path.name):
        yield path, path.parent
    elif path.name.endswith(TRACE_SUFFIXES) and DELAYS.fullmatch(path.name):
        raise TraceError(
            f"{path}: expected a link, got the name of a file of delays; `ccatune traces import` reads it "
            "together with its link"
        )
    else:
        raise TraceError(
            f"{path}: expected a name ending in {', '.join(TRACE_SUFFIXES)} or {ARCHIVE_SUFFIX}; rename the file, or "
            "convert it with `ccatune traces import`"
        )


def is_trace(file_name: str) -> bool:
    """Whether a file has the name of a trace, and not the name of a file of delays."""
    return file_name.endswith(TRACE_SUFFIXES) and not file_name.startswith(".") and not DELAYS.fullmatch(file_name)


def _is_archive(file_name: str) -> bool:
    return file_name.endswith(ARCHIVE_SUFFIX) and not file_name.startswith(".")


def _labels(path: Path, *, root: Path) -> tuple[str, str]:
    """Dataset and folder of a plain file below root. Root's own name counts, and its parent's if root is an hour."""
    anchor = root.resolve()
    names = (anchor.parent.name, anchor.name, *path.relative_to(root).parts[:-1])
    folders = [visible(name) for name in names if name]
    if len(folders) > 1 and HOUR.fullmatch(folders[-1]):
        return folders[-2], f"{folders[-2]}/{folders[-1]}"
    return folders[-1], folders[-1]


def _plain_file(path: Path, *, dataset: str, folder: str, bad: Refuse) -> Iterator[TraceFile]:
    try:
        _check_size(folder, path.name, path.stat().st_size)
        yield TraceFile(dataset, folder, str(path.resolve().parent), visible(path.name), path.read_bytes())
    except TraceError as error:
        bad(error)
    except OSError as error:
        bad(TraceError(f"{path}: expected a readable file, got {error.strerror}; check its permissions"))


def _archive_files(path: Path, *, bad: Refuse, unread: list[str]) -> Iterator[TraceFile]:
    n_files = 0
    try:
        with tarfile.open(path, mode="r|xz") as archive:
            for member in archive:
                parts = [visible(part) for part in PurePosixPath(member.name).parts if part not in {".", "..", "/"}]
                if not member.isreg() or not parts or any(part.startswith(".") for part in parts):
                    continue
                if not is_trace(parts[-1]):
                    unread.append(f"{path}/{'/'.join(parts)}")
                    continue
                n_files += 1
                reader = archive.extractfile(member)
                try:
                    yield _member(path, parts, member.size, reader)
                except TraceError as error:
                    bad(error)
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        bad(TraceError(f"{path}: expected a whole {ARCHIVE_SUFFIX}, got a broken one ({error}); copy it anew"))
        return
    if not n_files:
        bad(TraceError(f"{path}: expected files {', '.join(TRACE_SUFFIXES)} in the archive, got none"))


def _member(path: Path, parts: list[str], n_bytes: int, reader: IO[bytes] | None) -> TraceFile:
    dataset = visible(path.name.removesuffix(ARCHIVE_SUFFIX))
    folder = "/".join([dataset, *(part for part in parts[:-1] if part != dataset)])
    _check_size(folder, parts[-1], n_bytes)
    location = "/".join([str(path.resolve()), *parts[:-1]])
    return TraceFile(dataset, folder, location, parts[-1], reader.read() if reader else b"")


def _check_size(folder: str, file_name: str, n_bytes: int) -> None:
    if n_bytes > MAX_FILE_BYTES:
        raise TraceError(f"{folder}/{file_name}: expected at most {MAX_FILE_BYTES} bytes, got {n_bytes}; cut the file")
