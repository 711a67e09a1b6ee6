# SPDX-License-Identifier: MIT
"""Channels: names that point to an ensemble; every move is a deployment with a serial of its own."""
