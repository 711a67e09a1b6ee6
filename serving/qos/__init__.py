# SPDX-License-Identifier: MIT
"""The quality of service that flows had: sums by deployment, group, class and state, from the agents' reports."""
