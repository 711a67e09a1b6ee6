# SPDX-License-Identifier: MIT
"""Ensembles: each is published once and stored unchanged under its digest."""
