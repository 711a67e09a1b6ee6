# SPDX-License-Identifier: MIT
"""A folder shaped like a checkout of Pantheon, with small schemes over UDP."""

from __future__ import annotations

from pathlib import Path

# Sends packets of 1200 bytes at 3 Mbit/s to whoever it connects to, or who sends it a first packet.
WRAPPER = """\
import pathlib, socket, sys, time

def bound(port):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("", int(port)))
    return end

def connected(address, port):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect((address, int(port)))
    end.send(b"hello")
    return end

def take(end):
    while True:
        end.recv(2000)

def send(end):
    while True:
        end.send(bytes(1200))
        time.sleep(0.0032)

def receiver_first(verb, *words):
    take(bound(*words)) if verb == "receiver" else send(connected(*words))

def sender_first(verb, *words):
    if verb == "receiver":
        take(connected(*words))
    end = bound(*words)
    end.connect(end.recvfrom(2000)[1])
    send(end)

def main():
    verb, words = sys.argv[1], sys.argv[2:]
    mark = pathlib.Path(__file__).with_suffix(".mark")
    if verb == "run_first":
        print(FIRST)
    elif verb == "setup_after_reboot":
        mark.write_text("ready")
    elif verb in ("receiver", "sender"):
        RUN(verb, *words)

"""
RUNS = {
    "receiver_first": ("receiver", "RUN = receiver_first"),
    "sender_first": ("sender", "RUN = sender_first"),
    "crashing": ("receiver", "def RUN(verb, *words):\n    time.sleep(1)\n    raise SystemExit('out of luck')"),
    "hanging": ("receiver", "def RUN(verb, *words):\n    time.sleep(600)"),
    "after_reboot": (
        "receiver",
        "def RUN(verb, *words):\n"
        "    if not pathlib.Path(__file__).with_suffix('.mark').exists():\n"
        "        raise SystemExit('run setup_after_reboot first')\n"
        "    receiver_first(verb, *words)",
    ),
}


def make_checkout(folder: Path) -> Path:
    """Write src/config.yml and src/wrappers with the schemes of RUNS, and return the folder."""
    wrappers = folder / "src" / "wrappers"
    wrappers.mkdir(parents=True)
    lines = ["schemes:"]
    for name, (first, run) in RUNS.items():
        lines += [f"  {name}:", f"    name: {name.replace('_', ' ')}", "    color: blue", "    marker: o"]
        (wrappers / f"{name}.py").write_text(f"{WRAPPER}FIRST = '{first}'\n{run}\nmain()\n")
    (folder / "src" / "config.yml").write_text("\n".join(lines) + "\n")
    return folder
