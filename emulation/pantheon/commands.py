# SPDX-License-Identifier: MIT
"""All commands of `ccatune pantheon`."""

from emulation.pantheon.cli import pantheon
from emulation.pantheon.report_command import analyze, report
from emulation.pantheon.run_command import test

assert {analyze.name, report.name, test.name} <= pantheon.commands.keys()  # noqa: S101 (the import of a command adds it)
