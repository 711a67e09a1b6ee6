# SPDX-License-Identifier: MIT
"""Ensembles: published once, kept unchanged under their digest."""
