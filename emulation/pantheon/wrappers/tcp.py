# SPDX-License-Identifier: MIT
"""The kernel's TCP as schemes of Pantheon: tcp.py CCA [--priority N] VERB ...

The sender has data without end and prints its tcp_info each second (emulation/mahimahi/namespace/traffic.py). The
algorithm has to be available in the kernel. `ccatune pantheon test` loads those of ccatune in BPF for its runs. With an
ensemble a socket's priority chooses the delay class.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

TRAFFIC = Path(__file__).resolve().parents[2] / "mahimahi" / "namespace" / "traffic.py"
SECONDS = "3600"


def main() -> None:
    """Answer a verb of Pantheon's protocol."""
    parser = argparse.ArgumentParser(description="The kernel's TCP as a scheme of Pantheon.")
    parser.add_argument("cca", help="the algorithm, by the kernel's name")
    parser.add_argument("--priority", default="", help="the priority of the sender's socket")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("deps", "run_first", "setup", "setup_after_reboot"):
        verbs.add_parser(name)
    verbs.add_parser("receiver").add_argument("port")
    sender = verbs.add_parser("sender")
    sender.add_argument("address")
    sender.add_argument("port")
    given = parser.parse_args()
    start = [sys.executable, "-I", "-S", str(TRAFFIC)]
    if given.verb == "run_first":
        print("receiver")  # noqa: T201 - the protocol
    elif given.verb == "receiver":
        os.execv(start[0], [*start, "receive", "--host", "0.0.0.0", "--port", given.port, "--seconds", SECONDS])  # noqa: S104, S606
    elif given.verb == "sender":
        words = [*start, "send", "--host", given.address, "--port", given.port, "--cca", given.cca]
        words += ["--seconds", SECONDS, "--sample", "1", *(["--priority", given.priority] if given.priority else [])]
        os.execv(words[0], words)  # noqa: S606


if __name__ == "__main__":
    main()
