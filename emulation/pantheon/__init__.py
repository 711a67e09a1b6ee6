# SPDX-License-Identifier: MIT
"""Pantheon's protocol and formats: runs schemes over emulated links, and reads, writes and reports data folders."""
