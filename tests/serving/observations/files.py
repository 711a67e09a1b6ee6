# SPDX-License-Identifier: MIT
"""Files of observations for tests of the registry."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from dataclasses import asdict

from kmod.observations import VERSION, Facts


def made_file(number: int = 0, *, more_bytes: int = 0) -> tuple[str, bytes]:
    """A digest, and a file that begins at this second, of at least so many bytes."""
    facts = Facts(every_ms=200, find_s=5, share=1, addresses="")
    own = {"session": f"{number:x}", "file": 0, "start_s": number, "begin_us": 0, "columns": {}, "missing": []}
    head = json.dumps({"observations": VERSION, **asdict(facts), **own}).encode("ascii")
    content = gzip.compress(head + b"\nt 1\n" + random.Random(number).randbytes(more_bytes).hex().encode(), mtime=0)
    return f"sha256:{hashlib.sha256(content).hexdigest()}", content
