# SPDX-License-Identifier: MIT
"""The kernel's rules of style that a program can judge, on core and modules; each is shown to find its fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

KMOD = Path(__file__).resolve().parents[2] / "kmod"
SOURCES = sorted([*(KMOD / "core").glob("*.h"), *(KMOD / "linux").glob("*.h"), *(KMOD / "linux").glob("*.c")])
SOURCES = [path for path in SOURCES if not path.name.endswith(".mod.c")]
LARGEST_COLUMNS = 100
LARGEST_FUNCTION_LINES = 45
KEYWORDS = "if|for|while|switch"

Finding = tuple[int, str]
Rule = Callable[[list[str]], Iterator[Finding]]


def by_line(pattern: str, complaint: str) -> Rule:
    """A rule that no line may match."""
    regex = re.compile(pattern)

    def rule(lines: list[str]) -> Iterator[Finding]:
        return ((number, complaint) for number, line in enumerate(lines, start=1) if regex.search(line))

    return rule


def too_wide(lines: list[str]) -> Iterator[Finding]:
    """Columns, tabs being eight wide."""
    for number, line in enumerate(lines, start=1):
        if len(line.expandtabs(8)) > LARGEST_COLUMNS:
            yield number, f"more than {LARGEST_COLUMNS} columns"


def blank_twice(lines: list[str]) -> Iterator[Finding]:
    """Two empty lines in a row, or one at the end."""
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
        if not line and not following:
            yield number, "an empty line too many"


def else_apart(lines: list[str]) -> Iterator[Finding]:
    """A closing brace, and its else on the next line."""
    for number, (line, following) in enumerate(pairwise(lines), start=2):
        if re.match(r"\t*}$", line) and re.match(r"\t*else\b", following):
            yield number, "else stands behind the brace"


def needless_braces(lines: list[str]) -> Iterator[Finding]:
    """Braces around one statement of one line."""
    for index in range(len(lines) - 2):
        opens, statement, closes = lines[index : index + 3]
        if re.match(rf"\t+({KEYWORDS})\b.*\) {{$", opens) and statement.endswith(";") and re.match(r"\t+}$", closes):
            yield index + 1, "braces around a single statement"


def long_functions(lines: list[str]) -> Iterator[Finding]:
    """From the brace that opens to the one that closes, at the left edge."""
    start = 0
    for number, line in enumerate(lines, start=1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start > LARGEST_FUNCTION_LINES:
                yield start, f"a function of {number - start} lines"
            start = 0


RULES: dict[str, tuple[Rule, str]] = {
    "trailing space": (by_line(r"\s$", "white space at the end"), "int a; "),
    "wide line": (too_wide, "\t" * 12 + "int a;"),
    "spaces as indentation": (by_line(r"^ {8}| \t", "spaces where a tab belongs"), "        int a;"),
    "line comment": (by_line(r"(?<!:)//(?! SPDX)", "a // comment"), "int a; // why"),
    "keyword and parenthesis": (by_line(rf"\b({KEYWORDS})\(", "no space behind a keyword"), "\tif(a)"),
    "pointer": (by_line(r"\b(void|char|int|u8|u32|u64|struct \w+)\* ?\w", "the star belongs to the name"), "char* a;"),
    "opening brace": (by_line(r"^\w[^=]*\) \{$", "a function's brace shares its line"), "int f(void) {"),
    "else": (else_apart, "\t}\n\telse"),
    "blank lines": (blank_twice, "\n"),
    "needless braces": (needless_braces, "\tif (a) {\n\t\tb();\n\t}"),
    "long function": (long_functions, "{\n" + "\tf();\n" * 50 + "}"),
    "reachable warning": (by_line(r"(?<!BUILD_)\b(BUG|BUG_ON|WARN|WARN_ON\w*|panic)\(", "may warn"), "\tWARN_ON(a);"),
    "printing": (by_line(r"\b(printk|pr_\w+)\(", "prints into the kernel's log"), '\tpr_info("a");'),
    "label": (by_line(r"^(?!err_)[a-z]\w*:$", "a label that is not err_..."), "out:"),
}  # fmt: skip


def test_there_are_sources() -> None:
    assert {"cca.h", "tcp_gr.c", "main.c"} <= {path.name for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_source_keeps_the_kernels_style(path: Path) -> None:
    lines = path.read_text(encoding="ascii").removesuffix("\n").split("\n")
    found = [f"{path.name}:{number}: {text}" for rule, _ in RULES.values() for number, text in rule(lines)]
    assert found == []


@pytest.mark.parametrize("name", RULES)
def test_rule_finds_what_it_is_for(name: str) -> None:
    rule, example = RULES[name]
    assert list(rule(example.split("\n")))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_source_opens_with_its_licence(path: Path) -> None:
    licence = "GPL-2.0 OR MIT" if path.parent.name == "core" else "GPL-2.0"
    text = path.read_text(encoding="ascii")
    opens, closes = ("//", "") if path.suffix == ".c" else ("/*", " */")
    expected = f"{opens} SPDX-License-Identifier: {licence}{closes}\n"
    assert text.startswith(expected)
    assert text.endswith("\n")


def test_versions_of_the_kernel_are_asked_for_in_one_file() -> None:
    asking = [path.name for path in SOURCES if "VERSION_CODE" in path.read_text(encoding="ascii")]
    assert asking == ["compat.h"]


def test_the_start_of_a_transfer_is_received_as_the_kernels_version_sends_it() -> None:
    texts = {path.name: path.read_text(encoding="ascii") for path in SOURCES if path.parent.name == "linux"}
    assert [name for name, text in texts.items() if "CA_EVENT_TX_START" in text or "cwnd_event" in text] == ["compat.h"]
    receiving = {name for name, text in texts.items() if re.search(r"^\t\.CCATUNE_TX_START_OP = \w+,$", text, re.M)}
    assert receiving == {"fallback.c", "module.h"}


def test_the_version_is_the_same_wherever_it_stands() -> None:
    project = re.search(r'^version = "(.*)"$', (KMOD.parent / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    module = re.search(r'#define CCATUNE_VERSION "(.*)"', (KMOD / "linux" / "host.h").read_text(encoding="ascii"))
    package = re.search(r'^PACKAGE_VERSION="(.*)"$', (KMOD / "linux" / "dkms.conf").read_text(encoding="ascii"), re.M)
    assert project is not None
    assert module is not None
    assert package is not None
    assert project[1] == module[1] == package[1]
