#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reno of the QUIC library quic-go: quic_go.py VERB ... (verbs: _scheme.py).

The library has code for CUBIC, but creates each connection with Reno and offers no setting for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.pantheon.wrappers import _go_program, _scheme
else:
    import _go_program
    import _scheme

if __name__ == "__main__":
    SCHEME = _go_program.scheme("quic-go-reno", folder="quic_go", purpose="quic-go 0.65.0")
    _scheme.main(SCHEME, sys.argv[1:])
