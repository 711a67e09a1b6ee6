# SPDX-License-Identifier: MIT
"""The registry of ensembles with its API, and the agent that applies them on a server."""
