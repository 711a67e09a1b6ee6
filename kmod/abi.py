# SPDX-License-Identifier: MIT
"""The algorithms and their parameters, as defined in `core/params.def`.

That file is the only definition of names, units, ranges and defaults. C
includes it, and this module reads it line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from kmod.errors import AbiError

if TYPE_CHECKING:
    from collections.abc import Mapping

U32_MAX = 2**32 - 1

_MODES: Final[dict[str, Literal["control", "window"]]] = {"CONTROL": "control", "WINDOW": "window"}
_HOSTS: Final[dict[str, Literal["simulator", "bpf", "module", "namesake"]]] = {
    "SIMULATOR": "simulator",
    "BPF": "bpf",
    "MODULE": "module",
    "NAMESAKE": "namesake",
}
ParamKind = Literal["tuned", "tracked", "given", "fixed"]
_KINDS: Final[dict[str, ParamKind]] = {
    "TUNED": "tuned",
    "TRACKED": "tracked",
    "GIVEN": "given",
    "FIXED": "fixed",
}
_ENTRY = re.compile(r"^CCA_(ALGORITHM|AXIS|PARAM)\((.*), \"(.*)\"\)$")


@dataclass(frozen=True)
class ParamSpec:
    """One parameter: an integer in [minimum, maximum], in the given unit. kind: as in params.def."""

    name: str
    unit: str
    minimum: int
    default: int
    maximum: int
    kind: ParamKind
    meaning: str


@dataclass(frozen=True)
class AxisSpec:
    """A measured quantity, which is an axis of the algorithm's network states."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Algorithm:
    """A congestion-control algorithm of the core, with the axes and parameters of its ensembles.

    host: where it runs beside the simulator: nowhere, in BPF, or in BPF and as a kernel module. A namesake also runs in
    both, but as ccatune_NAME, because the kernel has its own algorithm of this name.
    """

    name: str
    mode: Literal["control", "window"]
    host: Literal["simulator", "bpf", "module", "namesake"]
    meaning: str
    axes: tuple[AxisSpec, ...]
    params: tuple[ParamSpec, ...]

    def param(self, name: str) -> ParamSpec:
        """Return the parameter with this name.

        Raises:
            AbiError: the algorithm has no such parameter.
        """
        for spec in self.params:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.params) or "none"
        raise AbiError(f"{self.name} has no parameter {name!r}: expected one of {known}")

    @property
    def kernel_name(self) -> str:
        """The name that sockets choose. The kernel has a `cubic` of its own, and may have a `vegas`."""
        return self.name if self.host == "module" else f"ccatune_{self.name}"

    @property
    def module(self) -> str:
        """The name of its kernel module; "" if it has none."""
        return f"tcp_{self.kernel_name}" if self.host in ("module", "namesake") else ""

    @property
    def tuned(self) -> tuple[ParamSpec, ...]:
        """The parameters that searches set."""
        return tuple(spec for spec in self.params if spec.kind in ("tuned", "tracked"))

    @property
    def columns(self) -> tuple[ParamSpec, ...]:
        """The parameters that ensembles may contain."""
        return tuple(spec for spec in self.params if spec.kind != "fixed")


def parse_params(text: str) -> dict[str, Algorithm]:
    """Parse the text of params.def. Returns the algorithms by name.

    Raises:
        AbiError: an entry is malformed; the message has its line number.
    """
    found: dict[str, Algorithm] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("CCA_"):
            continue
        match = _ENTRY.match(line)
        if match is None:
            raise AbiError(f"params.def:{number}: expected one entry on one line, got {line!r}")
        kind, head, meaning = match.groups()
        try:
            _add(found, kind, [word.strip() for word in head.split(",")], meaning)
        except (ValueError, KeyError) as error:
            raise AbiError(f"params.def:{number}: malformed entry {line!r}: {error}") from error
    return found


def _add(found: dict[str, Algorithm], kind: str, words: list[str], meaning: str) -> None:
    if kind == "ALGORITHM":
        name, mode, host = words
        found[name] = Algorithm(name, _MODES[mode], _HOSTS[host], meaning, (), ())
        return
    old = found[words[0]]
    axes, params = old.axes, old.params
    if kind == "AXIS":
        _, name = words
        axes = (*axes, AxisSpec(name, meaning))
    else:
        _, name, unit, low, default, high, use = words
        if use not in _KINDS:
            raise ValueError(f"expected a kind among {', '.join(_KINDS)}")
        spec = ParamSpec(name, unit, int(low), int(default), int(high), _KINDS[use], meaning)
        if not 0 <= spec.minimum <= spec.default <= spec.maximum <= U32_MAX:
            raise ValueError("expected 0 <= min <= default <= max < 2^32")
        params = (*params, spec)
    found[old.name] = replace(old, axes=axes, params=params)


@cache
def _shipped() -> Mapping[str, Algorithm]:
    text = (Path(__file__).parent / "core" / "params.def").read_text(encoding="utf-8")
    return MappingProxyType(parse_params(text))


ALGORITHMS: Mapping[str, Algorithm] = _shipped()
