# SPDX-License-Identifier: MIT
"""Files, folders and archives; what is left out and counted."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from emulation.scenario.model import LinkSpec, Scenario
from emulation.traces import TraceError, read, read_recordings
from emulation.traces import _sources as sources

SLOT = "1\n15000\n30000\n"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.down").write_text(content)
    return folder


def archive(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return path


@pytest.mark.parametrize("suffix", [".down", ".up", ".trace", ".txt"])
def test_a_file_alone_is_a_recording_with_its_last_line_as_period(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"walk{suffix}"
    path.write_text("0\n3\n7\n")
    (recording,) = read_recordings(path)
    assert recording.trace.opportunities_ms.tolist() == [0, 3, 7]
    assert recording.trace.period_ms == 7
    assert recording.dataset == tmp_path.name
    assert recording.name == f"{tmp_path.name}/walk{suffix}"


def test_folder_and_archive_of_the_same_files_read_the_same(tmp_path: Path) -> None:
    files = {f"set/hour01/{number:05}.down": SLOT for number in (7, 8, 9, 11)}
    for name, content in files.items():
        write((tmp_path / name).parent, **{Path(name).stem: content})
    from_folder = read_recordings(tmp_path / "set")
    from_archive = read_recordings(archive(tmp_path / "set.tar.xz", files))
    assert [recording.trace for recording in from_folder] == [recording.trace for recording in from_archive]
    assert [recording.name for recording in from_archive] == ["set/hour01/00007-00009", "set/hour01/00011.down"]
    assert {recording.dataset for recording in from_folder + from_archive} == {"set"}


def test_files_given_twice_are_read_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", x="5\n")
    assert read([folder, folder / "x.down", tmp_path]).n_files == 1


def test_hour_folder_given_itself_knows_its_dataset(tmp_path: Path) -> None:
    folder = write(tmp_path / "set-train" / "hour03", x="5\n")
    assert read_recordings(folder)[0].dataset == "set-train"


def test_bad_file_is_refused_with_folder_file_and_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", a="5\n", b="5\n4\n")
    with pytest.raises(TraceError, match=r"set/b\.down, line 2: .*going backwards"):
        read_recordings(folder)


def test_skip_bad_leaves_bad_files_out_and_counts_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", a="5\n", b="5\n4\n", c="")
    reading = read(folder, skip_bad=True)
    assert [recording.name for recording in reading.recordings] == ["set/a.down"]
    assert len(reading.skipped) == 2
    assert reading.n_files == 1


def test_a_bad_file_in_a_series_ends_the_recording(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", w1=SLOT, w2="no\n", w3=SLOT)
    assert [recording.files for recording in read(folder, skip_bad=True).recordings] == [
        ("set/w1.down",),
        ("set/w3.down",),
    ]


def test_nothing_left_after_skipping_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="1 bad file was left out, and nothing is left"):
        read(write(tmp_path / "set", a=""), skip_bad=True)


def test_other_files_are_named_and_hidden_ones_passed_over(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", a="5\n")
    (folder / "up.trace").write_text("7\n")
    (folder / "drive.csv").write_text("t,rate\n")
    (folder / "._a.down").write_bytes(b"\x00")
    write(folder / ".cache", b="no\n")
    archive(folder / "b.tar.xz", {"b/x.down": "5\n", "b/README.md": "no", "b/.x.down": "no"})
    reading = read(folder)
    assert [recording.name for recording in reading.recordings] == ["b/x.down", "set/a.down", "set/up.trace"]
    assert reading.unread == (f"{folder}/b.tar.xz/b/README.md", f"{folder}/drive.csv")
    assert reading.left_out == [f"2 files that are no traces were not read: {', '.join(reading.unread)}"]


def test_a_folder_of_other_files_alone_is_refused_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="got none of them"):
        read(tmp_path)
    (tmp_path / "drive.csv").write_text("t,rate\n")
    with pytest.raises(TraceError, match=r"got only others \(.*drive\.csv\); `ccatune traces import` converts"):
        read(tmp_path)


def test_delays_of_leoreplayer_are_no_links(tmp_path: Path) -> None:
    delays = "24\n" * 600 + "25\n" * 600
    for name, text in (("bw_1.txt", "1\n2\n3\n"), ("delay_1.txt", delays), ("renamed.txt", delays)):
        (tmp_path / name).write_text(text)
    reading = read(tmp_path, skip_bad=True)
    assert [recording.files for recording in reading.recordings] == [(f"{tmp_path.name}/bw_1.txt",)]
    assert reading.unread == (str(tmp_path / "delay_1.txt"),)
    with pytest.raises(TraceError, match=r"renamed\.txt: .*got 1200 lines from 24 to 25, which look like delays"):
        read(tmp_path / "renamed.txt")
    with pytest.raises(TraceError, match=r"delay_1\.txt: expected a link, got the name of a file of delays"):
        read(tmp_path / "delay_1.txt")


def test_a_constant_link_of_ten_gigabits_is_no_file_of_delays(tmp_path: Path) -> None:
    (recording,) = read(write(tmp_path / "set", fast="1\n" * 833)).recordings
    assert recording.trace.mean_rate_mbps == pytest.approx(9996)


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "set.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        link = tarfile.TarInfo("set/secret.down")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(TraceError, match="in the archive, got none"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.down", None, "got nothing there"),
        ("a.csv", b"1\n", "expected a name ending in .down, .up, .trace, .txt or .tar.xz"),
        ("a.tar.xz", b"no archive", "got a broken one"),
        ("a.tar.xz", b"", "got a broken one"),
    ],
)
def test_unusable_paths_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=message):
        read(tmp_path / name)


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 9, 30_000).cumsum()
    path = archive(tmp_path / "a.tar.xz", {"a/x.down": "".join(f"{time}\n" for time in noise)})
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(TraceError, match="got a broken one"):
        read(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 10)
    folder = write(tmp_path / "set", a="5\n" * 10)
    with pytest.raises(TraceError, match=r"set/a\.down: expected at most 10 bytes, got 20"):
        read(folder)


def test_progress_names_every_file(tmp_path: Path) -> None:
    names: list[str] = []
    read(write(tmp_path / "set", a="5\n", b="6\n"), progress=names.append)
    assert names == ["set/a.down", "set/b.down"]


def test_recorded_archives_give_the_hours_that_they_hold(recorded_traces: Path) -> None:
    reading = read(recorded_traces / "pqsa-3g-train.tar.xz")
    assert reading.n_files == 474
    first = reading.recordings[0]
    assert first.name == "pqsa-3g-train/hour00/08640-08759"
    assert first.duration_s == 3600
    assert all(recording.duration_s == 30 * len(recording.files) for recording in reading.recordings)


def test_a_member_of_an_archive_without_a_name_is_passed_over(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.xz", {"..": "1\n", "a/x.down": "5\n"})
    assert [recording.name for recording in read_recordings(path)] == ["a/x.down"]


def test_a_file_of_a_day_is_read_and_a_longer_one_is_bad(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", day="86400000\n")
    (recording,) = read_recordings(folder)
    assert Scenario(link=LinkSpec(trace=recording.trace), duration_s=recording.duration_s).duration_s == 86400
    write(folder, more="86400001\n")
    with pytest.raises(TraceError, match=r"set/more\.down: expected at most 24 h, 86400000 ms, got 86400001 ms; cut"):
        read(folder)
    assert len(read(folder, skip_bad=True).skipped) == 1
