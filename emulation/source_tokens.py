# SPDX-License-Identifier: MIT
"""Computes digests of sources from their tokens, so that comments and formatting do not change the keys of results.

    C, C++    Comments are removed and continued lines joined (between tokens and in literals). White space between
              tokens becomes one space, and each preprocessor directive is a line. Tokens are those of C++20's
              translation phase 3 (identifiers, numbers, literals, operators by longest match).
    Python    The syntax tree without positions and without statements that consist of a string (docstrings).
    Kbuild    Lines without comments, with white space reduced to single spaces.

Limits: Macros are not expanded, so a changed definition changes the digest even if the macro is not used. White space
in a macro argument that is turned into a string (#argument) does not count. Empty fields of the syntax tree are left
out, because newer versions of Python have more of them.

CMakeLists.txt runs this file as a program to compile the digest of the engine's sources into the engine
(`emulation._engine.SOURCES_DIGEST`). The program uses only the standard library. The digest is therefore that of the
sources from which the engine was built, also in an installation without sources or compiler.

    python -I emulation/source_tokens.py ROOT HEADER    writes HEADER unless it is up to date
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["c_tokens", "digest_of_texts", "engine_sources", "engine_sources_digest", "python_tokens", "tokens_of"]

# The files that the engine is compiled from: folders below the repository's root, and patterns.
_ENGINE = (("kmod/core", ("*.h", "*.def")), ("emulation/cpp", ("*/*.hpp", "*/*.cpp")))
C_SUFFIXES = frozenset({".c", ".h", ".def", ".cpp", ".hpp"})

_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_C_TOKEN = re.compile(
    r"""
      (?P<comment> //(?:\\[ \t]*\r?\n|[^\n])* | /\*.*?\*/ )
    | (?P<newline> \n )
    | (?P<space> (?:[^\S\n] | \\[ \t]*\r?\n)+ )
    | (?P<token>
        (?P<raw>(?:u8|[uUL])? R"(?P<mark>[^()\\\s]{0,16})\( .*? \)(?P=mark)" )
      | (?:u8|[uUL])? "(?:\\.|[^"\\\n])*" \w*
      | (?:u8|[uUL])? '(?:\\.|[^'\\\n])*' \w*
      | \.?\d (?: [eEpP][+-] | '\w | [\w.] )*
      | \w+
      | %:%: | \.\.\. | <=> | <<= | >>= | ->\* | && | \|\| | == | != | <= | >= | \+= | -= | \*= | /= | %= | &= | \|=
      | \^= | << | >> | \+\+ | -- | -> | :: | \.\* | [#][#] | <: | :> | <% | %> | %:
      | .
      )
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDED = re.compile(r"<[^>\n]*>")
_MACRO_WITH_ARGUMENTS = re.compile(r"\w+\(")


def c_tokens(text: str) -> str:
    """Return the tokens of a C or C++ source, separated by spaces. Each directive is a line of its own."""
    return "\n".join(" ".join(line) for line in _c_lines(text))


def _c_lines(text: str) -> Iterator[list[str]]:
    """Yield the tokens line by line. A line is a directive, or all tokens between two directives."""
    line: list[str] = []
    is_directive, at_line_start, at = False, True, 0
    while at < len(text):
        found = _C_TOKEN.match(text, at)
        assert found is not None  # noqa: S101 (the last alternative takes any character)
        at, word = found.end(), found["token"]
        if found["newline"] is not None:
            at_line_start = True
            if is_directive:
                yield line
                line, is_directive = [], False
            continue
        if word is None:
            continue
        if at_line_start and not is_directive and word in {"#", "%:"}:
            if line:
                yield line
            line, is_directive, word = [], True, "#"
        elif is_directive and len(line) == 2 and line[1] in {"include", "include_next"} and word == "<":
            header = _INCLUDED.match(text, found.start())
            if header is not None:
                word, at = header[0], header.end()
        elif is_directive and line[1:] == ["define"] and _MACRO_WITH_ARGUMENTS.match(text, found.start()):
            # This is a macro with arguments. The bracket belongs to its name, because no space precedes it.
            word, at = f"{word}(", at + 1
        line.append(word if found["raw"] else _CONTINUED.sub("", word))
        at_line_start = False
    if line:
        yield line


def python_tokens(text: str) -> str:
    """Return the syntax tree of a Python source as JSON, without docstrings and other strings without effect.

    Raises:
        SyntaxError: the text is not valid Python.
    """
    return json.dumps(_tree(ast.parse(text)))


def _tree(node: object) -> object:
    """Convert a syntax tree to lists and strings.

    Empty fields, the context of names, the kind of constants, and statements that consist of a string are left out.
    """
    if isinstance(node, ast.AST):
        fields = [[name, _tree(value)] for name, value in ast.iter_fields(node) if name not in {"ctx", "kind"}]
        return [type(node).__name__, *[field for field in fields if field[1] not in (None, [])]]
    if isinstance(node, list):
        return [_tree(part) for part in node if not _is_text_alone(part)]
    return None if node is None else f"{type(node).__name__} {node!r}"


def _is_text_alone(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _make_tokens(text: str) -> str:
    lines = [line.strip() for line in _CONTINUED.sub(" ", text).splitlines()]
    return "\n".join(" ".join(line.split()) for line in lines if line and not line.startswith("#"))


def tokens_of(name: str, text: str) -> str:
    """Return the tokens of a source. The suffix of its name decides how they are found."""
    suffix = Path(name).suffix
    if suffix in C_SUFFIXES:
        return c_tokens(text)
    return python_tokens(text) if suffix == ".py" else _make_tokens(text)


def digest_of_texts(texts: Mapping[str, str]) -> str:
    """Return the sha256 (hex) of the names and tokens of sources. texts: source by name."""
    tokens = {name: tokens_of(name, text) for name, text in texts.items()}
    return hashlib.sha256(json.dumps(tokens, sort_keys=True).encode()).hexdigest()


def engine_sources(root: Path) -> list[Path]:
    """Return the files below the repository's root that the engine is compiled from."""
    return sorted(path for folder, patterns in _ENGINE for each in patterns for path in (root / folder).glob(each))


def engine_sources_digest(root: Path) -> str:
    """Return the sha256 (hex) of the engine's sources."""
    return digest_of_texts(
        {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in engine_sources(root)}
    )


def main(root: Path, header: Path) -> None:
    """Write the header that the engine is compiled with."""
    lines = ("#pragma once", f'#define CCATUNE_SOURCES_DIGEST "{engine_sources_digest(root)}"')
    text = "".join(f"{line}\n" for line in lines)
    if not header.exists() or header.read_text(encoding="utf-8") != text:
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
