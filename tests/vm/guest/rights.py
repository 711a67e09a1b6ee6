# SPDX-License-Identifier: MIT
"""Who may write, who may choose the algorithm, and what a namespace other than the initial one sees."""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inside
import tree

_NEWUSER, _NEWNET, _SET_DUMPABLE = 0x10000000, 0x40000000, 4
_NET_ADMIN = 12
_CAPABILITIES = 0x20080522  # version 3: two words each of what is effective, permitted and inheritable
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
Step = Callable[[], None]


def done(result: int) -> None:
    """Raise OSError where a function of the C library failed."""
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def nobody() -> None:
    """In a child: become an ordinary user, whose /proc/self is its own, as behind an exec."""
    tree.become(tree.NOBODY)
    done(inside.LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0))


def without_net_admin() -> None:
    """In a child: root without CAP_NET_ADMIN."""
    header, words = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    done(inside.LIBC.capget(header, words))
    for place in range(3):
        words[place] &= ~(1 << _NET_ADMIN)
    done(inside.LIBC.capset(header, words))


def in_its_own_user_namespace() -> None:
    """In a child: root of a user namespace of its own."""
    done(inside.LIBC.unshare(_NEWUSER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {tree.NOBODY} 1")
    if os.getuid():
        raise AssertionError("expected to be root of the user namespace")


def in_its_own_network() -> None:
    """In a child: behind the map of users, so that the files are its root's, as in a container."""
    done(inside.LIBC.unshare(_NEWNET))


def in_both() -> None:
    """In a child: a user namespace and a network namespace that belongs to it."""
    done(inside.LIBC.unshare(_NEWUSER | _NEWNET))


def as_somebody(work: Callable[[], str], *steps: Step) -> str:
    """What the work answers in a child that has taken the steps."""

    def stepped() -> None:
        for step in steps:
            step()
        print(work())  # noqa: T201 - the parent reads it

    return inside.said(stepped).strip()


def attempt(name: str, text: str, *steps: Step) -> str:
    """Try to write as somebody else; says where it failed and with which errno."""

    def work() -> str:
        try:
            descriptor = os.open(tree.OWN_PLACE / tree.CCA / name, os.O_WRONLY)
        except OSError as error:
            return f"open {error.errno}"
        try:
            os.write(descriptor, text.encode())
        except OSError as error:
            return f"write {error.errno}"
        return "written"

    return as_somebody(work, *steps)


def writers(job: dict[str, Any]) -> dict[str, str]:
    """Each kind of writer and how it fared."""
    clear, parameter = "clear\n", f"{job['knob']['name']} {job['knob']['first']}\n"
    powerless, contained = without_net_admin, (nobody, in_its_own_user_namespace)
    return {
        "root": attempt("ensemble", clear),
        "nobody": attempt("ensemble", clear, nobody),
        "nobody, parameters": attempt("parameters", parameter, nobody),
        "nobody, settings": attempt("settings", "default_class 1\n", nobody),
        "root without CAP_NET_ADMIN": attempt("ensemble", clear, powerless),
        "root without CAP_NET_ADMIN, parameters": attempt("parameters", parameter, powerless),
        "root without CAP_NET_ADMIN, settings": attempt("settings", "default_class 1\n", powerless),
        "root of a user namespace, initial network": attempt("ensemble", clear, *contained),
        "root of a user namespace, its own network": attempt("ensemble", clear, *contained, in_its_own_network),
        "nobody, opened by root": handed_over(os.O_WRONLY),
        "root, opened by nobody to read": handed_over(os.O_RDONLY),
    }


def choose(cca: str, *steps: Step) -> str:
    """Choose the algorithm for a socket as somebody else; returns the errno where the kernel refuses."""

    def work() -> str:
        try:
            socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
        except OSError as error:
            return str(error.errno)
        return "chosen"

    return as_somebody(work, *steps)


def choosers(job: dict[str, Any]) -> dict[str, str]:
    """Who may choose the algorithm: by default, while it is allowed, and with the module's parameter."""
    cca, module = job["name"], job["module"]
    seen = {
        "root": choose(cca),
        "nobody": choose(cca, nobody),
        "root of a user namespace, its own network": choose(cca, nobody, in_both),
    }
    before = _ALLOWED.read_text()
    _ALLOWED.write_text(f"{before.strip()} {cca}\n")
    seen["nobody, allowed"] = choose(cca, nobody)
    _ALLOWED.write_text(before)
    seen["nobody, allowed no more"] = choose(cca, nobody)
    path = next(path for path in job["modules"] if Path(path).stem == module)
    for words in (["unrestricted=1"], []):
        tree.unload(module)
        tree.insmod(path, " ".join(words))
        seen[f"nobody, module loaded with {words}"] = choose(cca, nobody)
    return seen


def handed_over(mode: int) -> str:
    """A file that one process opened and another one writes to: it is the opener's rights that count."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        if mode == os.O_RDONLY:
            os.setresuid(65534, 65534, 65534)
        socket.send_fds(theirs, [b"."], [os.open(tree.here() / "ensemble", mode)])
        os._exit(0)
    descriptor = socket.recv_fds(ours, 1, 1)[1][0]
    os.waitpid(child, 0)
    child = os.fork()
    if not child:
        if mode == os.O_WRONLY:
            os.setresuid(65534, 65534, 65534)
        try:
            os.write(descriptor, b"clear\n")
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    os.close(descriptor)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"write {number}" if number else "written"


def in_box(work: Callable[[Path], object]) -> Any:
    """What the work answers in the network namespace `box`, whose folder of the algorithm it is given."""
    here = tree.OWN_PLACE / tree.CCA
    return json.loads(inside.said(lambda: print(json.dumps(work(here))), namespace="box"))  # noqa: T201 - as above


def container(job: dict[str, Any]) -> dict[str, Any]:
    """A namespace follows the initial table, keeps one of its own, or does neither."""
    seen: dict[str, Any] = {}
    knob, tables = job["knob"], job["tables"]
    tree.must("ensemble", tables["first"])
    tree.must("parameters", f"{knob['name']} {knob['first']}\n")

    def line_of(here: Path | None = None) -> str:
        return next(line for line in tree.read("parameters", here).splitlines() if knob["name"] in line)

    def table_and_value(here: Path) -> list[str]:
        return [tree.status(here)["table"], line_of(here).split()[1]]

    def written(*writes: tuple[str, str]) -> list[str]:
        def work(here: Path) -> list[str]:
            for file, text in writes:
                tree.must(file, text, here)
            return table_and_value(here)

        return in_box(work)  # type: ignore[no-any-return]

    inside.run("ip", "netns", "add", "box")
    try:
        seen["at first"] = written()
        seen["told not to follow"] = written(("settings", "follow_initial 0\n"))
        seen["with its own"] = written(("settings", "follow_initial 1\n"), ("ensemble", tables["second"]))
        seen["its own table"] = in_box(lambda here: tree.read("ensemble", here)) == tables["second"]
        seen["the initial one's"] = tree.read("ensemble") == tables["first"]
        own = f"{knob['name']} {knob['second']}\n"
        seen["cleared, own parameters"] = written(("parameters", own), ("ensemble", "clear\n"))
        seen["cleared both"] = written(("parameters", "clear\n"))
        seen["whose parameters"] = [in_box(lambda here: tree.status(here)["parameters"]), tree.status()["parameters"]]
        seen["initial parameters"] = line_of()
    finally:
        inside.run("ip", "netns", "del", "box", check=False)
    tree.must("ensemble", "clear\n")
    tree.must("parameters", job["default_parameters"])
    return seen


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it."""
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in sorted(tree.here().iterdir())}
    return {"modes": modes, "writers": writers(job), "container": container(job), "choosers": choosers(job)}
