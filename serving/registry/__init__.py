# SPDX-License-Identifier: MIT
"""The registry as an application: its resources under one address, and the server that runs it."""
