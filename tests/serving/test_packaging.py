# SPDX-License-Identifier: MIT
"""What the container of the registry rests on (containers themselves are not built here)"""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml


@pytest.fixture
def compose(repository):
    """The compose file."""
    return yaml.safe_load((repository / "docker-compose.yml").read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("name", ["demo.lock", "serving.lock", "server.lock"])
def test_the_demo_the_container_and_the_package_have_the_versions_that_the_tests_run_with(repository, name):
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


def test_the_container_holds_all_that_it_runs(repository):
    wanted = {line.removeprefix("!") for line in (repository / ".dockerignore").read_text().splitlines() if "!" in line}
    copied = {line.split()[1] for line in (repository / "Dockerfile").read_text().splitlines() if "COPY" in line}
    assert copied == wanted
    assert all((repository / path).exists() for path in copied)


def test_compose_has_no_password_that_works(compose):
    for name, variable in (("api", "PGPASSWORD"), ("postgres", "POSTGRES_PASSWORD")):
        assert compose["services"][name]["environment"][variable] == "${POSTGRES_PASSWORD:?set it}"
    assert ":" not in compose["services"]["api"]["environment"]["CCATUNE_DATABASE_URL"].removeprefix("postgresql://")


def test_compose_serves_with_accounts(compose):
    assert "--open" not in compose["services"]["api"]["command"]


def test_compose_shows_the_api_to_this_machine_alone_and_the_database_to_nobody(compose):
    assert compose["services"]["api"]["ports"] == ["127.0.0.1:8640:8640"]
    assert "ports" not in compose["services"]["postgres"]
