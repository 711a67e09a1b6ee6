# SPDX-License-Identifier: MIT
"""Validates ensembles on data that they were not trained on."""
