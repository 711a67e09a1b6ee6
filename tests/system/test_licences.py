# SPDX-License-Identifier: MIT
"""Each source file states its licence, as CONTRIBUTING.md promises: by folder."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
KINDS = {".c", ".cpp", ".def", ".h", ".hpp", ".py"}
LICENCES = {
    "kmod/core": "GPL-2.0 OR MIT",
    "kmod/linux": "GPL-2.0",
    "kmod/bpf/": "GPL-2.0",
    "tests/vm/hello": "GPL-2.0",
    "tests/vm/faulty": "GPL-2.0",
    "": "MIT",
}
FOLDERS = ("emulation", "experiments", "kmod", "packaging", "serving", "tests", "training")


def licence_of(path: Path) -> str:
    """What the first lines say after SPDX-License-Identifier."""
    head = path.read_text(encoding="utf-8").split("\n", 3)[:3]
    stated = [line.split("SPDX-License-Identifier:")[1] for line in head if "SPDX-License-Identifier:" in line]
    return stated[0].removesuffix("*/").strip() if stated else "none"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_source_file_states_its_licence(folder: str) -> None:
    sources = [p for p in (REPOSITORY / folder).rglob("*") if p.suffix in KINDS and "__pycache__" not in p.parts]
    assert sources
    wrong = {}
    for path in sources:
        name = str(path.relative_to(REPOSITORY))
        expected = next(licence for start, licence in LICENCES.items() if name.startswith(start))
        if licence_of(path) != expected:
            wrong[name] = licence_of(path)
    assert not wrong
