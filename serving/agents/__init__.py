# SPDX-License-Identifier: MIT
"""Agents: what each last said of the table that its kernel runs."""
