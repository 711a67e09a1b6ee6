# SPDX-License-Identifier: MIT
"""Writes with the answer that each must get: the same rows are run against the kernel and against the stand-in."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from emulation.standin import StandInTree
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text

Step = tuple[str, str]

COLUMNS = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")


def ensemble(
    *, levels: int = 4, step: int = 500_000, first_value: int = 20_000, epoch_ms: int = 500, **changes: Any
) -> Ensemble:
    """Rows that can be told apart: row i has the bandwidth window first_value + i."""
    classes = changes.pop("classes", (DelayClass(95, 50_000), DelayClass(95, 100_000)))
    thresholds = changes.pop("thresholds", (25_000, 50_000, 100_000, 100_000))
    rows = tuple(
        (first_value + state * len(classes) + number, 5_000, thresholds[number])
        for state in range(levels)
        for number in range(len(classes))
    )
    fields: dict[str, Any] = {
        "cca": "gr",
        "epoch_ms": epoch_ms,
        "estimate_ms": min(250, epoch_ms),
        "epsilon_pct": 0,
        "classes": classes,
        "axes": (Axis("throughput_bytes_per_s", "linear", step, levels),),
        "columns": COLUMNS,
        "rows": rows,
    }
    return Ensemble(**{**fields, **changes})


def text(serial: int = 1, *, channel: str = "champion", hold_back_permille: int = 0, **changes: Any) -> str:
    """The text of a deployment of such an ensemble."""
    return table_text(ensemble(**changes), Deployment("local", channel, serial, hold_back_permille))


def default_parameters() -> str:
    """The lines that put every parameter back to its default."""
    return "".join(f"{spec.name} {spec.default}\n" for spec in ALGORITHMS["gr"].params)


def replaced(old: str, new: str, source: str = "") -> str:
    """A good text with one change, which has to be there to be made."""
    source = source or text()
    assert old in source, old
    return source.replace(old, new, 1)


def cases() -> dict[str, tuple[list[Step], list[int]]]:
    """name: (the steps from an empty tree, the errno that each must give)."""
    first, second = text(1), text(2, first_value=30_000)
    row = first.splitlines()[-2]
    table = {
        "a table is taken": ([first], [0]),
        "the same again changes nothing": ([first, first], [0, 0]),
        "a newer serial replaces": ([first, second], [0, 0]),
        "an older serial is stale": ([second, first], [0, errno.ESTALE]),
        "the same serial with other content exists": ([first, text(1, first_value=30_000)], [0, errno.EEXIST]),
        "another channel may start at any serial": ([second, text(1, channel="canary")], [0, 0]),
        "clear, then the older serial is taken": ([second, "clear\n", first], [0, 0, 0]),
        "an empty write does nothing": ([first, ""], [0, 0]),
        "a text without end is discarded": ([first, second[: second.index("end")]], [0, 0]),
        "a word in place of a number": ([first, replaced("epoch", "era", second)], [0, errno.EINVAL]),
        "a value out of range": ([first, replaced(" 5000 ", " 499 ", second)], [0, errno.ERANGE]),
        "a value that no u32 holds": ([first, replaced(" 5000 ", " 99999999999 ", second)], [0, errno.ERANGE]),
        "a row too few": ([first, replaced(row + "\n", "")], [0, errno.EINVAL]),
        "a row too many": ([first, replaced(row + "\n", row + "\n" + row + "\n")], [0, errno.EINVAL]),
        "text behind the end": ([first, second + "more\n"], [0, errno.EINVAL]),
        "garbage": ([first, "\x00\xff\n"], [0, errno.EINVAL]),
        "a line that never ends": ([first, "a" * 5000], [0, errno.EINVAL]),
    }
    values = {
        "a parameter is set": (["cwnd_gain_pct 200\n"], [0]),
        "two parameters at once": (["cwnd_gain_pct 200\nloss_hold_permille 10\n"], [0]),
        "one bad line and none counts": (["cwnd_gain_pct 200\nno_such 1\n"], [errno.EINVAL]),
        "a parameter out of range": (["cwnd_gain_pct 99\n"], [errno.ERANGE]),
        "a parameter above its range": (["cwnd_gain_pct 1001\n"], [errno.ERANGE]),
        "a parameter without a value": (["cwnd_gain_pct\n"], [errno.EINVAL]),
        "a negative value": (["cwnd_gain_pct -1\n"], [errno.EINVAL]),
        "an empty write to parameters": ([""], [0]),
        "more than 4 KiB of parameters": (["cwnd_gain_pct 200\n" * 300], [errno.EFBIG]),
    }
    return {
        **{name: ([("ensemble", one) for one in texts], answers) for name, (texts, answers) in table.items()},
        **{name: ([("parameters", one) for one in texts], answers) for name, (texts, answers) in values.items()},
    }


def outcome_of_stand_in(tree: StandInTree, steps: Iterable[Step]) -> dict[str, Any]:
    """The same steps on the stand-in, told as the guest's program tells them."""
    tree.write("gr", "ensemble", "clear\n")
    tree.write("gr", "parameters", default_parameters())
    before = status_of(tree)
    given = []
    for file, words in steps:
        try:
            tree.write("gr", file, words)
        except OSError as error:
            given.append(error.errno)
        else:
            given.append(0)
    after = status_of(tree)
    return {
        "errnos": given,
        "ensemble": tree.read("gr", "ensemble"),
        "parameters": tree.read("gr", "parameters"),
        "rejected": int(after["rejected_writes"]) - int(before["rejected_writes"]),
        "changes": int(after["generation"]) - int(before["generation"]),
        "serial": after["serial"],
        "digest": after["digest"],
    }


def status_of(tree: StandInTree) -> dict[str, str]:
    """The stand-in's status by name."""
    return dict(line.split(" ", 1) for line in tree.read("gr", "status").splitlines())
