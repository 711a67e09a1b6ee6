# SPDX-License-Identifier: MIT
"""Memory that is refused: to the modules wherever they run, then to whole processes that use them.

Meanwhile tables and values are written, files are read, connections begin, send and end, namespaces come and go, and
modules are loaded. What is refused has to be told as such; what was in force stays; each byte of a connection arrives.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import socket
from collections import Counter
from typing import Any

import debugging
import inside
import life
import tree

MODULES_PERCENT = 30
# A module asks some forty times while it is loaded.
LOADING_PERCENT = 3
PROCESSES_PERCENT = 5
FILES = ("ensemble", "parameters", "settings", "status", "flows")
_NEWNET = 0x40000000
_BYTES = b"\0" * 40_000


def name_of(number: int) -> str:
    """An errno's name; `done` for none."""
    return errno.errorcode.get(number, str(number)) if number else "done"


def written(job: dict[str, Any], rng: random.Random, count: int) -> dict[str, Any]:
    """Tables, values, commands of a recording; what each kind was answered, and tables found that nobody wrote."""
    offered = {"", *job["storm_tables"]}
    answers: dict[str, Counter[str]] = {}
    strange = 0
    for _ in range(count):
        for name, texts in (
            ("ensemble", [*job["storm_tables"], "clear\n"]),
            ("parameters", [job["default_parameters"]]),
            ("settings", [job["default_settings"]]),
            ("recording", ["start 200\n", "stop\n", "clear\n"]),
        ):
            number = tree.write(name, rng.choice(texts))
            answers.setdefault(name, Counter())[name_of(number)] += 1
        for name in FILES:
            try:
                text = tree.read(name)
            except OSError as error:
                answers.setdefault(f"read {name}", Counter())[name_of(error.errno or -1)] += 1
            else:
                strange += name == "ensemble" and text not in offered
    return {"answers": answers, "tables_nobody_wrote": strange}


def exchange(cca: str) -> tuple[int, str]:
    """One connection from its beginning to its end: the bytes that did not arrive, and what it was under."""
    with life.listening(cca=cca) as listener:
        client = life.connected(listener, cca)
        server = listener.accept()[0]
        for end in (client, server):
            end.settimeout(60)
        name = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        left = 0
        for one, other in ((client, server), (server, client)):
            one.sendall(_BYTES)
            left += len(_BYTES) - len(other.recv(len(_BYTES), socket.MSG_WAITALL))
        client.close()
        server.close()
    return left, name


def connected(count: int) -> dict[str, Any]:
    """So many connections one after the other; a socket for which there is no memory is plain."""
    lost, names = 0, Counter[str]()
    for _ in range(count):
        left, name = exchange(tree.NAME)
        lost += left
        names[name] += 1
    return {"lost": lost, "names": names}


def in_a_namespace(text: str) -> int:
    """In a child: a namespace of its own with a table and a connection; 0, or the errno of who refused."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    number = 255
    try:
        # As the first thing: what follows is in the new one, or is not done.
        if ctypes.CDLL(None, use_errno=True).unshare(_NEWNET):
            number = ctypes.get_errno()
        else:
            inside.run("ip", "link", "set", "lo", "up")
            tree.write("ensemble", text, folder=tree.OWN_PLACE / tree.CCA)
            number = 0 if exchange(tree.NAME)[0] == 0 else 254
    finally:
        os._exit(number)


def loaded(job: dict[str, Any], count: int) -> dict[str, int]:
    """How often each module was not loaded for want of memory, until it was; `strange`: for any other reason."""
    refused: Counter[str] = Counter()
    for _ in range(count):
        tree.unload_modules(job)
        for path in job["modules"]:
            for _ in range(200):
                done = inside.subprocess.run(["insmod", path], capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    break
                refused["refused" if "Cannot allocate memory" in done.stderr else "strange"] += 1
            else:
                raise RuntimeError(f"expected {path} loaded in 200 attempts, the last said {done.stderr!r}")
    return dict(refused)


def of_whole_processes(job: dict[str, Any], count: int) -> dict[str, int]:
    """The same by processes to which anything may be refused: how each ended. One that dies of it is nobody's fault.

    Linux itself gives up a socket's FIN for which there is no memory, and has no timer that tries again.
    """
    ended: Counter[str] = Counter()
    for number in range(count):
        child = os.fork()
        if not child:
            status = 1
            try:
                debugging.mark_this_process()
                with contextlib.suppress(OSError, MemoryError):
                    written(job, random.Random(number), 3)
                for _ in range(5):
                    with contextlib.suppress(OSError, MemoryError):
                        exchange(tree.NAME)
                status = 0
            finally:
                os._exit(status)
        ended[str(os.waitpid(child, 0)[1])] += 1
    inside.run("ss", "-K", "-t", "state", "last-ack", "state", "fin-wait-1")
    return dict(ended)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it; in the end everything goes as if nothing had been."""
    told = job["faults"]
    rng = random.Random(job["seed"])
    seen: dict[str, Any] = {}
    with debugging.refusing(MODULES_PERCENT):
        seen["written"] = written(job, rng, told["writes"])
        seen["connected"] = connected(told["connections"])
        spaces = [in_a_namespace(rng.choice(job["storm_tables"])) for _ in range(told["namespaces"])]
        seen["namespaces"] = Counter(name_of(number) for number in spaces)
    with debugging.refusing(LOADING_PERCENT):
        seen["loaded"] = loaded(job, told["loads"])
    with debugging.refusing(PROCESSES_PERCENT, of_marked=True):
        seen["processes"] = of_whole_processes(job, told["processes"])
    tree.must("recording", "clear\n")
    tree.must("ensemble", "clear\n")
    tree.must("settings", job["default_settings"])
    tree.must("parameters", job["default_parameters"])
    tree.must("ensemble", job["tables"]["first"])
    seen["good table afterwards"] = tree.read("ensemble") == job["tables"]["first"]
    seen["afterwards"] = connected(3)
    tree.must("ensemble", "clear\n")
    inside.wait_for(lambda: not tree.flows(), timeout_s=90, what="the flows' end")
    seen["leaked"] = debugging.leaked_by_modules()
    return seen
