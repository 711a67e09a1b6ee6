# SPDX-License-Identifier: MIT
"""The kernel side: the algorithms (core/), and their interface for Python code (abi, ensemble)."""
