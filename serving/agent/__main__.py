# SPDX-License-Identifier: MIT
"""`python -m serving.agent` is `ccatune-agent`."""

from serving.agent.cli import main

main()
