# SPDX-License-Identifier: MIT
"""What the tests of R-TCP's training share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small import RECORDINGS, small

from kmod.ensemble import Ensemble
from training.rtcp import RtcpStudy


@pytest.fixture(scope="package")
def trained() -> Ensemble:
    """What the small study gives."""
    return RtcpStudy(small(), RECORDINGS, threads=2).run()
