# SPDX-License-Identifier: MIT
"""Agents: the latest report of each agent on the table that is in force in its kernel."""
