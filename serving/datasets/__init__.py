# SPDX-License-Identifier: MIT
"""Datasets: recordings of links that runners have, each under a name.

The registry has no recordings. It knows the names that its settings list, and what runners say of theirs.

endpoints.py, service.py, repository.py, schemas.py   the registry's part
facts.py                                              the runner's part: figures of the recordings in a folder
"""
