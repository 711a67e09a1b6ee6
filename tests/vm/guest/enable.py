# SPDX-License-Identifier: MIT
"""`ccatune-agent enable` and `disable` on the real settings and modules."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import inside
import life
import tree


def settings(job: dict[str, Any]) -> dict[str, Any]:
    """Everything that may change."""
    root = Path("/proc/sys/net/ipv4")
    names = ("tcp_congestion_control", "tcp_allowed_congestion_control", "tcp_available_congestion_control")
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    found: dict[str, Any] = {name: (root / name).read_text().split() for name in names}
    found["modules"] = sorted(name for name in loaded if "ccatune" in name or name == job["module"])
    return found


def command(job: dict[str, Any], *words: str) -> dict[str, Any]:
    """Run one of the two commands in this process, whose start is paid for already; status and what it said."""
    sys.path[:] = [*dict.fromkeys([*sys.path, job["repository"], job["site_packages"]])]
    import click

    from kmod.errors import CcatuneError
    from serving.agent import commands

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            status = getattr(commands, words[0]).main(list(words[1:]), standalone_mode=False)
        except (CcatuneError, click.ClickException) as error:
            status = 2
            said.write(str(error))
    return {"status": status or 0, "said": said.getvalue().strip()}


def choice_of_nobody(job: dict[str, Any]) -> int:
    """The errno with which an ordinary user is refused the algorithm; 0 where the kernel lets it choose."""
    return tree.errno_of(lambda: life.choose(socket.socket(), job["name"]), user=tree.NOBODY)


def as_nobody(job: dict[str, Any], *words: str) -> dict[str, Any]:
    """The same in a child that has become an ordinary user."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        tree.become(tree.NOBODY)
        os.write(writing, json.dumps(command(job, *words)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return dict(json.loads(pipe.read()))


def with_the_modules_installed(job: dict[str, Any], seen: dict[str, Any]) -> None:
    """As an ordinary user, enabled, with a flow on it, disabled."""
    seen["nobody"] = as_nobody(job, "enable", job["cca"])
    seen["after nobody"] = settings(job)
    seen["enable"] = command(job, "enable", job["cca"])
    seen["enabled"] = settings(job)
    seen["choice of nobody, enabled"] = choice_of_nobody(job)
    seen["enable again"] = command(job, "enable", job["cca"])
    with inside.chain(), inside.receiver(), inside.sending("--seconds", "60") as sender:
        inside.wait_for(tree.flows, timeout_s=10, what="a flow by default", of=sender)
        seen["disable with a flow"] = command(job, "disable", "--json")
        seen["disabled with a flow"] = settings(job)
        seen["choice of nobody, disabled"] = choice_of_nobody(job)
        seen["flows"] = len(tree.flows())
    inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the flow's end")
    # The namespaces made meanwhile hold it too, and end when the kernel comes to it.
    held = Path(f"/sys/module/{job['module']}/refcnt")
    inside.wait_for(lambda: held.read_text().strip() == "0", timeout_s=120, what="the namespaces' end")
    seen["disable"] = command(job, "disable")
    seen["disabled"] = settings(job)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Before; without the modules; with them."""
    tree.unload_modules(job)
    seen: dict[str, Any] = {"before": settings(job)}
    seen["without the module"] = command(job, "enable", job["cca"])
    seen["after that"] = settings(job)
    # CcatuneEntries alone in the place of the kernel's own: depmod over those takes minutes under software emulation.
    release = job["release"]
    place = Path("/tmp/installed/lib/modules") / release
    (place / "updates").mkdir(parents=True, exist_ok=True)
    for path in job["modules"]:
        (place / "updates" / Path(path).name).write_bytes(Path(path).read_bytes())
    inside.run("depmod", "-b", "/tmp/installed", release)
    inside.run("mount", "--bind", str(place), f"/lib/modules/{release}")
    try:
        with_the_modules_installed(job, seen)
    finally:
        inside.run("umount", f"/lib/modules/{release}")
    return seen
