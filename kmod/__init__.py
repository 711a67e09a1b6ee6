# SPDX-License-Identifier: MIT
"""The kernel side: algorithms (core/), and the contract that the rest sees (abi, ensemble)."""
