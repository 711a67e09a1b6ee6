# SPDX-License-Identifier: MIT
"""The wheel for servers: built and installed without a compiler, into an environment that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CLICK_WHEELS = Path(sys.prefix) / "agent-wheels"  # put there by `make setup`, by requirements/agent.lock


@dataclass(frozen=True)
class Server:
    """A machine as the agent finds it: the wheel, an environment, and a PATH with no program on it."""

    wheel: Path
    folder: Path
    path: Path

    def run(self, *arguments: str | Path) -> str:
        """Run a program of the environment outside of the working copy; its standard output."""
        return run_bare([self.folder / "bin" / arguments[0], *arguments[1:]], path=self.path)


def run_bare(arguments: list[str | Path], *, path: Path) -> str:
    """Run a program that finds no other: no compiler, no CMake, no index to load packages from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "SKBUILD"))}
    environment = {**kept, "PATH": str(path), "CC": "/nonexistent/cc", "CXX": "/nonexistent/c++", "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        arguments, env=environment, cwd=path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    root = tmp_path_factory.mktemp("agent")
    nothing = root / "empty"
    nothing.mkdir()
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", root]
    run_bare([*pip_wheel, REPOSITORY / "packaging" / "agent"], path=nothing)
    (wheel,) = root.glob("*.whl")
    venv.create(root / "env", with_pip=True, symlinks=True)
    made = Server(wheel=wheel, folder=root / "env", path=nothing)
    made.run("python", "-m", "pip", "install", "--find-links", CLICK_WHEELS, wheel)
    return made


def test_wheel_is_pure_python(server: Server) -> None:
    assert server.wheel.name.endswith("-py3-none-any.whl")


def test_wheel_holds_the_agent_the_signatures_and_the_contract_alone(server: Server) -> None:
    names = zipfile.ZipFile(server.wheel).namelist()
    inside = ("kmod/", "serving/agent/", "serving/signatures/", "ccatune_agent-")
    outside = [name for name in names if not name.startswith(inside)]
    assert outside == ["serving/__init__.py"]
    assert "kmod/yaml12.py" not in names  # it needs PyYAML
    suffixes = {Path(name).suffix for name in names if not name.startswith("ccatune_agent-")}
    assert suffixes <= {".py", ".typed", ".def", ".service"}  # no header, no compiled code


def test_wheel_carries_its_licences(server: Server) -> None:
    names = zipfile.ZipFile(server.wheel).namelist()
    licences = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "MIT.txt", "GPL-2.0-only.txt"}


def test_agent_needs_click_and_nothing_else(server: Server) -> None:
    listed = json.loads(server.run("python", "-m", "pip", "list", "--format", "json"))
    names = {row["name"].lower() for row in listed} - {"pip", "setuptools"}
    assert names == {"ccatune-agent", "click"}


def test_installed_agent_knows_the_parameters_of_gr(server: Server) -> None:
    code = "from kmod import abi; print(sorted(p.name for p in abi.ALGORITHMS['gr'].tuned))"
    expected = ["adaptation_interval_us", "bandwidth_window_us", "delay_threshold_us"]
    assert server.run("python", "-I", "-c", code).strip() == str(expected)


def test_installed_agent_answers_help(server: Server) -> None:
    assert "--dry-run" in server.run("ccatune-agent", "--help")


def test_both_wheels_have_one_version(server: Server) -> None:
    ours = run_bare([sys.executable, "-m", "ccatune", "--version"], path=server.path).split()[-1]
    assert server.wheel.name.startswith(f"ccatune_agent-{ours}-")
