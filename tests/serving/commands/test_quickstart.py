# SPDX-License-Identifier: MIT
"""ccatune quickstart, and the commands of docs/quickstart.md up to the first table in force"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.access import repository as principals
from serving.access.token_text import public_id_of
from serving.agent import cli as agent_cli
from serving.commands import quickstart_plan
from serving.commands.quickstart import next_commands
from serving.commands.quickstart_plan import Plan, make_plan
from serving.commands.quickstart_steps import Quickstart, Step
from serving.database import Database
from serving.registry.app import utc_now
from serving.signatures import PrivateKey
from serving.signatures.keys import SignatureError
from tests.conftest import REPOSITORY
from tests.serving.api import Command
from tests.serving.certificates import Authority
from tests.serving.commands.test_readme import free_port, wait_for

pytestmark = pytest.mark.service

MOST_COMMANDS = 8
UNITS = {
    "ccatune-api": REPOSITORY / "packaging" / "debian" / "ccatune-server.ccatune-api.service",
    "ccatune-agent": REPOSITORY / "serving" / "agent" / "ccatune-agent.service",
}
Snapshot = dict[str, bytes]


@pytest.fixture
def folder(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files come to. The schema is there already, which saves the time of the migrations."""
    monkeypatch.delenv("CCATUNE_DATABASE_URL", raising=False)
    folder = tmp_path / "etc"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "registry.db")
    return folder


@pytest.fixture
def quickstart(folder: Path, run_command: Command) -> Callable[..., dict[str, Any]]:
    """Runs the command, and gives its answer."""

    def run(*options: object) -> dict[str, Any]:
        status, out, error = run_command("quickstart", "--folder", folder, *options, "--json")
        assert (status, error) == (0, "")
        answer: dict[str, Any] = json.loads(out)
        return answer

    return run


def states(answer: dict[str, Any]) -> set[str]:
    return {step["state"] for step in answer["steps"]}


