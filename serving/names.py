# SPDX-License-Identifier: MIT
"""Types of the names and texts in paths and bodies of the API, with the rules that each must satisfy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Ensemble

# The smallest ensemble that the registry accepts, for the examples of the API's documentation.
_ENSEMBLE = Ensemble(
    cca="gr",
    epoch_ms=30_000,
    estimate_ms=250,
    epsilon_pct=25,
    classes=(DelayClass(95, 100_000),),
    axes=(Axis("throughput_bytes_per_s", "linear", 125_000, 1),),
    columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
    rows=((60_000, 3_000, 12_000),),
    provenance={},
)

EXAMPLE_DOCUMENT: Final[dict[str, Any]] = _ENSEMBLE.to_json()
EXAMPLE_DIGEST: Final = _ENSEMBLE.digest

# The grammar of registry and channel names in a table's text (kmod/core/ensemble.h).
_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,63}$"
_NAME_WORDS = "1 to 63 of A-Z a-z 0-9 . _ -"
_DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
_AGENT_PATTERN = r"^[A-Za-z0-9._:-]{1,128}$"
_LABEL_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"
_MAX_NOTE_CHARS = 1000

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}|(?=.*:.*:)[0-9A-Fa-f:.]{2,45}")
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


# The patterns of this package: a beginning, and a number of characters of a class.
_PATTERN = re.compile(r"\^(.*?)\[([^]]+)\]\{([0-9]+)(?:,([0-9]+))?\}\$")
_RANGE = re.compile(r"[^-]-[^-]|.")


# Messages of pydantic, and the form that messages have here.
_FORMS = (
    (r", unable to .*", ""),
    (r"(Input|[A-Z][a-z]+) should (be|have) ", "expected "),
    (r"Input is not a valid path for .*", "expected a path"),
    (r"a valid dictionary( or instance of .*)?|a valid object", "a mapping"),
    (r"a valid (tuple|list|array)", "a list"),
    (r" after validation, not ", ", got "),
    (r"Field required", "expected it, got nothing"),
    (r"Extra inputs are not permitted", "expected no such field"),
)


def in_words(error: Mapping[str, Any], *, shows_input: bool = False) -> str:
    """Return the message of an error of pydantic as `expected ..., got ...`. A pattern is described in words.

    shows_input: whether to show the value, if it is one. It may be a secret.
    """
    text, came = _expected(error), error.get("input")
    is_value = came is None or isinstance(came, str | int | float)
    return f"{text}, got {came!r:.100}" if shows_input and is_value and "got" not in text.split() else text


def _expected(error: Mapping[str, Any]) -> str:
    pattern = _PATTERN.fullmatch(str(error.get("ctx", {}).get("pattern", "")))
    if error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if error["type"] != "string_pattern_mismatch" or pattern is None:
        text = str(error["msg"])
        for found, form in _FORMS:
            text = re.sub(found, form, text, count=1)
        return text
    begins, characters, least, most = pattern.groups()
    number = f"{least} to {most}" if most else least
    after = f"{begins} and then " if begins else ""
    return f"expected {after}{number} of the characters {' '.join(_RANGE.findall(characters))}"


def is_name(text: str) -> bool:
    """Whether a table's text and a URL's path may both contain this name.

    A name has 1 to 63 characters of A-Z a-z 0-9 . _ - and is not `.` or `..`.
    """
    return 1 <= len(text) <= 63 and set(text) <= _ALLOWED and text not in {".", ".."}


def _not_dots(name: str) -> str:
    # A URL's path cannot contain these names: clients and proxies resolve them as relative segments.
    if name in {".", ".."}:
        raise ValueError("expected a name other than . and ..")
    return name


def _known_cca(name: str) -> str:
    if name not in ALGORITHMS:
        raise ValueError(f"expected one of the algorithms {', '.join(sorted(ALGORITHMS))}")
    return name


def _host_name(name: str) -> str:
    # The result has the form in which guard.py compares a Host header: lower case, and IPv6 without brackets.
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(f"expected a host's name alone, without port or brackets, got {name!r}")
    return name.lower()


def _storable(text: str) -> str:
    # A text from a client may contain any character. PostgreSQL cannot store NUL, and no database stores a lone
    # surrogate.
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _text(pattern: str, description: str, example: str) -> Any:
    return Field(pattern=pattern, description=description, examples=[example])


_WITHOUT_DOTS = AfterValidator(_not_dots)

CcaName = Annotated[
    str,
    Field(
        description="Name of a congestion-control algorithm of the core, such as `gr`.",
        json_schema_extra={"enum": sorted(ALGORITHMS)},
        examples=["gr"],
    ),
    AfterValidator(_known_cca),
]
ChannelName = Annotated[
    str, _text(_NAME_PATTERN, f"Name of a channel, such as `champion`: {_NAME_WORDS}", "champion"), _WITHOUT_DOTS
]
DigestText = Annotated[
    str,
    _text(_DIGEST_PATTERN, "`sha256:` and 64 hexadecimal digits, over the ensemble's content.", EXAMPLE_DIGEST),
]
AgentId = Annotated[
    str, _text(_AGENT_PATTERN, "Name of an agent: 1 to 128 of A-Z a-z 0-9 . _ : -", "web-1"), _WITHOUT_DOTS
]
LabelName = Annotated[
    str, _text(_LABEL_PATTERN, "Name of a label of servers: 1 to 63 of a-z 0-9 _ with a letter first", "site")
]
# The most labels of an agent.
MAX_LABELS: Final = 8
# A path model's name, and the most that a runner says it has.
PATHS_NAME: Final = "[A-Za-z0-9_-]{1,63}"
MAX_PATHS: Final = 200
Labels = Annotated[
    dict[LabelName, Annotated[str, Field(pattern=_NAME_PATTERN)]],
    Field(max_length=MAX_LABELS, description="What the server is, as its settings say.", examples=[{"site": "fra1"}]),
]
StudyName = Annotated[str, _text(_NAME_PATTERN, f"Name of a registered study: {_NAME_WORDS}", "gr-demo"), _WITHOUT_DOTS]
DatasetName = Annotated[
    str,
    _text(_NAME_PATTERN, f"Name of a dataset in the registry's settings: {_NAME_WORDS}", "cellular"),
    _WITHOUT_DOTS,
]
HostName = Annotated[str, AfterValidator(_host_name)]
PlainText = Annotated[str, AfterValidator(_storable)]
Note = Annotated[PlainText, Field(max_length=_MAX_NOTE_CHARS, description="Why, for those who read the history.")]
