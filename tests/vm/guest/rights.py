# SPDX-License-Identifier: MIT
"""Who may write, who may choose the algorithm, and what a namespace other than the initial one sees."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import inside
import tree

_ITS_OWN_NETWORK = "its own network"
_TRY = """
import os, sys
if len(sys.argv) > 3:  # root of a user namespace of one's own
    import ctypes
    ctypes.CDLL(None).unshare(0x10000000)
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("0 65534 1")
    assert os.getuid() == 0
    if sys.argv[3] == "its own network":  # behind the map: the files are of its root then, as in a container
        assert ctypes.CDLL(None).unshare(0x40000000) == 0
try:
    descriptor = os.open(sys.argv[1], os.O_WRONLY)
except OSError as error:
    print("open", error.errno)
else:
    try:
        os.write(descriptor, sys.argv[2].encode())
    except OSError as error:
        print("write", error.errno)
    else:
        print("written")
"""


_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_CHOOSE = """
import socket, sys
if len(sys.argv) > 2:  # root of a user namespace and of a network namespace that belongs to it
    import ctypes
    assert ctypes.CDLL(None).unshare(0x50000000) == 0
try:
    socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
except OSError as error:
    print(error.errno)
else:
    print("chosen")
"""


def attempt(name: str, text: str, *prefix: str, unshared: str = "") -> str:
    """Try to write as somebody else, in new namespaces or not; says where it failed and with which errno."""
    place = tree.here() if unshared != _ITS_OWN_NETWORK else tree.OWN_PLACE / tree.CCA
    command = [*prefix, *inside.PYTHON, "-c", _TRY, str(place / name), text, *([unshared] if unshared else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


def writers(job: dict[str, Any]) -> dict[str, str]:
    """Each kind of writer and how it fared."""
    parameter = f"{job['knob']['name']} {job['knob']['first']}\n"
    nobody = _NOBODY
    powerless = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    return {
        "root": attempt("ensemble", "clear\n"),
        "nobody": attempt("ensemble", "clear\n", *nobody),
        "nobody, parameters": attempt("parameters", parameter, *nobody),
        "nobody, settings": attempt("settings", "default_class 1\n", *nobody),
        "root without CAP_NET_ADMIN": attempt("ensemble", "clear\n", *powerless),
        "root without CAP_NET_ADMIN, parameters": attempt("parameters", parameter, *powerless),
        "root without CAP_NET_ADMIN, settings": attempt("settings", "default_class 1\n", *powerless),
        "root of a user namespace, initial network": attempt(
            "ensemble", "clear\n", *nobody, unshared="the initial one"
        ),
        "root of a user namespace, its own network": attempt("ensemble", "clear\n", *nobody, unshared=_ITS_OWN_NETWORK),
        "nobody, opened by root": handed_over(os.O_WRONLY),
        "root, opened by nobody to read": handed_over(os.O_RDONLY),
    }


def choose(cca: str, *prefix: str, unshared: str = "") -> str:
    """Choose the algorithm for a socket as somebody else; returns the errno where the kernel refuses."""
    command = [*prefix, *inside.PYTHON, "-c", _CHOOSE, cca, *([unshared] if unshared else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


def choosers(job: dict[str, Any]) -> dict[str, str]:
    """Who may choose the algorithm: by default, while it is allowed, and with the module's parameter."""
    cca, module = job["name"], job["module"]
    seen = {
        "root": choose(cca),
        "nobody": choose(cca, *_NOBODY),
        "root of a user namespace, its own network": choose(cca, *_NOBODY, unshared=_ITS_OWN_NETWORK),
    }
    before = _ALLOWED.read_text()
    _ALLOWED.write_text(f"{before.strip()} {cca}\n")
    seen["nobody, allowed"] = choose(cca, *_NOBODY)
    _ALLOWED.write_text(before)
    seen["nobody, allowed no more"] = choose(cca, *_NOBODY)
    path = next(path for path in job["modules"] if Path(path).stem == module)
    for words in (["unrestricted=1"], []):
        inside.wait_for(lambda: tree.rmmod(module) == "", timeout_s=10, what=f"rmmod {module}")
        inside.run("insmod", path, *words)
        seen[f"nobody, module loaded with {words}"] = choose(cca, *_NOBODY)
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


def in_namespace(name: str, script: str) -> str:
    """Run a shell script in a network namespace, where /proc/net is the namespace's."""
    return inside.run(*inside.within(name, "sh", "-c", script))


def container(job: dict[str, Any]) -> dict[str, Any]:
    """A namespace follows the initial table, keeps one of its own, or does neither."""
    seen: dict[str, Any] = {}
    knob = job["knob"]
    tree.must("ensemble", job["tables"]["first"])
    tree.must("parameters", f"{knob['name']} {knob['first']}\n")
    inside.run("ip", "netns", "add", "box")
    (inside.SHARE / "box-table").write_text(job["tables"]["second"])
    try:
        here = str(tree.here())
        table = f"sed -n 's/^table //p' {here}/status"
        value = f"sed -n 's/^{knob['name']} \\([0-9]*\\).*/\\1/p' {here}/parameters"
        seen["at first"] = in_namespace("box", f"{table}; {value}").split()
        in_namespace("box", f"echo follow_initial 0 >{here}/settings")
        seen["told not to follow"] = in_namespace("box", f"{table}; {value}").split()
        in_namespace("box", f"echo follow_initial 1 >{here}/settings; cat {inside.SHARE}/box-table >{here}/ensemble")
        seen["with its own"] = in_namespace("box", f"{table}; {value}").split()
        seen["its own table"] = in_namespace("box", f"cat {here}/ensemble") == job["tables"]["second"]
        seen["the initial one's"] = tree.read("ensemble") == job["tables"]["first"]
        own = f"{knob['name']} {knob['second']}"
        in_namespace("box", f"echo {own} >{here}/parameters; echo clear >{here}/ensemble")
        seen["cleared, own parameters"] = in_namespace("box", f"{table}; {value}").split()
        in_namespace("box", f"echo clear >{here}/parameters")
        seen["cleared both"] = in_namespace("box", f"{table}; {value}").split()
        whose = f"sed -n 's/^parameters //p' {here}/status"
        seen["whose parameters"] = [in_namespace("box", whose).strip(), tree.status()["parameters"]]
        seen["initial parameters"] = next(line for line in tree.read("parameters").splitlines() if knob["name"] in line)
    finally:
        inside.run("ip", "netns", "del", "box", check=False)
    tree.must("ensemble", "clear\n")
    tree.must("parameters", job["default_parameters"])
    return seen


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it."""
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in sorted(tree.here().iterdir())}
    return {"modes": modes, "writers": writers(job), "container": container(job), "choosers": choosers(job)}
