# SPDX-License-Identifier: MIT
"""The studies that jobs may name. They are the files NAME.yaml in the folder of the setting `studies`.

The registry reads a study when a job is submitted, and stores its text with the job. A later change of the file thus
changes no job. Only the algorithm is read here, and whether the training needs recordings. The runner checks the rest,
because that needs the package `training`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kmod.abi import ALGORITHMS
from kmod.errors import DocumentError
from kmod.yaml12 import load_yaml
from serving.errors import DatasetMissingError, StudyNotFoundError
from serving.names import is_name

MAX_STUDY_BYTES = 256 * 1024


@dataclass(frozen=True)
class RegisteredStudy:
    """A study as its file states it. text: YAML. cca: its algorithm."""

    name: str
    text: str
    cca: str


def study_names(folder: Path | None) -> list[str]:
    """Return the names of the files in the folder. Whether each is a study is only known when it is read."""
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.yaml") if is_name(path.stem))


def read_study(folder: Path | None, name: str, *, datasets: Sequence[str]) -> RegisteredStudy:
    """Return the study NAME of the folder, which is to be trained on these datasets.

    Raises:
        StudyNotFoundError: there is no such file, or it is not a study of a known algorithm. The message names no path.
        DatasetMissingError: it needs recordings, and there are no datasets.
    """
    if folder is None:
        raise StudyNotFoundError(
            f"study: expected a registered study, got {name}; the registry's setting `studies` names no folder"
        )
    path = folder / f"{name}.yaml"
    try:
        if path.stat().st_size > MAX_STUDY_BYTES:
            raise StudyNotFoundError(
                f"study {name}: expected a file of at most {MAX_STUDY_BYTES} bytes, got a larger one"
            )
        text = path.read_text(encoding="utf-8")
        data = load_yaml(path, what="a study")
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        if path.is_file():
            raise StudyNotFoundError(
                f"study {name}: expected a study as YAML, got a file that cannot be read as one; ask an administrator"
            ) from error
        known = ", ".join(sorted(one.stem for one in folder.glob("*.yaml"))) or "none"
        advice = "" if known != "none" else "; an administrator puts studies into the folder of the setting `studies`"
        raise StudyNotFoundError(f"study: expected one of {known}, got {name}{advice}") from error
    cca = data.get("cca") if isinstance(data, dict) else None
    if cca not in ALGORITHMS:
        raise StudyNotFoundError(f"study {name}: expected the name of an algorithm as `cca`, got {cca!r:.80}")
    if not datasets and needs_recordings(data):
        raise DatasetMissingError(
            f"datasets: expected at least one, because study {name} trains on recordings, got none; name it by "
            "`--dataset NAME` or as `datasets` (the page /ui/links lists the names)"
        )
    return RegisteredStudy(name, text, str(cca))


def needs_recordings(study: object) -> bool:
    """Whether the training needs recordings: `needs_recordings` of the settings in training/workloads.

    False for a workload that is none of these. The runner says what is wrong with it.
    """
    match study:
        case {"workload": {"kind": "epochs"}}:
            return True
        case {"workload": {"kind": "policed", "cases": {"unlimited": number}}}:
            return bool(number)
    return False
