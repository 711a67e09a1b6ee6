# SPDX-License-Identifier: MIT
"""Choices of a study that other installed packages register by entry point (docs/python.md).

The name of the entry point is the `kind` in study files, and its value is the settings class. An entry point is loaded
when a study names it, so that other studies do not depend on the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import WrapValidator

from training.fields import StudyPart

OBJECTIVES = "ccatune.objectives"
SEARCHES = "ccatune.searches"


@cache
def _registered(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _settings_class(point: EntryPoint) -> type[StudyPart]:
    """Load the class of an entry point.

    Raises:
        ValueError: it cannot be imported, or is not a settings class.
    """
    at = f"kind {point.name}: expected the settings class {point.value}, which {_package(point)} registers"
    try:
        found = point.load()
    except Exception as error:  # whatever the other package does when it is imported
        raise ValueError(f"{at}, got {error!r}; correct or remove that package") from error
    if not (isinstance(found, type) and issubclass(found, StudyPart) and "kind" in found.model_fields):
        raise ValueError(f"{at}, got {found!r}, which is no StudyPart with a field `kind`")
    return found


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def or_registered(group: str) -> WrapValidator:
    """A validator of a union by `kind` that also accepts the kinds that are registered in the group."""

    def validate(value: object, handler: Callable[[object], Any]) -> Any:
        kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        point = _registered(group).get(kind) if isinstance(kind, str) else None
        return handler(value) if point is None else _settings_class(point).model_validate(value)

    return WrapValidator(validate)


def package_of(group: str, choice: StudyPart) -> str | None:
    """The name and version of the package that registers a choice; None of a choice of ccatune."""
    point = _registered(group).get(getattr(choice, "kind", ""))
    return None if point is None else _package(point)
