# SPDX-License-Identifier: MIT
"""Channels: names that point to an ensemble. Every move of a channel is a deployment with its own serial."""
