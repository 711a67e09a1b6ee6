# SPDX-License-Identifier: MIT
"""Runs in the guest: works through the jobs of the shared folder over real links, one after the other.

It uses the standard library alone. `jobs.json` holds {"modules": [.ko...], "launch": [words that start a run], "jobs":
[...]}. The result of job n is written to `result-n.json` as soon as it exists.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

SHARE = Path(os.environ["CCATUNE_SHARE"])
# For Mahimahi, for policers (nft_limit) and for BBR (tcp_bbr).
KERNEL_MODULES = ("tun", "nf_tables", "nft_compat", "nft_limit", "xt_MASQUERADE", "nf_nat", "tcp_bbr")


def run(words: list[str], job: object) -> str:
    """Return the line that a run printed, or an error with its error output if it printed none."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdin and started.stdout and started.stderr  # noqa: S101, PT018 - pipes, for the type checker
        started.stdin.write(json.dumps(job).encode() + b"\n")
        started.stdin.flush()
        # The run would end with its standard input, so the input stays open until the output is complete.
        said = started.stdout.read().decode()
        complaint = started.stderr.read().decode(errors="replace").strip()
    return said or json.dumps({"error": f"expected a result of the run, got status {started.returncode} {complaint}"})


def main() -> None:
    """Load the modules and run the jobs."""
    work = json.loads((SHARE / "jobs.json").read_text(encoding="utf-8"))
    subprocess.run(["modprobe", "-a", *KERNEL_MODULES], check=True)
    for module in work["modules"]:
        subprocess.run(["insmod", module], check=True)
    for number, job in enumerate(work["jobs"]):
        text = run(work["launch"], job)
        part = SHARE / f"result-{number}.part"
        part.write_text(text, encoding="utf-8")
        part.rename(SHARE / f"result-{number}.json")


if __name__ == "__main__":
    main()
