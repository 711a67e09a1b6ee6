# SPDX-License-Identifier: MIT
"""`ccatune-agent --root` as a process: where it refuses to start, and that its trial agrees with it"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.serving.attacked import Scene, scene_in

pytestmark = pytest.mark.service

WITH = "import sys; from serving.agent.cli import run; sys.exit(run(sys.argv[1:]))"
WITHOUT = f"import sys; sys.modules['cryptography'] = None; {WITH}"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_in(tmp_path) as made:
        yield made


def command(scene: Scene, *options: str, program: str = WITH, path: Path | None = None) -> tuple[int, str]:
    """Run `ccatune-agent` in a process; return its exit status and all output."""
    told = ["--url", scene.attacker.url, "--cca", "gr", "--agent-id", "web-1", "--token-file",
            str(scene.folder / "token"), "--state-dir", str(scene.folder / "state"), "--stand-in",
            str(scene.folder / "tree"), *options]  # fmt: skip
    search = [str(path)] if path is not None else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*search, *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", program, *told],
        capture_output=True, text=True, check=False, timeout=60, cwd=REPOSITORY, env=environment,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_without_cryptography_the_agent_refuses_to_start_if_a_root_document_is_pinned(scene: Scene) -> None:
    root = ["--root", str(scene.root_file)]
    broken = scene.folder / "broken" / "cryptography"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libssl.so.3: cannot open shared object file')\n")
    for options in ([], ["--once"], ["--dry-run"]):
        files = scene.files()
        status, text = command(scene, *root, *options, program=WITHOUT)
        assert (status, "expected the package cryptography" in text) == (2, True), text
        assert scene.files() == files
        status, text = command(scene, *root, *options, path=broken.parent)
        assert (status, "it cannot be imported (libssl.so.3" in text) == (2, True), text
    status, text = command(scene, "--once", program=WITHOUT)
    assert (status, "gr: Unsigned" in text) == (0, True), text


def test_a_pinned_file_that_others_may_write_ends_the_agent(scene: Scene) -> None:
    assert scene.root_file is not None
    scene.root_file.chmod(0o666)
    files = scene.files()
    for options in ([], ["--once"], ["--dry-run"]):
        status, text = command(scene, "--root", str(scene.root_file), *options)
        assert (status, "whoever writes to it chooses the keys" in text) == (2, True), text
    assert scene.files() == files


def test_the_trial_on_the_command_line_agrees_and_writes_nothing(scene: Scene) -> None:
    root = ["--root", str(scene.root_file)]
    scene.rotate()
    scene.move(3)
    files = scene.files()
    status, text = command(scene, *root, "--dry-run")
    assert (status, "would do: apply lab/champion serial 3" in text) == (0, True), text
    scene.attacker.offer = lambda offer: {**offer, "signatures": None}
    status, text = command(scene, *root, "--dry-run")
    assert (status, "[Rejected]" in text) == (1, True), text
    assert scene.files() == files
    status, text = command(scene, *root, "--once", "--json")
    assert (status, json.loads(text.splitlines()[0])[0]["state"]) == (1, "Rejected")
