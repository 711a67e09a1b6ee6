# SPDX-License-Identifier: MIT
"""How far the network of a channel's flows has moved from the network on which its ensemble was trained."""
