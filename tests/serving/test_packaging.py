# SPDX-License-Identifier: MIT
"""What the smaller installations rest on: the registry, the demo, and the images of docker-compose.yml"""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_the_registry_needs_neither_the_engine_nor_what_training_needs(repository):
    program = (
        "import sys, serving.commands.serve, serving.registry.server; "
        "loaded = {name.split('.')[0] for name in sys.modules}; "
        "print(*sorted(loaded & {'numpy', 'matplotlib', 'emulation', 'training'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def pins(repository, name: str) -> set[str]:
    """The packages of a lock file with their versions."""
    lines = (repository / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return {line.split(" ")[0] for line in lines if "==" in line}


@pytest.mark.parametrize("name", ["demo.lock", "serving.lock", "server.lock", "trainer.lock"])
def test_the_demo_the_containers_and_the_package_have_the_versions_that_the_tests_run_with(repository, name):
    assert pins(repository, name)
    assert pins(repository, name) <= pins(repository, "dev.lock")


def test_the_demo_needs_none_of_the_large_packages_that_make_demo_leaves_out(repository):
    large = {"ax", "botorch", "gpytorch", "optuna", "pandas", "pyarrow", "ray", "torch"}
    program = (
        "import sys, serving.commands.demo, serving.commands.demo_kernel, emulation.cli, emulation.run.plot, "
        "training.commands, training.validation.recordings, training.reports.gain; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True)
    assert not large & set(done.stdout.split())
    assert not large & {pin.partition("==")[0] for pin in pins(repository, "demo.lock")}
