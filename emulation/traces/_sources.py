# SPDX-License-Identifier: MIT
"""Finds trace files and their bytes in files, folders and .tar.xz archives, which are read in memory.

A trace file ends in .down, .up or .txt. A folder is searched with all folders in it, and archives found there are read
too. In folders and archives, other files and those whose name starts with a dot are ignored. An archive is streamed:
nothing is unpacked to disk, and links and devices in it are ignored.

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

from emulation.errors import TraceError
from kmod.terminal import visible

__all__ = ["ARCHIVE_SUFFIX", "TRACE_SUFFIXES", "TraceFile", "find_files", "is_trace"]

TRACE_SUFFIXES = (".down", ".up", ".txt")
ARCHIVE_SUFFIX = ".tar.xz"
# Larger files are refused. A day at 1 Gbit/s has 7 billion lines, which would not fit into memory.
MAX_FILE_BYTES = 2**30
HOUR = re.compile(r"hour[-_]?\d+", re.IGNORECASE)


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


def find_files(paths: Sequence[Path], *, wanted: Callable[[str], bool]) -> Iterator[TraceFile]:
    """Every trace file of files, folders and archives, each once: folders sorted by name, archives in their own order.

    wanted: decides by the name of its dataset whether a file is read.

    Raises TraceError for a path that does not exist, does not have the name of a trace, or cannot be read. Also for a
    file over 2^30 bytes, and if there is no trace at all.
    """
    found: set[Path] = set()
    for path in paths:
        for below, root in _paths_of(path):
            if below.resolve() in found:
                continue
            found.add(below.resolve())
            if _is_archive(below.name):
                if wanted(below.name.removesuffix(ARCHIVE_SUFFIX)):
                    yield from _archive_files(below)
                continue
            dataset, folder = _labels(below, root=root)
            if wanted(dataset):
                yield _plain_file(below, dataset=dataset, folder=folder)
    if not found:
        listed = ", ".join(str(path) for path in paths) or "no path"
        raise TraceError(f"{listed}: expected files {', '.join(TRACE_SUFFIXES)} or {ARCHIVE_SUFFIX}, got none of them")


def _paths_of(path: Path) -> Iterator[tuple[Path, Path]]:
    """Trace files and archives at or below a path, each with the folder from which its dataset is derived."""
    if path.is_dir():
        for below in sorted(path.rglob("*")):
            if (is_trace(below.name) or _is_archive(below.name)) and below.is_file():
                yield below, path
    elif not path.is_file():
        raise TraceError(f"{path}: expected a trace file, folder or archive, got nothing there; check the path")
    elif is_trace(path.name) or _is_archive(path.name):
        yield path, path.parent
    else:
        raise TraceError(
            f"{path}: expected a name ending in {', '.join(TRACE_SUFFIXES)} or {ARCHIVE_SUFFIX}; rename the file"
        )


def is_trace(file_name: str) -> bool:
    """Whether a file has the name of a trace."""
    return file_name.endswith(TRACE_SUFFIXES) and not file_name.startswith(".")


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


def _plain_file(path: Path, *, dataset: str, folder: str) -> TraceFile:
    _check_size(folder, path.name, path.stat().st_size)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: expected a readable file, got {error.strerror}; check its permissions") from error
    return TraceFile(dataset, folder, str(path.resolve().parent), visible(path.name), data)


def _archive_files(path: Path) -> Iterator[TraceFile]:
    dataset = visible(path.name.removesuffix(ARCHIVE_SUFFIX))
    n_files = 0
    try:
        with tarfile.open(path, mode="r|xz") as archive:
            for member in archive:
                parts = [visible(part) for part in PurePosixPath(member.name).parts if part not in {".", "..", "/"}]
                if not member.isreg() or not parts or not is_trace(parts[-1]):
                    continue
                folder = "/".join([dataset, *(part for part in parts[:-1] if part != dataset)])
                _check_size(folder, parts[-1], member.size)
                reader = archive.extractfile(member)
                n_files += 1
                location = f"{path.resolve()}/{member.name.rpartition('/')[0]}"
                yield TraceFile(dataset, folder, location, parts[-1], reader.read() if reader else b"")
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise TraceError(
            f"{path}: expected a whole {ARCHIVE_SUFFIX}, got a broken one ({error}); copy it anew"
        ) from error
    if not n_files:
        raise TraceError(f"{path}: expected files {', '.join(TRACE_SUFFIXES)} in the archive, got none")


def _check_size(folder: str, file_name: str, n_bytes: int) -> None:
    if n_bytes > MAX_FILE_BYTES:
        raise TraceError(f"{folder}/{file_name}: expected at most {MAX_FILE_BYTES} bytes, got {n_bytes}; cut the file")
