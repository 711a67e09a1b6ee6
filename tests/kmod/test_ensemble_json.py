# SPDX-License-Identifier: MIT
"""kmod.ensemble: the JSON form, its digest, and its file."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from kmod.ensemble import Axis, Ensemble, EnsembleError, canonical_json, write_atomically
from tests.kmod.tables import AXIS, JSON_VALUES, ensembles, small


@given(ensembles())
def test_an_ensemble_goes_through_json_and_back(ensemble: Ensemble) -> None:
    again = Ensemble.from_json(json.loads(json.dumps(ensemble.to_json())))
    assert again == ensemble
    assert again.digest == ensemble.digest


@given(ensembles())
def test_the_digest_is_the_hash_of_the_canonical_content(ensemble: Ensemble) -> None:
    content = {key: value for key, value in ensemble.to_json().items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert ensemble.digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_is_known() -> None:
    # Known beforehand: a digest that changes strands every ensemble that is published.
    assert small().digest == "sha256:9235cfc62ac739bc390d7c9d67772c15051eb1b5f278b6aa955f1f2488bcf05d"


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch_ms": 30001},
        {"estimate_ms": 251},
        {"epsilon_pct": 26},
        {"provenance": {"seed": 1}},
        {"axes": (Axis(AXIS, "linear", 125001, 2),)},
        {"axes": (Axis(AXIS, "log", 125000, 2, 1),)},
        {"rows": small().rows[::-1]},
        {"classes": small().classes[::-1]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_any_change_of_the_content_changes_the_digest(changes: dict[str, Any]) -> None:
    assert small(**changes).digest != small().digest


@given(JSON_VALUES)
def test_canonical_json_reads_back_and_is_the_only_form(value: Any) -> None:
    text = canonical_json(value)
    assert text.isascii()
    assert canonical_json(json.loads(text)) == text


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.inf], {"a": -math.inf}, {1, 2}, b"x", object(), {("a",): 1}, {2: "x", 10: "y"}, {1: "x", "1": "y"},
     nested(100_000)],
    ids=["nan", "inf", "minus inf", "set", "bytes", "object", "tuple key", "number keys", "key twice", "deep"],
)  # fmt: skip
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(EnsembleError, match="expected JSON data"):
        canonical_json(value)


# --- what from_json refuses --------------------------------------------------------


def without(key: str) -> dict[str, Any]:
    """A valid file's content without one of its keys."""
    return {name: value for name, value in small().to_json().items() if name != key}


def changed(path: str, value: Any) -> dict[str, Any]:
    """A valid file's content with one value changed; a path is `axes.0.name`."""
    data: Any = copy.deepcopy(small().to_json())
    *way, last = path.split(".")
    at = data
    for step in way:
        at = at[int(step)] if step.isdigit() else at[step]
    at[int(last) if last.isdigit() else last] = value
    return dict(data)


@pytest.mark.parametrize("key", sorted(small().to_json()))
def test_every_key_is_needed(key: str) -> None:
    with pytest.raises(EnsembleError, match=f"an ensemble with the key {key}"):
        Ensemble.from_json(without(key))


@pytest.mark.parametrize("data", [None, [], "x", 5, [small().to_json()]])
def test_other_json_is_no_ensemble(data: Any) -> None:
    with pytest.raises(EnsembleError, match="an ensemble as a JSON object"):
        Ensemble.from_json(data)


@pytest.mark.parametrize("path", sorted(small().to_json()))
@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", [], {}, [[]], [{}], [None], {"a": 1}], ids=repr)
def test_a_value_of_any_other_kind_is_refused_as_an_ensembles_error(path: str, value: Any) -> None:
    with pytest.raises(EnsembleError):
        Ensemble.from_json(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", "ccatune-ensemble/2", "schema ccatune-ensemble/1"),
        ("more", 1, "an ensemble without other keys"),
        ("classes.0", {"percentile": 95}, "a class with the key queueing_delay_us"),
        ("classes.0.more", 1, "a class without other keys"),
        ("axes.0.more", 1, "an axis without other keys"),
        ("axes.0.name", [], "an axis' name"),
        ("axes.0.scale", [], "a scale linear or log"),
        ("axes.0.per_octave", 1, "per_octave from 0 to 0 on a linear axis"),
        ("columns.0", 5, "columns as names"),
        ("columns.0", [], "columns as names"),
        ("rows.0", 5, "a row as a list"),
        ("rows.0.0", "60000", "row 0 bandwidth_window_us"),
        ("rows.0.0", 60001, "the content was changed or damaged"),
        ("provenance", [], "provenance as an object"),
        ("provenance.seed", 2, "the content was changed or damaged"),
        ("provenance.seed", math.nan, "expected JSON data"),
        ("digest", "sha256:" + "0" * 64, "get it again from where it came"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(EnsembleError, match=message):
        Ensemble.from_json(changed(path, value))


def test_a_signature_may_stand_beside_the_content() -> None:
    assert Ensemble.from_json({**small().to_json(), "signature": "any"}) == small()


# --- the file ------------------------------------------------------------------------


def test_a_file_is_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "gr.json"
    small().save(path)
    assert Ensemble.load(path) == small()
    assert path.stat().st_mode & 0o777 == 0o644
    small(epsilon_pct=30).save(path)
    assert Ensemble.load(path).epsilon_pct == 30
    assert [one.name for one in tmp_path.iterdir()] == ["gr.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected an ensemble as JSON"),
        (b"{", "expected an ensemble as JSON"),
        (b"\xff\xfe", "expected an ensemble as JSON"),
        (b"[]", "an ensemble as a JSON object"),
        (b"[" * 200_000, "expected an ensemble as JSON"),
        (b'{"epoch_ms": ' + b"9" * 5000 + b"}", "expected an ensemble as JSON"),
    ],
    ids=["empty", "cut", "binary", "list", "deep", "long number"],
)
def test_a_file_that_holds_no_ensemble_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(EnsembleError, match=message) as caught:
        Ensemble.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnsembleError, match=r"absent\.json: cannot be read"):
        Ensemble.load(tmp_path / "absent.json")
    with pytest.raises(EnsembleError, match=r"gr\.json: cannot be written"):
        small().save(tmp_path / "no folder" / "gr.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
