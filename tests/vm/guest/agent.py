# SPDX-License-Identifier: MIT
"""The whole way in one guest: the registry, the agent, the module, a flow; and what is left when parts of it go.

No root document is pinned, so an agent whose kernel holds the offered table is in the state `Unsigned`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inside
import tree

URL = "http://127.0.0.1:8640"
STATE = Path("/tmp/agent-state")


def ccatune(job: dict[str, Any], *words: str) -> list[str]:
    """A command line of ours."""
    return [job["ccatune"], *words]


def agent_words(job: dict[str, Any]) -> list[str]:
    """The agent, with a short interval."""
    return [job["agent"], "--url", URL, "--cca", tree.CCA, "--state-dir", str(STATE), "--interval", "0.2", "--json"]


def state() -> dict[str, Any]:
    """What the agent last stored."""
    path = STATE / tree.CCA / "state"
    return json.loads(path.read_text().split("\n", 1)[1]) if path.exists() else {}


def wait_for_state(name: str, agent: subprocess.Popen[str], timeout_s: float = 30) -> None:
    """Until the agent says so."""
    what = f"state {name}, {state()}"
    inside.wait_for(lambda: state().get("state") == name, timeout_s=timeout_s, what=what, of=agent)


@contextlib.contextmanager
def registry(job: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A new registry that answers."""
    folder = Path(f"/tmp/registry-{tree.CCA}")
    folder.mkdir(mode=0o700, exist_ok=True)
    ready, log = folder / "ready", folder / "log"
    serve = ccatune(job, "serve", "--open", "--database", f"sqlite:///{folder}/registry.db", "--ready-file", str(ready))
    with (
        log.open("w") as output,
        inside.process(*serve, stdout=output, stderr=output) as started,
    ):
        try:
            inside.wait_for(ready.exists, timeout_s=90, what="the registry", of=started)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.read_text()}") from error
        yield started


def publish(file: str) -> None:
    """Put an ensemble into the registry and move the channel to it.

    Over the API itself: the command line that does the same takes many times as long to import here.
    """
    body = (inside.SHARE / file).read_bytes()
    answer("POST", "/v1/ensembles", body)
    move = {"digest": json.loads(body)["digest"], "hold_back_permille": 0, "note": ""}
    answer("PUT", f"/v1/channels/{tree.CCA}/champion", json.dumps(move).encode())


def answer(method: str, path: str, body: bytes) -> None:
    """Ask the registry; raises RuntimeError with what it says where it does not take it."""
    from http.client import HTTPConnection

    connection = HTTPConnection(URL.removeprefix("http://"), timeout=300)
    connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
    response = connection.getresponse()
    said = response.read()
    connection.close()
    if response.status not in {200, 201}:
        raise RuntimeError(f"{method} {path}: expected 200 or 201, got {response.status}: {said!r:.500}")


def wait_for_serial(serial: int, agent: subprocess.Popen[str], timeout_s: float = 30) -> None:
    """Until the kernel holds what the agent writes."""
    inside.wait_for(
        lambda: tree.here().exists() and tree.status()["serial"] == str(serial),
        timeout_s=timeout_s,
        what=f"serial {serial} in force",
        of=agent,
    )


def with_the_registry(job: dict[str, Any]) -> dict[str, Any]:
    """Publish, apply, move, change by hand, give back."""
    seen: dict[str, Any] = {}
    with inside.process(*agent_words(job), stdout=subprocess.DEVNULL) as agent:
        wait_for_serial(1, agent, 60)
        wait_for_state("Unsigned", agent)
        publish(f"{tree.CCA}-ensemble-2.json")
        wait_for_serial(2, agent)
        wait_for_state("Unsigned", agent)
        seen["table of the flow"] = table_of_a_flow(job)
        tree.must("ensemble", job["tables"]["by_hand"])
        wait_for_state("Degraded", agent)
        seen["by hand stays"] = tree.read("ensemble") == job["tables"]["by_hand"]
        agent.send_signal(signal.SIGHUP)
        wait_for_serial(2, agent)
        wait_for_state("Unsigned", agent)
        tree.must("ensemble", "clear\n")
        wait_for_state("Degraded", agent)
        agent.send_signal(signal.SIGHUP)
        wait_for_serial(2, agent)
        wait_for_state("Unsigned", agent)
        # The agent runs on while the module is loaded anew.
        tree.unload_modules(job)
        wait_for_state("Incompatible", agent)
        tree.load_modules(job)
        began_s = time.monotonic()
        wait_for_serial(2, agent)
        seen["seconds after a reload under the agent"] = round(time.monotonic() - began_s, 2)
        wait_for_state("Unsigned", agent)
        agent.kill()
    return seen


def table_of_a_flow(job: dict[str, Any]) -> list[str]:
    """Values that a flow took."""
    shaped = inside.chain(rate="16mbit", queue_bytes=200_000, delay_ms=20)
    with shaped, inside.receiver():
        with inside.sending("--cca", tree.NAME, "--seconds", "30") as sender:
            inside.wait_for(lambda: any(f["state"] != "-" for f in tree.flows()), timeout_s=10, what="a row", of=sender)
            values = [flow[job["marker"]] for flow in tree.flows()]
        # Without its path the socket would outlive this by minutes, and hold the module.
        inside.wait_for(lambda: not tree.flows(), timeout_s=20, what="the flow's end")
    return values


def without_the_registry(job: dict[str, Any]) -> dict[str, Any]:
    """The agent was killed, the registry is gone, the module was loaded anew: the last known good returns."""
    tree.unload_modules(job)
    tree.load_modules(job)
    empty = tree.status()["table"]
    seconds = started_anew(job, serial=2)
    after = tree.status()
    return {"table before": empty, "from_exec_s": seconds, "serial": after["serial"], "left": after["table"]}


def read_beforehand(job: dict[str, Any]) -> None:
    """Run the agent once with nothing to apply, so that its files are in memory and compiled, as installed ones are.

    While a file is on its way from the host the guest's own clock skips what it would idle, tick by tick: on a busy
    machine the agent's start then takes seconds that no disk took (docs/decisions/0012).
    """
    words = (job["agent"], "--url", URL, "--cca", tree.CCA, "--state-dir", "/tmp/nothing", "--once")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(words, env=environment, capture_output=True, check=False, timeout=120 * job["patience"])


def started_anew(job: dict[str, Any], *, serial: int) -> float:
    """Start the agent without a registry; seconds from its exec until the table is in force."""
    read_beforehand(job)
    exec_s = time.monotonic()
    with inside.process(*agent_words(job), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        wait_for_serial(serial, agent, 60)
        in_force_s = time.monotonic()
        wait_for_state("Offline", agent, 60)
    return round(in_force_s - exec_s, 2)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it; the state folder is left in the shared folder for a guest booted later."""
    shutil.rmtree(STATE, ignore_errors=True)
    with registry(job) as serving:
        publish(f"{tree.CCA}-ensemble-1.json")
        seen = with_the_registry(job)
        serving.kill()
    seen["gone"] = without_the_registry(job)
    shutil.copytree(STATE, inside.SHARE / "state", dirs_exist_ok=True)
    tree.must("ensemble", "clear\n")
    return seen
