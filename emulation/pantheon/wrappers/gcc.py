#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Google Congestion Control (GCC) of the WebRTC library pion, for a synthetic encoder: gcc.py VERB ...

The verbs are those of _scheme.py. programs/gcc/main.go describes the encoder and where it differs from a browser.
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
    SCHEME = _go_program.scheme("pion-gcc", folder="gcc", purpose="pion/interceptor 0.1.51")
    _scheme.main(SCHEME, sys.argv[1:])
