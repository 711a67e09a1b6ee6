# SPDX-License-Identifier: MIT
"""The commands of the registry and of its clients."""
