# SPDX-License-Identifier: MIT
"""The debug kernel's configuration: what it is to have is in it, and what it does not get is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.vm import test_debug
from tests.vm.lines import DEBUG_LINE

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "packaging")]

import debug_kernel  # noqa: E402 - found on the path just made


def test_each_check_that_tests_ask_for_is_in_the_fragment() -> None:
    lines = debug_kernel.FRAGMENT.read_text(encoding="utf-8").splitlines()
    assert [name for name in test_debug.CHECKS if f"CONFIG_{name}=y" not in lines] == []


def test_the_line_that_is_built_is_the_one_that_tests_boot() -> None:
    assert debug_kernel.NAME == DEBUG_LINE


@pytest.mark.parametrize(
    ("found", "lacking"),
    [
        ("CONFIG_A=y\n# CONFIG_B is not set\n", []),
        ("CONFIG_A=y\n", []),
        ("# CONFIG_A is not set\n", ["CONFIG_A=y"]),
        ("CONFIG_A=m\n", ["CONFIG_A=y"]),
        ("CONFIG_A=y\nCONFIG_B=y\n", ["# CONFIG_B is not set"]),
    ],
)
def test_a_line_that_the_kernels_rules_overrule_is_told(found: str, lacking: list[str]) -> None:
    wanted = "# words\nCONFIG_A=y\n# CONFIG_B is not set\n"
    assert debug_kernel.lacking_lines(wanted, found) == lacking


def test_only_what_tells_of_a_refused_cache_is_taken_from_a_log() -> None:
    refusal = [
        "__kmem_cache_create_args(ccatune_gr_flow) failed with error -12",
        "Call Trace:",
        " <TASK>",
        " dump_stack_lvl+0x5d/0x80",
        " </TASK>",
        "kobject: kobject_add_internal failed for ccatune_gr_flow (error: -12 parent: slab)",
        "SLUB: Unable to allocate memory on CPU 0 (of node 0) on node -1, gfp=0xdc0(GFP_KERNEL|__GFP_ZERO)",
        "  cache: seq_file, object size: 232, buffer size: 296, default order: 0, min order: 0",
        "  node 0: slabs: 9, objs: 117, free: 0",
    ]
    log = ["one", *refusal, "BUG: KASAN: slab-use-after-free in ccatune_flow_end"]
    assert test_debug.without_refusals(log) == [log[0], log[-1]]
