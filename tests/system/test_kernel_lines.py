# SPDX-License-Identifier: MIT
"""The kernel lines that are tested: one file, and all that has to agree with it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from emulation import vm

REPOSITORY = Path(__file__).resolve().parents[2]
LINUX = REPOSITORY / "kmod" / "linux"
TABLE = json.loads((REPOSITORY / "emulation" / "vm" / "kernel-lines.json").read_text(encoding="utf-8"))
ASKING = """
import sys
sys.path.insert(0, "packaging")
import guest_files
sys.stdout.write(guest_files.chosen_release(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""
VERSION_H = """
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION({numbers})
"""


def chosen(line: str, tested: str, *releases: str) -> tuple[str, str]:
    """The release that the set-up takes, and what it says."""
    command = [sys.executable, "-c", ASKING, line, tested, *releases]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def compiled(folder: Path, numbers: str) -> str:
    """What the compiler says of compat.h under a kernel of this version."""
    for name, text in {"linux/version.h": VERSION_H.format(numbers=numbers), "net/tcp.h": ""}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="ascii")
    command = ["gcc", "-E", f"-I{folder}", str(LINUX / "compat.h"), "-o", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def admitted() -> re.Pattern[str]:
    """What DKMS compares a kernel's release with."""
    text = (LINUX / "dkms.conf").read_text(encoding="ascii")
    found = re.search(r'^BUILD_EXCLUSIVE_KERNEL="(.*)"$', text, re.MULTILINE)
    assert found is not None
    return re.compile(found[1])


def test_dkms_admits_the_tested_lines_and_no_other() -> None:
    assert admitted().pattern == "^(" + "|".join(re.escape(line) for line in TABLE) + r")\."
    assert all(admitted().match(row["release"]) for row in TABLE.values())
    assert not any(admitted().match(release) for release in ("5.10.0-1-amd64", "6.2.0", "6.18.5", "61.1.0", "8.0.1"))


@pytest.mark.parametrize("line", TABLE)
def test_compat_h_compiles_on_each_tested_line(line: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, ", ".join([*line.split("."), "7"])) == ""


@pytest.mark.parametrize("numbers", ["5, 10, 1", "6, 2, 0", "6, 11, 255", "6, 18, 5", "8, 0, 1"])
def test_compat_h_refuses_any_other_line_with_one_error_that_names_the_tested_ones(
    numbers: str, tmp_path: Path
) -> None:
    said = compiled(tmp_path, numbers)
    (error,) = (line for line in said.splitlines() if "error" in line and "#error" in line and "compat.h:" in line)
    assert all(line in re.findall(r"[0-9.]+[0-9]", error.partition("Linux")[2]) for line in TABLE)


def test_the_virtual_machine_and_the_set_up_have_the_same_lines() -> None:
    assert tuple(TABLE) == vm.LINES
    assert vm.FULL_LINE in vm.PROVED_LINES
    assert set(vm.PROVED_LINES) <= set(vm.LINES)


def test_a_tested_release_is_taken_and_a_newer_one_is_a_warning() -> None:
    assert chosen("6.1", "6.1.0-9-amd64", "6.1.0-8-amd64", "6.1.0-9-amd64") == ("6.1.0-9-amd64", "")
    release, said = chosen("6.1", "6.1.0-9-amd64", "6.1.0-9-amd64", "6.1.0-10-amd64")
    assert release == "6.1.0-9-amd64"
    assert said.startswith("setup: warning: the archive has Linux 6.1.0-10-amd64; ")


def test_a_tested_release_that_has_gone_is_replaced_by_the_next_of_its_line_and_a_line_says_so() -> None:
    release, said = chosen("6.1", "6.1.0-9-amd64", "6.1.0-8-amd64", "6.1.0-10-amd64", "6.1.0-11-amd64")
    assert release == "6.1.0-10-amd64"
    assert said == (
        "setup: Linux 6.1.0-9-amd64, which is tested, is no longer in the archive; 6.1.0-10-amd64 is used instead\n"
    )
