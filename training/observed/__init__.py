# SPDX-License-Identifier: MIT
"""Flows that were observed on live networks: read them, judge them, and rebuild the links that they crossed."""
