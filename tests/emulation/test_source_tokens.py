# SPDX-License-Identifier: MIT
"""Comments and formatting leave a digest of sources as it is; each token moves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emulation import source_tokens
from emulation.source_tokens import c_tokens, digest_of_texts, engine_sources_digest, python_tokens

C = """\
#include "cca.h"
#define SCALE(x) ((x) * 3)
static int f(int a, int b)
{
	const char *text = "a // b";
	return a + +b >= SCALE(1) ? text[0] : 'x';
}
"""

PYTHON = '''\
"""A module."""
X = ["a", "b"]

def f(a: int = 1) -> int:
    """A function."""
    return a + 1  # a comment
'''


@pytest.mark.parametrize(
    "same",
    [
        C.replace("static", "/* a comment\n * of lines */ static // and 'another\n"),
        C.replace("((x) * 3)", "(  (x) \\\n\t* 3) // times"),
        C.replace("\n\treturn", " return").replace("\t", "  ").replace("a + +b", "a + + b"),
        C.replace("\n", "\r\n"),
        "/* first */ " + C.replace("#include", "  #  include"),
        C.replace("{", "// goes on in the next line \\\n int c;\n{"),
    ],
)
def test_comments_and_formatting_of_c_do_not_count(same: str) -> None:
    assert same != C
    assert c_tokens(same) == c_tokens(C)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 3", "* 4"),
        ("a // b", "a // c"),
        ("a // b", "a  // b"),
        ("'x'", "'y'"),
        ("a + +b", "a ++b"),
        (">=", "> ="),
        ("int b", "int c"),
        ("SCALE(x)", "SCALE (x)"),
        ('"cca.h"', "<cca.h>"),
        ("\nstatic", " static"),  # no longer behind the directive, but a part of it
        ("static", "static /"),
    ],
)
def test_each_token_of_c_counts(old: str, new: str) -> None:
    assert old in C
    assert c_tokens(C.replace(old, new)) != c_tokens(C)


def test_a_number_a_raw_string_and_a_suffix_are_one_token_each() -> None:
    text = """x = 1'000.5e-3f + 0x1p+3 + u8R"--(a // "b" )- /* c */)--" + "s"_s;"""
    assert c_tokens(text) == """x = 1'000.5e-3f + 0x1p+3 + u8R"--(a // "b" )- /* c */)--" + "s"_s ;"""


@pytest.mark.parametrize(
    "same",
    [
        PYTHON.replace("  # a comment", ""),
        PYTHON.replace('"""A function."""', '"""Another text."""'),
        PYTHON.replace('    """A function."""\n', "").replace('"""A module."""\n', ""),
        PYTHON.replace('["a", "b"]', "[\n    'a',\n    \"b\",\n]"),
    ],
)
def test_comments_docstrings_and_formatting_of_python_do_not_count(same: str) -> None:
    assert same != PYTHON
    assert python_tokens(same) == python_tokens(PYTHON)


@pytest.mark.parametrize(("old", "new"), [("= 1", "= 2"), ("= 1)", "= True)"), ('"b"', '"c"'), ("a + 1", "a - 1")])
def test_each_token_of_python_counts(old: str, new: str) -> None:
    assert old in PYTHON
    assert python_tokens(PYTHON.replace(old, new)) != python_tokens(PYTHON)


def test_the_name_of_a_source_counts_and_the_order_does_not() -> None:
    first = digest_of_texts({"a.h": "int a;", "b.py": "x = 1"})
    assert first == digest_of_texts({"b.py": "x  =  1  # y", "a.h": "int a; // y"})
    assert first != digest_of_texts({"c.h": "int a;", "b.py": "x = 1"})
    assert digest_of_texts({"Kbuild": "# a\nx := 1\n"}) == digest_of_texts({"Kbuild": "\nx  := 1"})


def test_the_engines_digest_is_written_by_the_standard_library_alone(tmp_path: Path) -> None:
    core, cpp = tmp_path / "kmod" / "core", tmp_path / "emulation" / "cpp" / "path"
    core.mkdir(parents=True)
    cpp.mkdir(parents=True)
    (core / "gr.h").write_text(C, encoding="utf-8")
    (cpp / "link.hpp").write_text("int rate; // of the link\n", encoding="utf-8")
    header = tmp_path / "build" / "digest.hpp"

    def written() -> str:
        program = [sys.executable, "-I", "-S", source_tokens.__file__, str(tmp_path), str(header)]
        subprocess.run(program, check=True)
        return header.read_text(encoding="utf-8")

    first = written()
    assert f'"{engine_sources_digest(tmp_path)}"' in first
    (cpp / "link.hpp").write_text("/* The link's. */\nint  rate;\n", encoding="utf-8")
    assert written() == first
    (core / "gr.h").write_text(C.replace("* 3", "* 4"), encoding="utf-8")
    assert written() != first
