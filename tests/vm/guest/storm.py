# SPDX-License-Identifier: MIT
"""Random and mutated writes to every file, readers beside them, in the initial namespace and in another one.

Texts: bytes changed, numbers at and beyond the limits of fields of 8 to 64 bits, lines doubled and exchanged.
Writes: in pieces, at offsets, and from an address that is nobody's. Reads: whole files, and a few bytes at odd places.

Before and after: the slab's figures. Throughout: a reader finds one of the good tables or none, whole; at the end
the table in force is the one that a good write put there.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import inside
import tree

FILES = ("ensemble", "parameters", "settings", "status", "flows", "recording")
_BITS = (8, 15, 16, 31, 32, 63, 64)
EDGES = (
    *(str(value) for bits in _BITS for value in (2**bits - 1, 2**bits, 2**bits + 1)),
    *("0", "1", "-1", "00000000000000000001", "9" * 30, ""),
)


def mutated(rng: random.Random, good: str) -> str:
    """A good text with a few bytes changed, removed, doubled or inserted, or something else altogether."""
    text = list(good)
    kind = rng.randrange(8)
    if kind == 0:
        return "".join(chr(rng.randrange(256)) for _ in range(rng.randrange(200)))
    if kind == 1:
        return good[: rng.randrange(len(good) + 1)]
    if kind == 2:
        lines = good.splitlines(keepends=True)
        rng.shuffle(lines)
        return "".join(lines)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text))
        if kind == 3:
            text[at] = chr(rng.randrange(256))
        elif kind == 4:
            del text[at]
        elif kind == 5:
            text[at:at] = text[at : at + rng.randrange(1, 40)]
        elif kind == 6:
            text[at] = rng.choice("0123456789")
        else:
            text.insert(at, rng.choice(" \n-0:."))
    return "".join(text)


def near(rng: random.Random, good: str) -> str:
    """A good text with one to three numbers or lines that are not; one of five is good."""
    kind = rng.randrange(5)
    if kind == 4:
        return good
    if kind == 0:
        return mutated(rng, good)
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


def misused(rng: random.Random, path: Path) -> None:
    """Write at an offset or from an address that is nobody's, and read at odd places: none of it may do harm."""
    try:
        with path.open("r+b", buffering=0) as file:
            ctypes.CDLL(None).write(file.fileno(), ctypes.c_void_p(rng.choice((0, 1, 2**47 - 4096))), 4096)
            os.pread(file.fileno(), rng.choice((1, 7, 5000)), rng.choice((0, 1, 130, 4095, 2**33)))
            os.pwrite(file.fileno(), b"x", rng.choice((1, 4096, 2**31, 2**62)))
    except OSError:
        pass  # some files cannot be written or read like that, and a running recording cannot be read


def pieces(rng: random.Random, text: str) -> list[str]:
    """The text in one to four writes."""
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def slab() -> dict[str, int]:
    """Bytes that the kernel holds, after what is due to be freed was freed."""
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    time.sleep(0.5)
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":")
        if name in {"SUnreclaim", "VmallocUsed"}:
            found[name] = int(value.split()[0]) * 1024
    for line in Path("/proc/slabinfo").read_text().splitlines()[2:]:
        words = line.split()
        if words[0].startswith(("ccatune", "kmalloc-", "kmalloc-cg-")):
            found[words[0]] = int(words[1]) * int(words[3])
    return found


def in_child(work: Any, namespace: str) -> int:
    """Fork; the child enters the namespace, works, and exits 0 where nothing was wrong."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        if namespace:
            inside.enter(namespace)
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def reader(work: Any, namespace: str) -> int:
    """A child that is stopped by SIGTERM, which it finds pending (told_to_stop), however early it comes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        return in_child(work, namespace)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def told_to_stop() -> bool:
    """In a reader: whether SIGTERM came."""
    return signal.SIGTERM in signal.sigpending()


