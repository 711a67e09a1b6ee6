# SPDX-License-Identifier: MIT
"""Reads scenario files: YAML with paths of traces and ensembles. The result is a validated Scenario.

    name: two-flows
    link:
      trace: ../../traces/a.down    # or rate_mbps: 20, or made; paths are relative to the file's folder
      recording: hour01             # if the path contains several recordings: a part of the name of one
      made: {model: 4g.json, duration_s: 600, seed: 1}    # a generated trace; `ccatune traces fit` writes the model
      # made: {poisson_mbps: 2.5, duration_s: 60}         # or a Poisson process of deliveries with this mean rate
      delays: {trace: a.delays}     # delays by time instead of rtt_ms, from a file (delays.py) or as steps
      buffer_pkts: 300              # all other fields of LinkSpec have the same names
      behind:                       # elements of the path, each with its kind
        - {kind: policer, rate_mbps: 2.07, bucket_bytes: 733000}
    flows:
      - cca: gr
        ensemble: gr.json           # an ensemble file, instead of ensemble_text
        delay_class: 100ms          # its target: the delay, percentile and delay (95:100ms), or the index
    duration_s: 30

The fields are those of model.py and path.py in this folder. docs/scenarios.md shows all of them. Elements of
kind `access` and `acks.uplink` take traces as the link does.

The options of the command line replace fields of such a document. So all scenarios are built and checked in one place.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from emulation.errors import EmulationError
from emulation.scenario.delays import BaseDelay, read_delay_trace
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import ELEMENTS, Frozen, LinkRate
from emulation.traces import Recording, Trace, read_recordings
from kmod.ensemble import Deployment, Ensemble, table_text
from kmod.errors import DocumentError
from kmod.terminal import listed
from kmod.yaml12 import load_yaml

Document = dict[str, Any]
Settings = TypeVar("Settings", bound=BaseModel)
Location = tuple[int | str, ...]

DEPLOYMENT = Deployment("file", "simulate", 1)
MOST_NAMES_SHOWN = 8
MOST_NAMED_MBPS = 1e9

# Values in messages are cut, because a file can contain very long ones.
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel = 2
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 100


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file. Raises EmulationError as read_document and build_scenario do."""
    path = Path(path)
    return build_scenario(read_document(path), source=str(path), folder=path.parent)


def read_document(path: Path, *, what: str = "a scenario", holding: str = "link and flows") -> Document:
    """Read the YAML mapping of a file. Its content is not checked.

    what, holding: used in error messages for the kind of the document and for its expected content.

    Raises EmulationError if the file cannot be read, is no YAML (kmod/yaml12.py), or does not contain a mapping.
    """
    try:
        document = load_yaml(path, what=what)
    except DocumentError as error:
        raise EmulationError(str(error)) from error
    if not isinstance(document, dict):
        raise EmulationError(f"{path}: expected a mapping with {holding}, got {type(document).__name__}")
    return document


def link_document(link: LinkSpec, *, trace: str) -> Document:
    """Return the document of a link whose bottleneck is a recorded trace. trace: the path of a file with that trace.

    The place in the trace is left out, because the file begins there. The elements' own traces are not written.
    """
    fields = link.model_dump(mode="json", exclude_defaults=True, exclude={"trace", "start_ms"})
    for side in ("before", "behind"):
        elements = zip(getattr(link, side), fields.get(side, ()), strict=True)
        fields |= {side: [{"kind": element.kind, **its} for element, its in elements]} if side in fields else {}
    return {"trace": trace, **fields}


def read_settings(path: Path, model: type[Settings], *, what: str = "settings") -> Settings:
    """Read a YAML file and validate it with a model. what: the kind of the file, for messages.

    The model's validators have the file's folder as their context.

    Raises EmulationError if the file cannot be read, or its content is invalid.
    """
    document = read_document(path, what=what, holding=", ".join(model.model_fields))
    try:
        return model.model_validate(document, context=path.parent)
    except ValidationError as error:
        fault = first_fault(error, known=lambda at: () if at[:-1] else model.model_fields)
        raise EmulationError(f"{path}: {fault}") from error


def build_scenario(document: Document, *, source: str, folder: Path) -> Scenario:
    """Build a scenario from a document. This validates the document and reads its traces and ensembles.

    source: the name of the document in messages. folder: relative paths in the document start here.

    Raises EmulationError if a field is unknown, a value is out of range, or a trace or an ensemble cannot be read. The
    message is a line about the first fault.
    """
    fields = dict(document)
    if "link" in fields:
        fields["link"] = _link(_mapping(fields["link"], f"{source}: link"), source=source, folder=folder)
        fields.setdefault("name", _name_of(fields["link"]))
    if "flows" in fields:
        flows = fields["flows"]
        if not isinstance(flows, list):
            raise EmulationError(f"{source}: flows: expected a list, got {type(flows).__name__}")
        fields["flows"] = tuple(
            _flow(_mapping(flow, f"{source}: flows.{number}"), source=f"{source}: flows.{number}", folder=folder)
            for number, flow in enumerate(flows)
        )
    try:
        # Strict validation does not accept yes or "20" as numbers.
        return Scenario.model_validate(_tuples(fields), strict=True)
    except ValidationError as error:
        raise EmulationError(f"{source}: {first_fault(error, known=_fields_at)}") from error


