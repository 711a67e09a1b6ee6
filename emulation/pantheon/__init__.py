# SPDX-License-Identifier: MIT
"""Pantheon's protocol and formats: runs its schemes over emulated links, reads and writes its folders, reports them."""
