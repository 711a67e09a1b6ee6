# SPDX-License-Identifier: MIT
"""The HTTP server of the registry: what stands between a socket and the endpoints."""
