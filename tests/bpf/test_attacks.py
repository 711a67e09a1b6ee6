# SPDX-License-Identifier: MIT
"""What another user of the machine, a program that holds a lock, or a map of another version does to ccatune-bpf."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from tests.vm import cases
from tests.vm.subjects import GR

# $1: the program; $2: what root does in a BPF file system; $3: the trap that the user nobody then sets there.
ATTACK = """
mkdir bpffs victim victim/gr
echo precious | tee victim/file > victim/gr/file
mount -t bpf bpf bpffs
cd bpffs
sh -c "$2"
setpriv --reuid=65534 --regid=65534 --clear-groups -- sh -ec "$3"
cd ..
for command in unload load read write list; do
    case $command in
    list) words=list ;;
    read|write) words="$command gr ensemble" ;;
    *) words="$command gr" ;;
    esac
    "$1" --pins "$PWD/bpffs/ccatune" $words < /dev/null && echo "$command succeeded"
done
cat victim/file victim/gr/file
"""


@pytest.mark.parametrize(
    ("root_does", "trap", "said"),
    [
        ("true", "ln -s ../victim ccatune", "expected a folder, got a symbolic link"),
        ("true", "mkdir ccatune; ln -s ../../victim/gr ccatune/gr", "expected a folder of root or of user 0"),
        ("mkdir -m 777 ccatune", "ln -s ../../victim/gr ccatune/gr", "expected a folder that other users cannot open"),
    ],
    ids=["link", "folder", "link in a folder of root"],
)
def test_no_folder_that_another_user_names_is_read_or_emptied(
    program: Path, tmp_path: Path, root_does: str, trap: str, said: str
) -> None:
    words = ["unshare", "--mount", "sh", "-uc", ATTACK, "attack", str(program), root_does, trap]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr.count(said)) == (["precious", "precious"], 5), done.stderr


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_of_the_path_that_others_can_write_to_is_refused(host: BpfHost, tmp_path: Path, mode: int) -> None:
    host.load("gr")
    tmp_path.chmod(mode)
    try:
        with pytest.raises(PermissionError, match=f"{tmp_path}: expected a folder that other users cannot write to"):
            host.unload("gr")
    finally:
        tmp_path.chmod(0o700)
    assert host.loaded() == ["gr"]


def test_only_a_bpf_file_system_is_used(program: Path, tmp_path: Path) -> None:
    (tmp_path / "pins" / "gr").mkdir(mode=0o700, parents=True)
    (tmp_path / "pins").chmod(0o700)
    (tmp_path / "pins" / "gr" / "file").touch()
    for command in ("load", "unload"):
        done = subprocess.run(
            [program, "--pins", tmp_path / "pins", command, "gr"], capture_output=True, text=True, check=False
        )
        assert done.returncode == errno.ENOTDIR
        assert "of a BPF file system" in done.stderr or "mount -t bpf -o mode=0700" in done.stderr
    assert (tmp_path / "pins" / "gr" / "file").exists()


def pins_of(host: BpfHost, tmp_path: Path) -> Path:
    """The folder of GR, which is loaded with a table and a recording in place."""
    host.load("gr")
    host.write("gr", "recording", "start 10\n")
    host.write("gr", "recording", "stop\n")
    host.write("gr", "ensemble", cases.text(GR))
    return tmp_path / "bpffs" / "ccatune" / "gr"


def bpftool(words: str) -> None:
    subprocess.run(["bpftool", *words.split()], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("configs", "type array key 4 value 4096"),
        ("counters", "type array key 4 value 4096"),
        ("flows", "type hash key 512 value 8"),
        ("host", "type array key 4 value 4096"),
        ("host", "type percpu_array key 4 value 40"),
        ("sums-1", "type array key 4 value 4096"),
        ("delays-1", "type array key 4 value 65536"),
        ("recording", "type array key 4 value 8 flags 0x400"),
    ],
)
def test_a_map_of_another_size_or_kind_is_not_read_and_unload_works(
    host: BpfHost, program: Path, tmp_path: Path, name: str, kind: str
) -> None:
    pin = pins_of(host, tmp_path) / name
    pin.unlink()
    bpftool(f"map create {pin} {kind} entries 9 name other")
    done = subprocess.run(
        [program, "--pins", pin.parent.parent, "read", "gr", "recording" if name == "recording" else "status"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{pin}: expected the map that this version of ccatune-bpf makes, got another one" in done.stderr
    assert done.returncode in {0, errno.EPROTO}
    host.unload("gr")
    assert host.loaded() == []


def test_a_configuration_of_another_size_is_not_read_and_unload_works(host: BpfHost, tmp_path: Path) -> None:
    folder = pins_of(host, tmp_path)
    (folder / "configs").unlink()
    bpftool(f"map create {folder}/config-9 type array key 4 value 4000000 entries 1 name config")
    bpftool(
        f"map create {folder}/configs type array_of_maps key 4 value 4 entries 1 name configs "
        f"inner_map pinned {folder}/config-9"
    )
    bpftool(f"map update pinned {folder}/configs key 0 0 0 0 value pinned {folder}/config-9")
    with pytest.raises(OSError, match="config: expected the map that this version of ccatune-bpf makes") as caught:
        host.read("gr", "status")
    assert caught.value.errno == errno.EPROTO
    host.unload("gr")
    assert host.loaded() == []


def test_a_lock_that_another_program_holds_delays_for_seconds_and_sigterm_ends_the_wait(
    host: BpfHost, program: Path, tmp_path: Path
) -> None:
    host.load("gr")
    held = os.open(tmp_path / "bpffs" / "ccatune" / "gr", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    words = [program, "--pins", tmp_path / "bpffs" / "ccatune", "unload", "gr"]
    with subprocess.Popen(words) as ended:
        with pytest.raises(TimeoutError, match="expected its lock within 5 s, but another program holds it"):
            BpfHost(program, pins=tmp_path / "bpffs" / "ccatune").read("gr", "status")
        ended.terminate()
    os.close(held)
    assert host.loaded() == ["gr"]
