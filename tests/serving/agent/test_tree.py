# SPDX-License-Identifier: MIT
"""ProcTree on ordinary files, BpfTree and AutoTree on a ccatune-bpf made of files, and BpfTree on the real one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kmod.abi import ALGORITHMS
from kmod.bpf_host import BpfHost
from serving.agent.kernel import (
    MAX_READ_BYTES,
    AutoTree,
    BpfTree,
    NotLoadedError,
    ProcTree,
    Tree,
    errno_in_words,
    look,
    make_tree,
)
from serving.agent.state import PollResult, State
from serving.agent.store import Store
from tests.serving.agent.fakes import applier_of, table

# Serves the files of a folder, and fails with the number in the file `fails`, as the real one does.
FAKE_PROGRAM = """#!/bin/sh
cd {folder} || exit 1
echo "$@" >> ran
[ ! -e fails ] || {{ echo "ccatune-bpf: refused by the fake" >&2; exit "$(cat fails)"; }}
[ -d "$2" ] || {{ echo "ccatune-bpf: $2 is not loaded below {folder}; \\`ccatune-bpf load $2\\` does" >&2; exit 2; }}
case "$1" in
read) cat "$2/$3" ;;
write) cat > "$2/$3" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a fake of ccatune-bpf, which is the installed one. GR is loaded."""
    made = tmp_path / "bpf"
    (made / "gr").mkdir(parents=True)
    program = tmp_path / "ccatune-bpf"
    program.write_text(FAKE_PROGRAM.format(folder=made))
    program.chmod(0o755)
    monkeypatch.setenv("CCATUNE_BPF", str(program))
    return made


@pytest.fixture
def auto(tmp_path: Path, folder: Path) -> AutoTree:
    """Where /proc has no folder of any CCA."""
    del folder
    return AutoTree(ProcTree(tmp_path / "proc"), BpfTree())


def calls(folder: Path) -> list[str]:
    """How the program was run."""
    return (folder / "ran").read_text().splitlines() if (folder / "ran").exists() else []


def test_program_that_does_not_end_is_killed_and_the_access_may_be_repeated(folder: Path) -> None:
    program = folder / "slow"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(TimeoutError, match="expected `ccatune-bpf read gr status` to end within") as caught:
        BpfTree(lambda: BpfHost(program, limit_s=0.2)).read("gr", "status")
    assert errno_in_words(caught.value).startswith("ETIMEDOUT (ccatune-bpf took too long")


def test_status_of_the_program_is_the_errno(folder: Path) -> None:
    (folder / "fails").write_text(f"{errno.ESTALE}")
    with pytest.raises(OSError, match="refused by the fake") as caught:
        BpfTree().write("gr", "ensemble", "abc")
    assert errno_in_words(caught.value) == "ESTALE (the kernel holds a newer serial of this channel)"


@pytest.mark.parametrize(
    "access",
    [lambda tree: tree.read("roccet", "status"), lambda tree: tree.write("roccet", "ensemble", "clear\n")],
    ids=["read", "write"],
)
def test_what_is_not_loaded_says_so_and_what_to_do(auto: AutoTree, access: Callable[[Tree], object]) -> None:
    with pytest.raises(NotLoadedError) as caught:
        access(BpfTree())
    assert errno_in_words(caught.value).startswith("ENOENT (roccet is not loaded below ")
    with pytest.raises(NotLoadedError) as caught:
        access(auto)
    words = errno_in_words(caught.value)
    assert words.startswith("ENOENT (the module is not loaded, or does not know this CCA: ")
    assert "/proc/roccet is missing; in BPF: roccet is not loaded below " in words
    assert words.endswith("; `ccatune-agent enable roccet` loads one of them)")


def test_a_program_that_is_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ccatune-bpf"
    monkeypatch.setenv("CCATUNE_BPF", str(program))
    tree = BpfTree()
    with pytest.raises(NotLoadedError, match="ccatune-bpf is not installed"):
        tree.read("gr", "status")
    program.write_text("#!/bin/sh\necho module 1\n")
    program.chmod(0o755)
    assert tree.read("gr", "status") == "module 1\n"


def test_auto_uses_bpf_until_the_module_is_loaded_and_after_it_is_unloaded(
    tmp_path: Path, folder: Path, auto: AutoTree
) -> None:
    auto.write("gr", "ensemble", "in BPF")
    assert auto.read("gr", "ensemble") == "in BPF"
    of_module = tmp_path / "proc" / "gr"
    of_module.mkdir(parents=True)
    (of_module / "ensemble").touch()
    auto.write("gr", "ensemble", "in the module")
    assert auto.read("gr", "ensemble") == "in the module"
    assert (of_module / "ensemble").read_text() == "in the module"
    assert calls(folder) == ["write gr ensemble", "read gr ensemble"]
    (of_module / "ensemble").unlink()
    of_module.rmdir()
    assert auto.read("gr", "ensemble") == "in BPF"


def test_each_setting_has_its_tree(tmp_path: Path, folder: Path) -> None:
    of_module = tmp_path / "proc" / "gr"
    of_module.mkdir(parents=True)
    (of_module / "ensemble").write_text("in the module")
    (folder / "gr" / "ensemble").write_text("in BPF")
    read = {via: make_tree(via, proc_root=tmp_path / "proc").read("gr", "ensemble") for via in ("auto", "proc", "bpf")}
    assert read == {"auto": "in the module", "proc": "in the module", "bpf": "in BPF"}


@pytest.mark.parametrize("kind", ["proc", "bpf"])
def test_text_reads_back_as_it_was_written_and_must_be_ascii_and_bounded(folder: Path, kind: str) -> None:
    tree: Tree = ProcTree(folder) if kind == "proc" else BpfTree()
    file = folder / "gr" / "ensemble"
    file.touch()
    tree.write("gr", "ensemble", "ccatune-ensemble 1\nend 0\n")
    assert tree.read("gr", "ensemble") == "ccatune-ensemble 1\nend 0\n"
    with pytest.raises(UnicodeEncodeError):
        tree.write("gr", "ensemble", "serial \u00b2\n")
    file.write_bytes(b"serial \xb2\n")
    with pytest.raises(OSError, match="not ASCII at byte 7") as caught:
        tree.read("gr", "ensemble")
    assert caught.value.errno == errno.EILSEQ
    file.write_bytes(b"x" * MAX_READ_BYTES)
    assert len(tree.read("gr", "ensemble")) == MAX_READ_BYTES
    file.write_bytes(b"x" * (MAX_READ_BYTES + 1))
    with pytest.raises(OSError, match=str(MAX_READ_BYTES)) as caught:
        tree.read("gr", "ensemble")
    assert caught.value.errno == errno.EFBIG


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "gr").mkdir()
    (tmp_path / "gr" / "ensemble").touch()
    return tmp_path


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


def test_missing_file_is_never_created(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ProcTree(root).write("gr", "missing", "abc")
    assert not (root / "gr" / "missing").exists()


@pytest.mark.bpf
def test_the_agent_keeps_a_table_in_the_real_one(tmp_path: Path, host: BpfHost) -> None:
    tree = AutoTree(ProcTree(tmp_path / "proc"), BpfTree(lambda: host))
    store = Store(tmp_path / "state")
    one, two, urgent = table(1), table(2), table(3, urgent=True)
    with store.acquire():
        applier = applier_of(tree, store)
        applier.start()
        applier.receive(PollResult(State.IN_SYNC, one))
        assert applier.report().state == State.INCOMPATIBLE
        assert "gr is not loaded" in str(applier.report().error)

        host.load("gr")
        applier.check()
        assert (applier.report().state, applier.report().error) == (State.UNSIGNED, None)
        assert host.read("gr", "ensemble") == one.text
        ranges = {spec.name: (spec.minimum, spec.maximum) for spec in ALGORITHMS["gr"].params}
        found = look(tree, "gr").parameters
        assert {name: (found[name].minimum, found[name].maximum) for name in ranges} == ranges

        # Another load of it has another instance, so that its empty table is nobody's wish.
        host.unload("gr")
        host.load("gr")
        applier.check()
        assert host.read("gr", "ensemble") == one.text

        host.write("gr", "ensemble", two.text)
        applier.check()
        assert applier.report().state == State.DEGRADED
        applier.resume()
        assert host.read("gr", "ensemble") == one.text

        applier.receive(PollResult(State.IN_SYNC, urgent))
        assert host.read("gr", "ensemble") == urgent.text
        assert applier.report().effective_urgent
        with pytest.raises(OSError, match="Stale") as caught:
            tree.write("gr", "ensemble", two.text)
        assert caught.value.errno == errno.ESTALE
