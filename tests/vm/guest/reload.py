# SPDX-License-Identifier: MIT
"""Modules unloaded while flows run, and loaded again."""

from __future__ import annotations

from typing import Any

import inside
import tree


def main(job: dict[str, Any]) -> dict[str, Any]:
    """What unloading gave while a flow ran, and what the next instance starts with."""
    seen: dict[str, Any] = {}
    tree.must("ensemble", job["tables"]["first"])
    first = tree.status()
    with inside.chain(), inside.receiver():
        with inside.sending("--cca", job["name"], "--seconds", "30") as sender:
            inside.wait_for(tree.flows, timeout_s=10, what="a flow", of=sender)
            seen["rmmod while a flow runs"] = tree.rmmod(job["module"])
            seen["rmmod ccatune while a flow runs"] = tree.rmmod("ccatune")
            before = int(tree.flows()[0]["bytes_acked"])
            inside.wait_for(
                lambda: any(int(flow["bytes_acked"]) > before + 1_000_000 for flow in tree.flows()),
                timeout_s=10,
                what="the flow going on",
                of=sender,
            )
            sender.kill()
        inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the flow's end")
        # A connection with every file of the tree open while it goes: the module may not go under its readers.
        with (tree.here() / "status").open() as status:
            status.read(1)
            tree.unload_modules(job)
            try:
                seen["read of a file whose module went"] = len(status.read()) >= 0
            except OSError as error:
                seen["read of a file whose module went"] = error.errno
        for _ in range(2):
            tree.load_modules(job)
            tree.unload_modules(job)
        tree.load_modules(job)
        again = tree.status()
        seen["another instance"] = again["instance"] != first["instance"]
        seen["generation, table, serial"] = [again["generation"], again["table"], again["serial"]]
        generations = []
        for file, text in [
            ("parameters", job["default_parameters"]),
            ("settings", "default_class 0\n"),
            ("settings", "no_such 1\n"),
        ]:
            tree.write(file, text)
            generations.append(tree.status()["generation"])
        seen["generation after parameters, settings, a refused write"] = generations
        done = inside.ends(inside.send("--cca", job["name"], "--bytes", "3000000", "--seconds", "20"))
        seen["bytes after it"] = done[0]["acked_bytes"]
    return seen