def _tuples(value: Any) -> Any:
    """Return the value with all lists replaced by tuples, because strict validation does not convert lists."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _mapping(value: object, what: str) -> Document:
    if not isinstance(value, dict):
        raise EmulationError(f"{what}: expected a mapping, got {_SHOWN.repr(value)}")
    return dict(value)


def _link(link: Document, *, source: str, folder: Path) -> Document:
    """Return the document of the link with all its traces read, including those of access links and the uplink."""
    link = _with_trace(link, what=f"{source}: link", folder=folder)
    if isinstance(link.get("delays"), dict) and "trace" in link["delays"]:
        link["delays"] = _delays(link["delays"], what=f"{source}: link.delays", folder=folder)
    for side in ("before", "behind"):
        elements = link.get(side)
        if isinstance(elements, list):
            link[side] = tuple(
                _element(element, what=f"{source}: link.{side}.{number}", folder=folder)
                for number, element in enumerate(elements)
            )
    acks = link.get("acks")
    if isinstance(acks, dict) and isinstance(acks.get("uplink"), dict):
        uplink = _with_trace(dict(acks["uplink"]), what=f"{source}: link.acks.uplink", folder=folder)
        link["acks"] = {**acks, "uplink": uplink}
    return link


def _delays(delays: Document, *, what: str, folder: Path) -> BaseDelay:
    if beside := sorted(delays.keys() - {"trace"}):
        raise EmulationError(f"{what}: expected either trace or steps, got trace beside {', '.join(beside)}")
    return read_delay_trace(_located(delays["trace"], folder, f"{what}.trace"))


def _element(element: object, *, what: str, folder: Path) -> Document:
    fields = _mapping(element, what)
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in ELEMENTS:
        raise EmulationError(f"{what}.kind: expected one of {', '.join(ELEMENTS)}, got {_SHOWN.repr(kind)}")
    return _with_trace(fields, what=what, folder=folder) if kind == "access" else fields


def _with_trace(link: Document, *, what: str, folder: Path) -> Document:
    recording = link.pop("recording", None)
    if not isinstance(recording, str | None):
        raise EmulationError(f"{what}.recording: expected a text, got {_SHOWN.repr(recording)}; put it into quotes")
    if "made" in link:
        if link.get("trace") is not None:
            raise EmulationError(f"{what}: expected one trace, got both trace and made")
        made = _mapping(link.pop("made"), f"{what}.made")
        link["trace"] = _made_trace(made, source=f"{what}.made", folder=folder)
    path = link.get("trace")
    if path is None or isinstance(path, Trace):
        if recording is not None:
            raise EmulationError(f"{what}.recording: expected a trace beside it, got none")
        if path is None and link.get("start_ms"):
            raise EmulationError(f"{what}.start_ms: expected a trace beside it, got none")
        return link
    found = _located(path, folder, f"{what}.trace")
    # Only options give a path as a Path. A document gives it as a text.
    named_with = "--recording" if isinstance(path, Path) else "`recording`"
    link["trace"] = one_recording(read_recordings(found), recording, found, named_with=named_with).trace
    return link


class _Made(Frozen):
    """How a trace is generated: its model or its Poisson process, duration and seed.

    link: a link of the model; None: the seed chooses.
    """

    model: str | Path | None = None
    poisson_mbps: float | None = Field(None, gt=0)
    duration_s: float = Field(gt=0)
    seed: int = Field(0, ge=0)
    link: str | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> _Made:
        if (self.model is None) == (self.poisson_mbps is None):
            raise ValueError("expected one of model and poisson_mbps")
        if self.link is not None and self.model is None:
            raise ValueError("expected link only beside a model")
        return self


def _made_trace(fields: Document, *, source: str, folder: Path) -> Trace:
    from emulation.traces.poisson import make_poisson
    from emulation.traces.synthetic import TraceModel, make

    try:
        made = _Made.model_validate(fields, strict=True)
    except ValidationError as error:
        raise EmulationError(f"{source}: {first_fault(error, known=lambda _: _Made.model_fields)}") from error
    if made.poisson_mbps is not None:
        return make_poisson(made.poisson_mbps, duration_s=made.duration_s, seed=made.seed)
    model = TraceModel.load(_located(made.model, folder, f"{source}.model"))
    return make(model, duration_s=made.duration_s, seed=made.seed, link=made.link)


def _name_of(link: Document) -> str:
    """Return the name of a scenario that has none: that of its trace, or its rate."""
    trace, rate_mbps = link.get("trace"), link.get("rate_mbps")
    if isinstance(trace, Trace):
        return trace.name
    # Larger numbers are refused by the validation that follows. They may exceed the range of a float.
    is_rate = isinstance(rate_mbps, int | float) and abs(rate_mbps) < MOST_NAMED_MBPS
    return f"{rate_mbps:g} Mbit/s" if is_rate else "scenario"


def _located(path: object, folder: Path, what: str) -> Path:
    """Return a path. A string from a file is relative to the file's folder, a Path is returned unchanged."""
    if isinstance(path, str) and path and "\0" not in path:
        return folder / path
    if isinstance(path, Path):
        return path
    raise EmulationError(f"{what}: expected a path, got {_SHOWN.repr(path)}")


