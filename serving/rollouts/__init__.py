# SPDX-License-Identifier: MIT
"""Roll-outs: a channel moves to a candidate in steps, as long as the servers that have it show no harm."""