def read_on(folder: Path, to: Path) -> None:
    """Read every file, once at least, until told to stop, and leave the tables that were found."""
    found: set[str] = set()
    while not (found and told_to_stop()):
        found.add(tree.read("ensemble", folder))
        for name in ("parameters", "settings", "status", "flows"):
            if name != "flows" and "\n" not in tree.read(name, folder):
                raise AssertionError(f"{name} is empty")
    to.write_text(json.dumps(sorted(found)))


def write_storm(seed: int, count: int, sources: dict[str, list[str]], folder: Path, to: Path) -> None:
    """`count` writes to each file; leaves how many were answered with which errno, and the tables that were taken."""
    rng = random.Random(seed)
    answers: dict[str, dict[str, int]] = {name: {} for name in FILES}
    taken: set[str] = set()
    for _ in range(count):
        for name in FILES:
            source = rng.choice(sources[name])
            text = near(rng, source)
            number = tree.write(name, *pieces(rng, text), folder=folder)
            answers[name][str(number)] = answers[name].get(str(number), 0) + 1
            if name == "ensemble":
                taken.add(text)
            if not rng.randrange(4):
                misused(rng, folder / name)
    to.write_text(json.dumps({"answers": answers, "offered": sorted(taken)}))


def storm(job: dict[str, Any], *, seed: int, count: int) -> dict[str, Any]:
    """Writers and readers in both namespaces at once."""
    folder = tree.OWN_PLACE / tree.CCA
    sources = {
        **dict.fromkeys(FILES, job["storm_tables"]),
        "parameters": [job["default_parameters"]],
        "settings": [job["default_settings"]],
        "recording": ["start 100\n", "stop\n", "clear\n"],
    }
    places = {space: Path(f"/tmp/storm-{space or 'initial'}") for space in ("", "box")}
    for path in places.values():
        path.mkdir(exist_ok=True)
    readers = [
        reader(lambda to=path / f"read-{n}": read_on(folder, to), space)
        for space, path in places.items()
        for n in range(2)
    ]
    writers = [
        in_child(lambda s=seed + n, to=path / "wrote": write_storm(s, count, sources, folder, to), space)
        for n, (space, path) in enumerate(places.items())
    ]
    statuses = [os.waitpid(child, 0)[1] for child in writers]
    for child in readers:
        os.kill(child, signal.SIGTERM)
    statuses += [os.waitpid(child, 0)[1] for child in readers]
    wrote = {space or "initial": json.loads((path / "wrote").read_text()) for space, path in places.items()}
    strange = 0
    for space, path in places.items():
        offered = set(wrote[space or "initial"]["offered"]) | {""} | set(job["storm_tables"])
        for file in path.glob("read-*"):
            strange += len(set(json.loads(file.read_text())) - offered)
    answers = {space: one["answers"] for space, one in wrote.items()}
    return {"statuses": statuses, "answers": answers, "tables_nobody_wrote": strange}


def reset(job: dict[str, Any]) -> None:
    """Both namespaces as they were."""
    script = f"cd {tree.here()}; echo clear >ensemble; echo stop >recording; echo clear >recording; true"
    for namespace in ("", "box"):
        inside.run(*inside.within(namespace, "sh", "-c", script))
    tree.must("settings", job["default_settings"])
    tree.must("parameters", job["default_parameters"])


def main(job: dict[str, Any]) -> dict[str, Any]:
    """A first, short storm fills the caches; the slab's figures around the second are compared."""
    inside.run("ip", "netns", "add", "box")
    try:
        storm(job, seed=job["seed"], count=max(20, job["storm_writes"] // 10))
        reset(job)
        before = slab()
        result = storm(job, seed=job["seed"] + 2, count=job["storm_writes"])
        reset(job)
        after = slab()
    finally:
        inside.run("ip", "netns", "del", "box", check=False)
    last = job["storm_tables"][-1]
    tree.must("ensemble", last)
    whole = tree.read("ensemble") == last
    tree.must("ensemble", "clear\n")
    return {**result, "before": before, "after": after, "good_table_afterwards": whole}
