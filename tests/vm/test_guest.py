# SPDX-License-Identifier: MIT
"""The virtual machine itself: it brings back what happened, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulation.vm import FULL_LINE, GuestError, build_modules, kernel_line, run_in_guest

pytestmark = pytest.mark.vm

HELLO = Path(__file__).parent / "hello"
SCRIPT = """
uname -r
insmod "$1" && rmmod hello
touch /etc/made-by-the-guest && echo wrote
echo kept >file
echo complaint >&2
exit 7
"""


def children_of(parent: int) -> list[int]:
    """The processes whose parent this is."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(word) for word in path.read_text(encoding="ascii").split()] if path.exists() else []


def test_a_guest_boots_its_line_loads_a_module_built_here_and_brings_everything_back(tmp_path: Path) -> None:
    built = build_modules(FULL_LINE, source=HELLO)
    result = run_in_guest(
        FULL_LINE, ["sh", "-c", SCRIPT, "sh", str(built.paths["hello"])], timeout_s=120, files=tmp_path / "share"
    )
    assert result.status == 7
    assert result.stdout.split() == [kernel_line(FULL_LINE).release, "wrote"]
    assert result.stderr == "complaint\n"
    assert (result.files / "file").read_text() == "kept\n"
    log = [text.partition("] ")[2] for text in result.kernel_log.splitlines()]
    assert log.index("hello") < log.index("bye")
    assert not Path("/etc/made-by-the-guest").exists()


def test_a_build_with_a_warning_is_not_continued(tmp_path: Path) -> None:
    source = tmp_path / "warned"
    shutil.copytree(HELLO, source)
    hello = source / "hello.c"
    good = hello.read_text()
    hello.write_text(f"{good}\nint said_nowhere(void)\n{{\n\treturn 0;\n}}\n")
    for _ in range(2):
        assert "no previous prototype" in " ".join(build_modules(FULL_LINE, source=source).warnings)
    hello.write_text(good)
    assert build_modules(FULL_LINE, source=source).warnings == []


def test_a_guest_past_its_time_is_ended() -> None:
    with pytest.raises(GuestError, match=r"within 1 s, but it did not"):
        run_in_guest("6.1", ["true"], timeout_s=1)
    assert not children_of(os.getpid()) or all("qemu" not in command_of(child) for child in children_of(os.getpid()))


def test_a_kernel_that_dies_is_told_with_its_last_words_and_what_the_command_had_printed() -> None:
    with pytest.raises(GuestError, match=r"went down before[\s\S]*\nso far\n[\s\S]*sysrq triggered crash"):
        run_in_guest("6.1", ["sh", "-c", "echo so far; echo c >/proc/sysrq-trigger"], timeout_s=120)


def command_of(process: int) -> str:
    """The command line of a process; "" if it is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_killing_the_owner_of_a_guest_ends_the_guest() -> None:
    owner = subprocess.Popen([sys.executable, "-m", "emulation.vm", "run", "sleep", "600"], stdout=subprocess.DEVNULL)
    deadline_s = time.monotonic() + 60
    guests: list[int] = []
    while not guests and time.monotonic() < deadline_s:
        guests = [child for child in children_of(owner.pid) if "qemu" in command_of(child)]
        time.sleep(0.05)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert guests
    while command_of(guests[0]) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert command_of(guests[0]) == ""


def test_a_line_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(GuestError, match=r"kernel 5\.4: expected it unpacked in .*make setup"):
        run_in_guest("5.4", ["true"], timeout_s=1)
