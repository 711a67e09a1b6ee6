# SPDX-License-Identifier: MIT
"""The core beside Python: core_bridge.c as a shared library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from kmod.ensemble import MAX_TEXT_BYTES
from tests.contract.toolchain import PLAIN_LIBRARY, compile_program
from tests.once import made_once

TWIN_ID = 63
MAX_PARAMS = 20
KINDS = ("fixed", "given", "tuned", "tracked")


class CSpec(ctypes.Structure):
    """struct spec of core_bridge.c."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("id", ctypes.c_uint32),
        ("min", ctypes.c_uint32),
        ("initial", ctypes.c_uint32),
        ("max", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
    )


class Core:
    """What the core says. Errors are the kernel's, negative."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        for function in (self._library.bridge_axis, self._library.bridge_algorithm):
            function.restype = ctypes.c_char_p
        self._library.bridge_level.restype = ctypes.c_uint32
        self.ids = dict(self._entries("bridge_algorithm"))
        self.max_text_bytes: int = self._library.bridge_max_text_bytes()

    def _entries(self, function: str) -> list[tuple[str, int]]:
        """Names with the algorithm of each, in order; algorithms may share the name of an axis."""
        found: list[tuple[str, int]] = []
        number = ctypes.c_uint32()
        while name := getattr(self._library, function)(len(found), ctypes.byref(number)):
            found.append((name.decode(), number.value))
        return [(name, value) for name, value in found if value != TWIN_ID]

    def axes(self, cca: str) -> list[str]:
        """Names of an algorithm's axes."""
        return [name for name, number in self._entries("bridge_axis") if number == self.ids[cca]]

    def params(self, cca: str) -> list[tuple[str, str, int, int, int, str]]:
        """Name, unit, minimum, default, maximum and kind, of each parameter."""
        spec, found, index = CSpec(), [], 0
        while self._library.bridge_param(index, ctypes.byref(spec)):
            if spec.id == self.ids[cca]:
                row = (spec.name.decode(), spec.unit.decode(), spec.min, spec.initial, spec.max, KINDS[spec.kind])
                found.append(row)
            index += 1
        return found

    def level(self, *, scale: str, step: int, count: int, per_octave: int, value: int) -> int:
        """ens_level()."""
        level: int = self._library.bridge_level(scale == "log", step, count, per_octave, ctypes.c_uint64(value))
        return level

    def read_back(self, cca: str, text: bytes) -> bytes | int:
        """The text as the core formats the table that it parsed, or its error."""
        back = ctypes.create_string_buffer(MAX_TEXT_BYTES)
        result: int = self._library.bridge_read_back(self.ids[cca], text, len(text), back, MAX_TEXT_BYTES)
        return result if result < 0 else back.raw[:result]

    def row(self, cca: str, text: bytes, *, state: int, delay_class: int) -> list[int]:
        """Values of all parameters on a row of the table, in the order of params.def."""
        params = (ctypes.c_uint32 * MAX_PARAMS)()
        assert self._library.bridge_row(self.ids[cca], text, len(text), state, delay_class, params) == 0
        return list(params)


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    """The core, compiled once."""
    source = Path(__file__).with_name("core_bridge.c")

    def make(folder: Path) -> None:
        compile_program(PLAIN_LIBRARY, [source], folder=folder, name="core.so")

    return Core(made_once(tmp_path_factory, "core", make) / "core.so")
