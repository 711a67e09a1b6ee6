# SPDX-License-Identifier: MIT
"""Tables and pictures made from the figures of training."""
