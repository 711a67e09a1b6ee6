# SPDX-License-Identifier: MIT
"""The Debian packages: built once, and what is in them. The campaign `packages` installs and removes them.

The package of the server is built here without engine and without most of the Python packages that it contains.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bpf.sole import built_program

REPOSITORY = Path(__file__).resolve().parents[2]
CLICK_WHEELS = Path(sys.prefix) / "agent-wheels"  # put there by `make setup`
PROGRAMS = {"dh": "debhelper", "dh_dkms": "dh-dkms", "dh_python3": "dh-python", "help2man": "help2man"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages by name."""
    lacking = [
        package for program, package in {**PROGRAMS, "clang-19": "clang-19"}.items() if not shutil.which(program)
    ]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)} (make setup)")
    folder = tmp_path_factory.mktemp("packages")
    built_program()
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*wheel, str(REPOSITORY / "packaging" / "agent")], check=True)
    (made,) = folder.glob("*.whl")
    server = folder / "server"
    server.mkdir()
    (click,) = CLICK_WHEELS.glob("click-*.whl")
    shutil.copy(click, server)
    words = ["--config-settings=wheel.cmake=false", "-w", str(server), str(REPOSITORY)]
    subprocess.run([*wheel[:-2], *words], check=True)
    build = [sys.executable, str(REPOSITORY / "packaging" / "build_packages.py"), "--server", str(server)]
    subprocess.run([*build, "--wheel", str(made), "--out", str(folder / "out")], check=True, stdout=subprocess.DEVNULL)
    return {path.name.partition("_")[0]: path for path in (folder / "out").iterdir()}


def files_of(package: Path) -> set[str]:
    """The paths of its files."""
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    return {line.split()[5].removeprefix(".") for line in listed.splitlines() if not line.startswith("d")}


def field(package: Path, name: str) -> str:
    """A field of its control file."""
    done = subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def root(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the server's package, and in DEBIAN its scripts."""
    folder = tmp_path_factory.mktemp("root")
    subprocess.run(["dpkg-deb", "--raw-extract", packages["ccatune-server"], folder], check=True)
    return folder


def test_there_are_four_packages_of_the_wheels_version(packages: dict[str, Path]) -> None:
    assert set(packages) == {"ccatune-agent", "ccatune-bpf", "ccatune-dkms", "ccatune-server"}
    (version,) = {field(path, "Version") for path in packages.values()}
    ours = subprocess.run([sys.executable, "-m", "ccatune", "--version"], check=True, capture_output=True, text=True)
    assert version == ours.stdout.split()[-1]


def test_the_agent_is_pure_python_with_its_units_and_keeps_to_its_own_folder(packages: dict[str, Path]) -> None:
    package = packages["ccatune-agent"]
    assert field(package, "Architecture") == "all"
    assert "python3-click" in field(package, "Depends")
    files = files_of(package)
    units = {"/lib/systemd/system/ccatune-agent.service", "/lib/systemd/system/ccatune-observe.service"}
    allowed = ("/usr/share/ccatune-agent/", "/usr/share/doc/", "/usr/share/man/", "/usr/share/python3/")
    assert {name for name in files if not name.startswith(allowed)} == {"/usr/bin/ccatune-agent", *units}


def test_the_modules_come_as_sources_for_dkms(packages: dict[str, Path]) -> None:
    package = packages["ccatune-dkms"]
    assert "dkms" in field(package, "Depends")
    files = {name for name in files_of(package) if not name.startswith("/usr/share/doc/")}
    source = f"/usr/src/ccatune-{field(package, 'Version')}"
    assert files >= {f"{source}/dkms.conf", f"{source}/linux/tcp_gr.c", f"{source}/core/gr.h"}
    assert {Path(name).suffix for name in files} <= {".c", ".h", ".def", ".conf", ""}


def test_bpf_is_one_program_that_needs_libbpf_and_gives_the_agent_its_rights(packages: dict[str, Path]) -> None:
    package = packages["ccatune-bpf"]
    assert "libbpf1" in field(package, "Depends")
    assert files_of(package) >= {
        "/usr/bin/ccatune-bpf",
        "/lib/systemd/system/ccatune-agent.service.d/bpf.conf",
        "/usr/share/man/man1/ccatune-bpf.1.gz",
    }


def test_the_server_is_an_environment_of_its_own_with_its_pages(packages: dict[str, Path], root: Path) -> None:
    allowed = ("/opt/ccatune-server/", "/lib/systemd/system/ccatune-", "/usr/share/")
    assert {name for name in files_of(packages["ccatune-server"]) if not name.startswith(allowed)} == {
        "/usr/bin/ccatune"
    }
    (modules,) = root.glob("opt/ccatune-server/lib/python3*/site-packages")
    pages = {str(path.relative_to(REPOSITORY)) for kind in ("static", "templates")
             for path in (REPOSITORY / "serving" / "dashboard" / kind).rglob("*.*")}  # fmt: skip
    assert pages
    assert {name for name in pages if not (modules / name).exists()} == set()
    assert (modules / "configs" / "studies" / "gr.yaml").exists()
    assert {path.name for path in (root / "opt/ccatune-server/bin").iterdir()} == {
        "ccatune", "python", "python3", f"python{sys.version_info[0]}.{sys.version_info[1]}"
    }  # fmt: skip


def test_nothing_in_the_server_names_the_folder_of_the_build_or_is_compiled_later(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"ccatune-packages-" not in path.read_bytes(), path
    modules = [path for path in root.rglob("*.py") if "site-packages" in path.parts and "bin" not in path.parts]
    tag = sys.implementation.cache_tag
    assert {path for path in modules if not (path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc").exists()} == set()


def test_the_units_start_what_is_installed_with_few_rights(root: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("not installed: systemd")
    folder = root / "lib" / "systemd" / "system"
    names = {f"ccatune-{name}.service" for name in ("api", "controller", "runner")}
    assert {path.name for path in folder.iterdir()} == names
    for unit in folder.iterdir():
        command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-200:] + done.stderr
        # The programs of the units are not installed on this machine.
        text = unit.read_text(encoding="utf-8").replace("=/usr/bin/ccatune", "=/bin/true")
        (root / unit.name).write_text(text, encoding="utf-8")
        verify = ["systemd-analyze", "verify", "--man=no", str(root / unit.name)]
        assert subprocess.run(verify, capture_output=True, text=True, check=False).stderr == ""
