# SPDX-License-Identifier: MIT
"""The input of a run: scenarios, their files, paths and applications."""
