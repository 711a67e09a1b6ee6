# SPDX-License-Identifier: MIT
"""Entity tags"""

from __future__ import annotations

import pytest

from serving.http.etags import matches_strongly, matches_weakly


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (None, False),
        ("", False),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ('"b"', False),
        ("a", False),
        (" * ", True),
    ],
)
def test_if_none_match_compares_weakly(header, matches):
    assert matches_weakly(header, '"a"') is matches


@pytest.mark.parametrize(
    ("header", "matches"),
    [("", False), ('"a"', True), ('W/"a"', False), ('W/"a", "a"', True), ('"b"', False), ("a", False)],
)
def test_if_match_compares_strongly(header, matches):
    assert matches_strongly(header, frozenset({'"a"'})) is matches
