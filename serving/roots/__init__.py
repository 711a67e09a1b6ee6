# SPDX-License-Identifier: MIT
"""Root documents: each version names the keys that may sign root documents, ensembles and deployments."""
