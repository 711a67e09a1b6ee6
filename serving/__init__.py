# SPDX-License-Identifier: MIT
"""The registry of ensembles with its API, and the agent that applies ensembles on a server."""
