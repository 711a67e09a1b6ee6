# SPDX-License-Identifier: MIT
"""Judges ensembles on data that they were not trained on."""
