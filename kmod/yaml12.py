# SPDX-License-Identifier: MIT
"""Reads YAML files by the core schema of YAML 1.2 (section 10.3), in bounded time and memory.

PyYAML follows YAML 1.1, which turns 0100 into 64, 1:30 into 90, `no` into false and 2020-01-01 into a date. Here:

    null     ~, null or nothing
    bool     true, false
    int      decimal digits, with leading zeros too; 0o17 (octal), 0x1f
    float    digits with a point or an exponent; .inf, .nan
    text     everything else, for example 1:30 and no

Merge keys (<<), which YAML 1.2 dropped, are kept. Repeated keys, other types and a collection that contains itself are
refused. Aliases may repeat at most MOST_REPEATED_NODES nodes in total, because a few lines of nested aliases can
otherwise stand for more data than fits into memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import yaml

from kmod.errors import DocumentError

MOST_REPEATED_NODES = 100_000
MOST_DEPTH = 100
TAG = "tag:yaml.org,2002:"


def _whole(text: str) -> int:
    return int(text[2:], 8 if text[1] == "o" else 16) if text[:2] in {"0o", "0x"} else int(text)


def _real(text: str) -> float:
    return float(text.replace(".", "") if text[-1] in "fFnN" else text)


_SCALARS: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "null": (r"(~|null|Null|NULL|)", "~nN", lambda _: None),
    "bool": (r"(true|True|TRUE|false|False|FALSE)", "tTfF", lambda text: text.lower() == "true"),
    "int": (r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", "-+0123456789", _whole),
    "float": (
        r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))",
        "-+.0123456789",
        _real,
    ),
}


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the rules at the top of this module."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 (PyYAML's stubs declare it so)
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        None: yaml.SafeLoader.construct_undefined,
        f"{TAG}str": yaml.SafeLoader.construct_yaml_str,
        f"{TAG}seq": yaml.SafeLoader.construct_yaml_seq,
        f"{TAG}map": yaml.SafeLoader.construct_yaml_map,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.n_nodes = 0  # with what the aliases repeat
        self.n_repeated = 0
        self.depth = 0
        self.sizes: dict[yaml.Node, int] = {}  # of the nodes that are complete

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        before = self.n_nodes
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"found more than {MOST_DEPTH} nested collections", problem_mark=mark)
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        if not isinstance(event, yaml.AliasEvent):
            self.n_nodes += 1
            self.sizes[node] = self.n_nodes - before
            return node
        if node not in self.sizes:
            raise yaml.MarkedYAMLError(problem="found a collection that contains itself", problem_mark=mark)
        self.n_nodes += self.sizes[node]
        self.n_repeated += self.sizes[node]
        if self.n_repeated > MOST_REPEATED_NODES:
            problem = f"found aliases that repeat more than {MOST_REPEATED_NODES} values in total"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        # This is done before merge keys are resolved, because a mapping's own keys may override merged ones.
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(problem=f"found {key.value} twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


def _add_scalar(kind: str) -> None:
    pattern, first, convert = _SCALARS[kind]

    def construct(loader: yaml.SafeLoader, node: Any) -> object:
        text = loader.construct_scalar(node)
        if not re.fullmatch(pattern, text):
            raise yaml.MarkedYAMLError(problem=f"found another value than {kind}", problem_mark=node.start_mark)
        try:
            return convert(text)
        except ValueError as error:  # Python limits the digits of a number
            raise yaml.MarkedYAMLError(problem="found too long a number", problem_mark=node.start_mark) from error

    _Loader.add_implicit_resolver(TAG + kind, re.compile(rf"{pattern}\Z"), [*first, ""])
    _Loader.add_constructor(TAG + kind, construct)


for _kind in _SCALARS:
    _add_scalar(_kind)
_Loader.add_implicit_resolver(f"{TAG}merge", re.compile(r"<<\Z"), ["<"])


def load_yaml(path: Path, *, what: str) -> object:
    """Return the document of a file. what: its kind in messages, such as "a scenario".

    Raises:
        DocumentError: the file cannot be read, or is no YAML by the rules at the top of this module. The message names
            the line and the column.
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        return loader.get_single_data()
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        raise DocumentError(f"{path}{place}: expected {what} as YAML, got other text ({error.problem})") from error
    # PyYAML also raises ValueError and OverflowError, for example for the escape \UFFFFFFFF.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise DocumentError(f"{path}: expected {what} as YAML, got other text ({text})") from error
