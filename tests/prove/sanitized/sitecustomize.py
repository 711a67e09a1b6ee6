# SPDX-License-Identifier: MIT
"""Puts another build of the engine in place of the working copy's: $CCATUNE_ENGINE, a file.

Python imports this by itself where the folder is on PYTHONPATH, so processes that tests start get it too.
"""

import importlib.util
import os
import sys
from importlib.machinery import ExtensionFileLoader


class _Finder:
    """Finds emulation._engine, and nothing else."""

    @staticmethod
    def find_spec(name, _path=None, _target=None):  # type: ignore[no-untyped-def]
        if name != "emulation._engine":
            return None
        path = os.environ["CCATUNE_ENGINE"]
        return importlib.util.spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
