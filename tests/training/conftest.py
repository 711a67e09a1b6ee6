# SPDX-License-Identifier: MIT
"""What the tests of training share."""

from __future__ import annotations

import sys
from pathlib import Path

# Test modules are imported by path; their helpers lie beside them.
sys.path.insert(0, str(Path(__file__).parent))
