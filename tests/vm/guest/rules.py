# SPDX-License-Identifier: MIT
"""Cases of writing: each from an empty tree, step by step, with what every step gave."""

from __future__ import annotations

from typing import Any

import tree


def main(job: dict[str, Any]) -> dict[str, Any]:
    """The outcomes by case, as tests/vm/cases.py compares them."""
    outcomes = {}
    for name, steps in job["cases"].items():
        tree.must("ensemble", "clear\n")
        tree.must("parameters", job["default_parameters"])
        before = tree.status()
        given = [tree.write(file, text) for file, text in steps]
        after = tree.status()
        outcomes[name] = {
            "errnos": given,
            "ensemble": tree.read("ensemble"),
            "parameters": tree.read("parameters"),
            "rejected": int(after["rejected_writes"]) - int(before["rejected_writes"]),
            "changes": int(after["generation"]) - int(before["generation"]),
            "serial": after["serial"],
            "digest": after["digest"],
        }
    tree.must("ensemble", "clear\n")
    tree.must("parameters", job["default_parameters"])
    return outcomes
