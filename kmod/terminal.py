# SPDX-License-Identifier: MIT
"""Prints texts for people. Names of files, schemes and registries may contain any character, so none controls the
terminal: control and formatting characters, such as ESC, and bytes that are not UTF-8 are printed as escapes.

Commands print with `echo` and with emulation.printing.as_written, which use `visible`. A linter refuses other ways.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

# The width of a line of text where the terminal's does not matter.
COLUMNS = 80


def visible(text: str) -> str:
    """Return the text with escapes in place of all characters that a terminal would not print, such as ESC."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and what it counts, such as "1 file" or "2 files". many: None for a plural that ends in s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def listed(names: Sequence[str], *, most: int) -> str:
    """Return the first names with commas between them, and dots if there are more."""
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")


def echo(text: object = "", *, err: bool = False) -> None:
    """Print lines of text to stdout, or to stderr."""
    stream = sys.stderr if err else sys.stdout
    stream.write("\n".join(map(visible, str(text).split("\n"))) + "\n")
    stream.flush()


def echo_wrapped(text: str) -> None:
    """Print an empty line and then the text, in lines of at most COLUMNS characters."""
    import textwrap  # not needed by the agent, whose start it would delay

    echo("\n" + textwrap.fill(text, COLUMNS, break_on_hyphens=False, break_long_words=False))