def snapshot(folder: Path) -> Snapshot:
    """The content of all files but the database's."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("registry.db")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def require_whole(folder: Path) -> None:
    """All keys are named by the document, and the database has the token of each file."""
    payload = json.loads((folder / "root.json").read_bytes())["payload"]
    keys = [PrivateKey.load(folder / name) for name in ("offline/root.pem", "offline/publisher.pem", "registry.pem")]
    content = base64.b64decode(payload).decode()
    assert all(key.public.key_id in content for key in keys)
    for name in ("offline/root.pem", "offline/publisher.pem", "registry.pem"):
        assert (folder / f"{name}.pub").read_text() == f"{PrivateKey.load(folder / name).public.text}\n"
    database = Database(f"sqlite:///{folder}/registry.db")
    with database.read() as session:
        for name in ("admin.token", "publisher.token", "agent.token"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
            public_id = public_id_of((folder / name).read_bytes().strip())
            assert public_id is not None
            assert principals.token(session, public_id) is not None
    database.close()


def documented() -> list[list[str]]:
    """The command lines of the page."""
    block = (REPOSITORY / "docs" / "quickstart.md").read_text(encoding="utf-8").split("```\n")[1]
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_the_documented_commands_lead_to_a_signed_table_in_force(
    folder: Path, ensemble_file, run_command: Command, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    ensemble_file().rename(folder / "gr.json")
    monkeypatch.chdir(folder)
    port = free_port()
    # The default port may belong to another registry of this machine.
    monkeypatch.setenv("CCATUNE_REGISTRY_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("CCATUNE_AGENT_STATE_DIR", str(folder / "agent-state"))
    commands = documented()
    assert len(commands) <= MOST_COMMANDS
    assert [words[0] for words in commands][:2] == ["apt", "ccatune"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for words in commands:
            match [word.replace("/etc/ccatune", str(folder)) for word in words]:
                case ["apt", "install", *_] | ["ccatune-agent", "enable", "gr"]:
                    pass  # tests/prove/packages.py installs; enabling needs the kernel
                case ["ccatune", "quickstart"]:
                    assert run_command("quickstart", "--folder", folder, "--port", port)[0] == 0
                case ["systemctl", "enable", "--now", unit]:
                    running.append(start(unit, folder))
                case ["ccatune", *options]:
                    status, _, error = run_command(*options)
                    assert (status, error) == (0, "")
                case ["ccatune-agent", *options]:
                    assert agent_cli.run(options) == 0
    finally:
        for process in running:
            process.terminate()
            process.wait(60)
    assert capsys.readouterr().out.startswith("gr: InSync; offered serial 1, in force serial 1 (sha256:")


def start(unit: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start what the unit starts, until it is ready; the agent with a stand-in for the kernel's files."""
    line = next(line for line in UNITS[unit].read_text().splitlines() if line.startswith("ExecStart="))
    program, *options = shlex.split(line.partition("=")[2].removeprefix("/usr/bin/env "))
    options = [option.replace("/etc/ccatune", str(folder)) for option in options]
    if program == "ccatune-agent":
        added = ["--config", str(folder / "agent.toml"), "--stand-in", str(folder / "try")]
        return subprocess.Popen([sys.executable, "-m", "serving.agent", *options, *added], cwd=REPOSITORY)
    ready = folder / "ready"
    command = [sys.executable, str(REPOSITORY / "ccatune.py"), *options, "--ready-file", str(ready)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    wait_for(ready)
    return process


def test_the_command_ends_with_the_documented_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(quickstart_plan, "_service_account", lambda: None)
    plan = make_plan(None, ccas=("gr",), channel="champion", agents=(), ca_file=None)
    assert [shlex.split(line) for line in next_commands(plan)] == documented()[2:]


def test_a_repetition_keeps_everything(folder: Path, quickstart) -> None:
    dry = quickstart("--dry-run")
    assert (states(dry), snapshot(folder)) == ({"kept", "would make"}, {})  # of the database alone
    assert states(quickstart()) == {"made"}
    require_whole(folder)
    before = snapshot(folder)
    assert states(quickstart()) == {"kept"}
    shutil.move(folder / "offline", folder.parent / "stick")
    again = quickstart("--dry-run"), quickstart()
    assert [states(answer) - {"would make"} for answer in again] == [{"kept"}, {"kept"}]
    assert snapshot(folder) == {name: text for name, text in before.items() if not name.startswith("offline")}


class KilledError(Exception):
    """Stands for a kill after a step."""


@pytest.fixture
def broken(folder: Path) -> Callable[[int], int]:
    """Runs until the given number of steps is done; gives how many there were."""

    def run(n_steps: int) -> int:
        steps: list[Step] = []

        def tell(step: Step) -> None:
            steps.append(step)
            if len(steps) > n_steps:
                raise KilledError

        plan = make_plan(folder, ccas=("gr",), channel="champion", agents=(), ca_file=None)
        with contextlib.suppress(KilledError):
            Quickstart(plan, is_dry=False, now=utc_now(), tell=tell).run()
        return len(steps)

    return run


def test_a_broken_run_is_finished_wherever_it_ended(folder: Path, broken, sqlite_template: Path) -> None:
    for n_steps in (1, 3, 4, 5, 7, 9):
        assert broken(n_steps) == n_steps + 1
        kept = snapshot(folder)
        assert broken(99) == 11
        assert {name: snapshot(folder)[name] for name in kept} == kept
        require_whole(folder)
        shutil.rmtree(folder)
        folder.mkdir()
        shutil.copy(sqlite_template, folder / "registry.db")


def test_files_that_a_kill_left_empty_or_unknown_are_made_anew(folder: Path, quickstart) -> None:
    (folder / "offline").mkdir(mode=0o700)
    for name in ("offline/publisher.pem", "registry.pem.pub", "agent.token"):
        (folder / name).touch(mode=0o600)
    (folder / "admin.token").touch(mode=0o600)
    (folder / "admin.token").write_text(f"ccat_{'0' * 16}_{'x' * 43}\n")
    quickstart()
    require_whole(folder)


def test_nothing_that_exists_is_replaced(folder: Path, quickstart, run_command: Command) -> None:
    def refused(*options: object) -> str:
        before = snapshot(folder)
        status, _, error = run_command("quickstart", "--folder", folder, *options)
        assert (status, snapshot(folder)) == (2, before)
        return error

    quickstart()
    assert "expected the port, registry that it has" in refused("--port", 8641, "--registry-name", "lab")
    token = (folder / "publisher.token").read_bytes()
    (folder / "publisher.token").write_text(f"ccat_{'0' * 16}_{'x' * 43}\n")
    assert "expected a token of this registry's database" in refused()
    (folder / "publisher.token").write_bytes(token)
    key = (folder / "registry.pem").read_bytes()
    (folder / "registry.pem").unlink()
    assert "expected the registry's key" in refused()
    PrivateKey.generate().save(folder / "registry.pem")
    assert "expected a key that version 1 of the root document names" in refused()
    (folder / "registry.pem").write_bytes(key)
    (folder / "root.json").unlink()
    assert "which has one already" in refused()


def test_a_private_key_that_cannot_be_read_is_no_empty_one(folder: Path, broken) -> None:
    (folder / "offline").mkdir(mode=0o700)
    (folder / "offline" / "root.pem").touch(mode=0o600)
    (folder / "offline" / "root.pem").write_text("mine")
    with pytest.raises(SignatureError, match="cannot be decoded"):
        broken(99)
    assert (folder / "offline" / "root.pem").read_text() == "mine"


def test_with_tls_each_further_server_has_a_folder_of_its_own(folder: Path, tmp_path: Path, quickstart) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue()
    tls = ("--tls-cert-file", pair.cert, "--tls-key-file", pair.key, "--host-name", "localhost")
    tls += ("--ca-file", authority.file)
    answer = quickstart(*tls, "--agent", "web-1")
    assert answer["url"] == "https://localhost:8640"
    assert states(quickstart(*tls, "--agent", "web-1", "--agent", "web-2")) == {"kept", "made"}
    for name in ("web-1", "web-2"):
        place = folder / "agents" / name
        assert {path.name for path in place.iterdir()} == {"agent.toml", "agent.token", "ca.pem", "root.json"}
        assert (place / "root.json").read_bytes() == (folder / "root.json").read_bytes()
        text = (place / "agent.toml").read_text()
        assert 'url = "https://localhost:8640"' in text
        assert 'token_file = "/etc/ccatune/agent.token"' in text
    assert any("--url https://localhost:8640 --ca-file" in line for line in answer["next"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--agent", "web-1"], "expected TLS"),
        (["--database", "postgresql://me:secret@host/db"], "expected a URL without a password"),
        (["--cca", "nosuch"], "expected one of"),
        (["--channel", "a b"], "channel: expected"),
        (["--registry-name", "a b"], "registry: "),
        (["--tls-cert-file", "none.pem"], "expected both"),
        (["--tls-cert-file", "none.pem", "--tls-key-file", "none.key"], "none.pem"),
    ],
)
def test_a_mistake_makes_nothing(folder: Path, run_command: Command, options: list[str], expected: str) -> None:
    status, _, error = run_command("quickstart", "--folder", folder, *options)
    assert (status, snapshot(folder)) == (2, {})
    assert expected in error
    assert "secret" not in error


@pytest.fixture
def system_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Stand for /etc/ccatune and /var/lib/ccatune. Another user reaches no folder of pytest."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for files of another user")
    with tempfile.TemporaryDirectory(prefix="ccatune-quickstart-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(quickstart_plan, "SYSTEM_FOLDER", Path(name) / "etc")
        monkeypatch.setattr(quickstart_plan, "SYSTEM_DATA", Path(name) / "data")
        monkeypatch.setattr("serving.commands.quickstart_steps.SYSTEM_DATA", Path(name) / "data")
        monkeypatch.setattr(quickstart_plan, "_service_account", lambda: pwd.getpwnam("nobody"))
        yield Path(name) / "etc", Path(name) / "data"


def test_the_service_owns_its_database_and_only_reads_its_key(system_folders: tuple[Path, Path]) -> None:
    folder, data = system_folders
    service = pwd.getpwnam("nobody")
    plan: Plan = make_plan(None, ccas=("gr",), channel="champion", agents=(), ca_file=None)
    for _ in range(2):
        Quickstart(plan, is_dry=False, now=utc_now(), tell=lambda _step: None).run()
        assert {path.stat().st_uid for path in [data, *data.iterdir()]} == {service.pw_uid}
        key = (folder / "registry.pem").stat()
        assert (key.st_uid, key.st_gid, stat.S_IMODE(key.st_mode)) == (0, service.pw_gid, 0o640)
        others = [path for path in folder.rglob("*") if path.name != "registry.pem"]
        assert {path.stat().st_uid for path in others} == {0}
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.token")} == {0o600}
