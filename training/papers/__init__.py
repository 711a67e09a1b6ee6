# SPDX-License-Identifier: MIT
"""The papers' own experiments and statements, reproduced beside the simulator's figures. Nothing else imports them."""
