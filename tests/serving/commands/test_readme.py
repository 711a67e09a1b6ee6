# SPDX-License-Identifier: MIT
"""The README's blocks on the registry and the server, run one after the other as they are written"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.prove.guarded import free_port

pytestmark = pytest.mark.service

WAIT_S = 60.0
# These need root, the network, or minutes. Other tests run them.
NOT_HERE = ("make", "dkms", "pip", "ccatune-agent enable")
PROGRAMS = {"ccatune": [str(REPOSITORY / "ccatune.py")], "ccatune-agent": ["-m", "serving.agent"]}


def commands_of(section: str) -> list[list[str]]:
    """The command lines of a section's block."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition(f"### {section}\n")[2]
    block = text.partition("```\n")[2].partition("```")[0]
    return [shlex.split(line, comments=True) for line in block.splitlines() if not line.startswith(NOT_HERE)]


def test_the_blocks_on_the_registry_and_the_server_work_as_they_are_written(tmp_path: Path, ensemble_file) -> None:
    ensemble_file().rename(tmp_path / "gr.json")
    port = str(free_port())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CCATUNE_")}
    # The default port may belong to another registry on this machine.
    environment["CCATUNE_REGISTRY_URL"] = f"http://127.0.0.1:{port}"
    servers: list[subprocess.Popen[bytes]] = []
    said = {}
    try:
        for words in [*commands_of("Registry"), *commands_of("Server")]:
            program, *options = [word.replace("8640", port) for word in words]
            if program == "export":
                environment.update([options[0].split("=", 1)])
                continue
            command = [sys.executable, *PROGRAMS[program], *options]
            if words == ["ccatune", "serve"]:
                ready = ["--port", port, "--ready-file", "ready"]
                servers.append(subprocess.Popen([*command, *ready], cwd=tmp_path, env=environment))
                wait_for(tmp_path / "ready")
                continue
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S
            )
            said[" ".join(words)] = (done.returncode, done.stdout + done.stderr)
    finally:
        for server in servers:
            server.terminate()
            server.wait(WAIT_S)
    # A machine without the module holds no table: its dry run says so, after an answer of the registry.
    *others, (status, text) = said.values()
    assert len(others) == 5
    assert [one for one in others if one[0] != 0] == []
    assert "registry answers" in text
    assert re.search(r"^gr: Unsigned; offered serial 1, in force serial 1 ", others[-1][1], re.MULTILINE)
    assert status in {0, 1}


def wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not file.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
