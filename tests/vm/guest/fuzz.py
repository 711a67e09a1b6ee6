# SPDX-License-Identifier: MIT
"""The files of /proc fuzzed by seed while flows run: texts that are nearly good, odd writes and odd reads.

Texts: numbers at and beyond what fields of 8 to 64 bits hold, lines taken out, doubled and exchanged, bytes changed. A
table of those that is good after all is in force for the flows. Writes: in pieces, at offsets, of nothing, from an
address that is nobody's. Reads: of a few bytes at any offset, of all files, `clients` among them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
from collections import Counter
from typing import Any

import inside
import storm
import tree

_BITS = (8, 15, 16, 31, 32, 63, 64)
EDGES = (
    *(str(value) for bits in _BITS for value in (2**bits - 1, 2**bits, 2**bits + 1)),
    *("0", "1", "-1", "00000000000000000001", "9" * 30, ""),
)


def near(rng: random.Random, good: str) -> str:
    """A good text with one to three numbers or lines that are not; one of five is good."""
    kind = rng.randrange(5)
    if kind == 4:
        return good
    if kind == 0:
        return storm.mutated(rng, good)
    for _ in range(rng.randrange(1, 4)):
        if kind == 1:
            numbers = list(re.finditer(r"\d+", good))
            if not numbers:
                return good
            at = rng.choice(numbers)
            good = good[: at.start()] + rng.choice(EDGES) + good[at.end() :]
        else:
            lines = good.splitlines(keepends=True) or ["\n"]
            one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 2:
                lines[one], lines[other] = lines[other], lines[one]
            else:
                lines[one:one] = lines[other : other + rng.randrange(3)]
            good = "".join(lines)
    return good


def written(rng: random.Random, name: str, text: str) -> int:
    """Write it in one of several ways; 0, or the errno of the first call that failed."""
    way = rng.randrange(6)
    if way < 3:
        return tree.write(name, *storm.pieces(rng, text))
    try:
        descriptor = os.open(tree.here() / name, os.O_RDWR if rng.randrange(2) else os.O_WRONLY)
    except OSError as error:
        return error.errno or -1
    data = text.encode("latin-1")
    try:
        if way == 3:
            os.pwrite(descriptor, data, rng.choice((0, 1, 4096, 2**31, 2**62)))
        elif way == 4:
            os.writev(descriptor, [data[:7], b"", data[7:]])
        else:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.write(descriptor, ctypes.c_void_p(rng.choice((0, 1, 2**47 - 4096))), 4096) < 0:
                return ctypes.get_errno()
    except OSError as error:
        return error.errno or -1
    finally:
        os.close(descriptor)
    return 0


def looked_at(rng: random.Random, name: str) -> int:
    """Read a few bytes at odd places of one open file; the bytes read."""
    total = 0
    try:
        descriptor = os.open(tree.here() / name, os.O_RDONLY)
    except OSError:
        return 0
    try:
        for _ in range(4):
            total += len(os.pread(descriptor, rng.choice((1, 7, 100, 5000)), rng.choice((0, 0, 1, 130, 4095, 2**33))))
    except OSError:
        pass  # a recording that runs, for one
    finally:
        os.close(descriptor)
    return total


def ends_of(sender: inside.subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The last lines of its flows, when it is through."""
    lines = sender.stdout.read().splitlines() if sender.stdout else []
    return inside.ends([inside.json.loads(line) for line in lines])


def fuzzed(job: dict[str, Any], rng: random.Random) -> tuple[dict[str, Counter[str]], list[dict[str, Any]]]:
    """So many writes to each file, and reads, while flows are sent, others when these are through."""
    told = job["fuzz"]
    files = sorted(path.name for path in tree.here().iterdir())
    sources = {
        **{name: [*job["storm_tables"], "clear\n"] for name in files},
        "parameters": [job["default_parameters"]],
        "settings": [job["default_settings"]],
        "recording": ["start 100\n", "stop\n", "clear\n"],
    }
    words = ("--cca", job["cca"], "--flows", str(told["flows"]), "--bytes", str(told["bytes"]), "--seconds", "900")
    answers: dict[str, Counter[str]] = {name: Counter() for name in files}
    ends: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        sender = stack.enter_context(inside.sending(*words, "--sample", "1000"))
        for _ in range(told["writes"]):
            if sender.poll() is not None:
                ends += ends_of(sender)
                sender = stack.enter_context(inside.sending(*words, "--sample", "1000"))
            for name in files:
                answers[name][str(written(rng, name, near(rng, rng.choice(sources[name]))))] += 1
                looked_at(rng, rng.choice(files))
        tree.must("settings", job["default_settings"])
        tree.must("parameters", job["default_parameters"])
        ends += ends_of(sender)
    return answers, ends


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it; in the end a good table is taken as if nothing had been."""
    rng = random.Random(job["fuzz"]["seed"])
    with inside.chain(rate="20mbit", queue_bytes=200_000, delay_ms=20), inside.receiver():
        before = int(tree.status()["generation"])
        answers, ends = fuzzed(job, rng)
        changes = int(tree.status()["generation"]) - before
    for command in ("stop\n", "clear\n"):
        tree.must("recording", command)
    tree.must("ensemble", "clear\n")
    tree.must("ensemble", job["tables"]["first"])
    whole = tree.read("ensemble") == job["tables"]["first"]
    tree.must("ensemble", "clear\n")
    return {
        "answers": answers,
        "changes": changes,
        "flows": len(ends),
        "finished": sum(int(str(end["acked_bytes"])) >= job["fuzz"]["bytes"] for end in ends),
        "good table afterwards": whole,
    }
