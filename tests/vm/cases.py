# SPDX-License-Identifier: MIT
"""Writes with the answer that each must get: the same rows are run against the kernel and against the stand-in."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from emulation.standin import StandInTree
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text
from tests.vm.subjects import Subject

Step = tuple[str, str]


def ensemble(
    subject: Subject, *, levels: int = 4, step: int = 500_000, base: int = 20, epoch_ms: int = 500, **changes: Any
) -> Ensemble:
    """Two classes; rows that can be told apart: row i has base * unit + i in its first column."""
    states = levels * subject.second_levels
    rows = tuple((base * subject.unit + row, *subject.cells[row % 2]) for row in range(2 * states))
    fields: dict[str, Any] = {
        "cca": subject.cca,
        "epoch_ms": epoch_ms,
        "estimate_ms": min(250, epoch_ms),
        "epsilon_pct": 0,
        "classes": (DelayClass(95, 50_000), DelayClass(95, 100_000)),
        "axes": (Axis(subject.first_axis, "linear", step, levels), *subject.second_axis),
        "columns": subject.columns,
        "rows": rows,
    }
    return Ensemble(**{**fields, **changes})


def text(
    subject: Subject, serial: int = 1, *, channel: str = "champion", hold_back_permille: int = 0, **changes: Any
) -> str:
    """The text of a deployment of such an ensemble."""
    return table_text(ensemble(subject, **changes), Deployment("local", channel, serial, hold_back_permille))


def urgent(table: str) -> str:
    """The text, marked as urgent."""
    serial = next(line for line in table.splitlines() if line.startswith("serial "))
    return replaced(f"\n{serial}\n", f"\n{serial} urgent\n", table)


def default_parameters(subject: Subject) -> str:
    """The lines that put every parameter back to its default."""
    return "".join(f"{spec.name} {spec.default}\n" for spec in ALGORITHMS[subject.cca].params)


def replaced(old: str, new: str, source: str) -> str:
    """A good text with one change, which has to be there to be made."""
    assert old in source, old
    return source.replace(old, new, 1)


def cases(subject: Subject) -> dict[str, tuple[list[Step], list[int]]]:
    """name: (the steps from an empty tree, the errno that each must give)."""
    files = {"ensemble": tables(subject), "parameters": values(subject)}
    return {
        name: ([(file, one) for one in texts], answers)
        for file, rows in files.items()
        for name, (texts, answers) in rows.items()
    }


def tables(subject: Subject) -> dict[str, tuple[list[str], list[int]]]:
    """Cases of `ensemble`."""
    first, second = text(subject, 1), text(subject, 2, base=30)
    rows = ensemble(subject).rows[: 4 * subject.second_levels]
    bare = text(subject, 2, classes=(), epsilon_pct=None, rows=rows)
    row = first.splitlines()[-2]
    cell, too_small = subject.too_small
    return {
        "a table is taken": ([first], [0]),
        "the same again changes nothing": ([first, first], [0, 0]),
        "a newer serial replaces": ([first, second], [0, 0]),
        "an older serial is stale": ([second, first], [0, errno.ESTALE]),
        "the same serial with other content exists": ([first, text(subject, 1, base=30)], [0, errno.EEXIST]),
        "another channel may start at any serial": ([second, text(subject, 1, channel="canary")], [0, 0]),
        "clear, then the older serial is taken": ([second, "clear\n", first], [0, 0, 0]),
        "an empty write does nothing": ([first, ""], [0, 0]),
        "a text without end is discarded": ([first, second[: second.index("end")]], [0, 0]),
        "a table without classes is taken": ([first, bare], [0, 0]),
        "classes without epsilon": ([first, replaced("epsilon_pct 0\n", "", second)], [0, errno.EINVAL]),
        "epsilon without classes": ([first, replaced("hold", "epsilon_pct 0\nhold", bare)], [0, errno.EINVAL]),
        "a word in place of a number": ([first, replaced("epoch", "era", second)], [0, errno.EINVAL]),
        "a value out of range": ([first, replaced(cell, too_small, second)], [0, errno.ERANGE]),
        "a value that no u32 holds": ([first, replaced(cell, " 99999999999 ", second)], [0, errno.ERANGE]),
        "a row too few": ([first, replaced(row + "\n", "", first)], [0, errno.EINVAL]),
        "a row too many": ([first, replaced(row + "\n", row + "\n" + row + "\n", first)], [0, errno.EINVAL]),
        "text behind the end: the table counts": ([first, second + "more\n"], [0, errno.EINVAL]),
        "text behind a clear: the clear counts": ([first, "clear\nmore\n"], [0, errno.EINVAL]),
        "an urgent table is taken": ([first, urgent(second)], [0, 0]),
        "the same again, urgent": ([first, urgent(first), urgent(first), first], [0, 0, 0, 0]),
        "a mark that is none": ([first, urgent(second).replace("urgent", "urgently")], [0, errno.EINVAL]),
        "garbage": ([first, "\x00\xff\n"], [0, errno.EINVAL]),
        "a line that never ends": ([first, "a" * 5000], [0, errno.EINVAL]),
    }


def values(subject: Subject) -> dict[str, tuple[list[str], list[int]]]:
    """Cases of `parameters`."""
    name, other = subject.knob[0], subject.other_knob
    good = f"{name} {subject.knob[2]}\n"
    spec = ALGORITHMS[subject.cca].param(name)
    return {
        "a parameter is set": ([good], [0]),
        "two parameters at once": ([f"{good}{other} 10\n"], [0]),
        "one bad line and none counts": ([f"{good}no_such 1\n"], [errno.EINVAL]),
        "clear gives the defaults back": ([good, "clear\n"], [0, 0]),
        "clear and more": ([good, f"clear\n{good}"], [0, errno.EINVAL]),
        "more and clear": ([good, f"{other} 10\nclear\n"], [0, errno.EINVAL]),
        "a parameter below its range": (
            [f"{name} {spec.minimum - 1}\n"],
            [errno.ERANGE if spec.minimum else errno.EINVAL],
        ),
        "a parameter above its range": ([f"{name} {spec.maximum + 1}\n"], [errno.ERANGE]),
        "a parameter without a value": ([f"{name}\n"], [errno.EINVAL]),
        "a negative value": ([f"{name} -1\n"], [errno.EINVAL]),
        "an empty write to parameters": ([""], [0]),
        "more than 4 KiB of parameters": ([good * 300], [errno.EFBIG]),
    }


def outcome_of_stand_in(tree: StandInTree, subject: Subject, steps: Iterable[Step]) -> dict[str, Any]:
    """The same steps on the stand-in, told as the guest's program tells them."""
    cca = subject.cca
    tree.write(cca, "ensemble", "clear\n")
    tree.write(cca, "parameters", default_parameters(subject))
    before = status_of(tree, cca)
    given = []
    for file, words in steps:
        try:
            tree.write(cca, file, words)
        except OSError as error:
            given.append(error.errno)
        else:
            given.append(0)
    after = status_of(tree, cca)
    return {
        "errnos": given,
        "ensemble": tree.read(cca, "ensemble"),
        "parameters": tree.read(cca, "parameters"),
        "rejected": int(after["rejected_writes"]) - int(before["rejected_writes"]),
        "changes": int(after["generation"]) - int(before["generation"]),
        "serial": after["serial"],
        "digest": after["digest"],
    }


def status_of(tree: StandInTree, cca: str) -> dict[str, str]:
    """The stand-in's status by name."""
    return dict(line.split(" ", 1) for line in tree.read(cca, "status").splitlines())