def one_recording(
    recordings: list[Recording], name: str | None, path: Path, *, named_with: str = "`recording`"
) -> Recording:
    """Return the recording of that name, or else the only one whose name contains it (None: the only one).

    named_with: the field or option that names a recording, for messages.
    """
    wanted = name or ""
    chosen = [recording for recording in recordings if recording.name == wanted]
    chosen = chosen or [recording for recording in recordings if wanted in recording.name]
    if len(chosen) == 1:
        return chosen[0]
    names = [recording.name for recording in chosen or recordings]
    in_name = f" with {wanted} in its name" if wanted else ""
    raise EmulationError(
        f"{path}: expected one recording{in_name}, got {len(chosen)}; name one with {named_with} among "
        f"{listed(names, most=MOST_NAMES_SHOWN)}"
    )


def _flow(flow: Document, *, source: str, folder: Path) -> Document:
    path = flow.pop("ensemble", None)
    if path is None:
        if isinstance(flow.get("delay_class"), str):
            raise EmulationError(f"{source}.delay_class: expected an ensemble beside it, got none")
        return flow
    ensemble = Ensemble.load(_located(path, folder, f"{source}.ensemble"))
    if flow.setdefault("cca", ensemble.cca) != ensemble.cca:
        raise EmulationError(f"{source}: expected an ensemble of {flow['cca']}, got one of {ensemble.cca} in {path}")
    flow["ensemble_text"] = table_text(ensemble, DEPLOYMENT)
    if "delay_class" in flow:
        flow["delay_class"] = _class_index(ensemble, flow["delay_class"], source)
    return flow


def _class_index(ensemble: Ensemble, wanted: object, source: str) -> int:
    """Return the index of a class that is given as "100ms", "95:100ms" or by its index."""
    by_delay = [f"{c.queueing_delay_us / 1000:g}ms" for c in ensemble.classes]
    by_both = [f"{c.percentile}:{delay}" for c, delay in zip(ensemble.classes, by_delay, strict=True)]
    text = str(wanted)
    found = [i for i, names in enumerate(zip(by_delay, by_both, map(str, range(8)), strict=False)) if text in names]
    if len(found) != 1:
        raise EmulationError(f"{source}.delay_class: expected one of {', '.join(by_both)}, got {text}")
    return found[0]


def first_fault(error: ValidationError, *, known: Callable[[Location], Iterable[str]] | None = None) -> str:
    """Return a line about the first of pydantic's errors: the field, the expected value and the actual value.

    known: returns the names that are allowed at the place of an unknown one. None: the line lists no names.
    """
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    text = fault["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    text = re.sub("a valid dictionary( or instance of .*)?", "a mapping", text)
    if fault["type"] == "extra_forbidden":
        names = list(known(fault["loc"])) if known else []
        text = f"expected one of {', '.join(names)}" if names else "expected no such field"
    elif fault["type"] == "missing":
        text = "expected it, got nothing"
    elif fault["type"] == "union_tag_invalid":
        choice = fault["ctx"]
        where += f".{choice['discriminator'].strip(chr(39))}"
        text = f"expected one of {choice['expected_tags']}, got {choice['tag']!r}"
    if "got" not in text and not isinstance(fault["input"], dict | BaseModel):
        came = fault["input"]
        text += f", got {_SHOWN.repr(list(came) if isinstance(came, tuple) else came)}"
    return f"{where}: {text}" if where else text


# The fields that files have besides those of the models.
_OF_FILES: dict[type[BaseModel], tuple[str, ...]] = {
    **dict.fromkeys((LinkSpec, LinkRate, ELEMENTS["access"]), ("recording", "made")),
    FlowSpec: ("ensemble",),
    BaseDelay: ("trace",),
}


def _fields_at(location: Location) -> list[str]:
    """Return the field names that are allowed at this location of a scenario."""
    model: type[BaseModel] = Scenario
    for part in location[:-1]:
        if part in ELEMENTS:  # the kind of an element
            model = ELEMENTS[str(part)]
        elif isinstance(part, str):
            (model, *_) = _models_in(model.model_fields[part].annotation)
    return [*model.model_fields, *_OF_FILES.get(model, ())]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in the type of a field, such as a tuple of models."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
