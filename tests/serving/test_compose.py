# SPDX-License-Identifier: MIT
"""docker-compose.yml: its form, what its safety rests on, and that each service's command line starts

Containers are not built here: `make prove ARGS=compose` does it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import yaml

from kmod.ensemble import write_atomically
from serving.agent.connection import TlsFiles
from serving.client import RegistryClient
from tests.serving.process import START_S

pytestmark = pytest.mark.service

SETUP = "packaging/compose/setup.py"
# Services for a moment, which an operator runs by hand, as root without capabilities.
BY_HAND = {"cli", "setup"}


@pytest.fixture(scope="module")
def compose(repository) -> dict[str, Any]:
    """The compose file."""
    found: dict[str, Any] = yaml.safe_load((repository / "docker-compose.yml").read_text(encoding="utf-8"))
    return found


def test_compose_has_the_form_that_the_specification_states(repository, compose):
    schema = repository / "build" / "compose" / "compose-spec.json"
    if not schema.exists():
        pytest.skip("not installed: the schema of compose files, which `make setup` fetches with go")
    jsonschema.Draft7Validator(json.loads(schema.read_bytes())).validate(compose)


def test_compose_limits_what_each_container_may_do(compose):
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert (service["user"] == "0:0") == (name in BY_HAND), name
        assert bool(service.get("cap_add")) == (name == "setup"), name
        assert name not in BY_HAND or service["profiles"], name


def test_compose_keeps_secrets_in_files_and_names_each_that_a_service_reads(compose):
    for name, service in compose["services"].items():
        for variable, value in (service.get("environment") or {}).items():
            is_secret = re.search("PASSWORD|TOKEN|SECRET|KEY", variable) and "MODE" not in variable
            assert not is_secret or str(value).startswith("/run/secrets/"), f"{name}: {variable}"
        words = json.dumps([service.get(key) for key in ("command", "entrypoint", "environment")])
        assert set(re.findall(r"/run/secrets/([\w.-]+)", words)) <= set(service.get("secrets", ())), name
        assert set(service.get("secrets", ())) <= compose["secrets"].keys(), name


def test_compose_lets_others_reach_the_proxy_alone(compose):
    ports = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert not ports.pop("proxy")[0].startswith("127.0.0.1:")
    assert all(port.startswith("127.0.0.1:") for own in ports.values() for port in own)
    for name, members in (("database", {"postgres", "migrate", "api", "controller"}), ("cluster", None)):
        assert compose["networks"][name] == {"internal": True}
        inside = {one for one, service in compose["services"].items() if name in service.get("networks", ())}
        assert members is None or inside == members


def test_compose_and_dockerfile_name_exact_versions(repository, compose):
    images = {service["image"] for service in compose["services"].values()} - {"ccatune-server", "ccatune-trainer"}
    text = (repository / "Dockerfile").read_text(encoding="utf-8")
    images |= set(re.findall(r"^FROM (\S+:\S+)", text, re.MULTILINE))
    assert all(re.search(r":v?\d+\.\d+(\.\d+)?(-[a-z-]+)?$", image) for image in images), images
    own = {service["image"] for service in compose["services"].values()} - images
    assert all(s["pull_policy"] == "never" for s in compose["services"].values() if s["image"] in own)


def test_the_images_hold_all_that_they_run(repository):
    ignored = (repository / ".dockerignore").read_text(encoding="utf-8").splitlines()
    wanted = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    lines = (repository / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    copied = {word.replace("wheel[s]", "wheels") for row in words for word in row}
    within = {path for path in copied for folder in wanted if path.startswith(f"{folder}/")}
    assert copied - within == wanted
    assert all((repository / path).exists() for path in copied - {"build/wheels"})


class Services:
    """The services' command lines, run as processes, with the paths of a test and PostgreSQL's own address."""

    def __init__(self, repository: Path, compose: dict[str, Any], folder: Path, database_url: str) -> None:
        self.folder = folder
        self.secrets = folder / "secrets"
        self._repository = repository
        self._compose = compose
        for name in ("runner", "stand-in"):
            (folder / name).mkdir()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._url = ""
        registry = yaml.safe_load((repository / "configs/serving/compose.yaml").read_text(encoding="utf-8"))
        registry |= {"database_url": database_url, "host": "127.0.0.1", "port": 0, "database_connections": 4}
        registry["studies"] = str(repository / "configs" / "studies")
        write_atomically(folder / "registry.yaml", json.dumps(registry).encode())

    def words(self, name: str) -> list[str]:
        """The command line of a service."""
        service = self._compose["services"][name]
        entry = service.get("entrypoint", ["python", "-m", "ccatune"])
        # The runner's shell joins the cluster first.
        entry = ["python", "-m", "ccatune"] if entry[0] == "sh" else entry
        places = {
            "/run/secrets": str(self.secrets), "/secrets": str(self.secrets), "https://proxy:8443": self._url,
            "/etc/ccatune/registry.yaml": str(self.folder / "registry.yaml"), "/recordings": str(self.folder),
            "/opt/ccatune/setup.py": str(self._repository / SETUP), "/var/lib/ccatune": str(self.folder / name),
        }  # fmt: skip
        found = [sys.executable if word == "python" else word for word in [*entry, *service.get("command", ())]]
        for old, new in places.items():
            found = [new + word.removeprefix(old) if word.startswith(old) else word.replace(f"={old}", f"={new}")
                     for word in found]  # fmt: skip
        return found

    def run(self, name: str, *further: str) -> str:
        """Run a service to its end, and return its output."""
        environment = {**os.environ, "PYTHONPATH": str(self._repository), "CCATUNE_REGISTRY_URL": self._url,
                       "CCATUNE_CA_FILE": str(self.secrets / "ca.pem"),
                       "CCATUNE_TOKEN_FILE": str(self.secrets / "admin-token")}  # fmt: skip
        done = subprocess.run(
            [*self.words(name), *further], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, stack: ExitStack, name: str, *further: str) -> None:
        """Start a service, and stop it at the end of the stack."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.words(name), *further], cwd=self.folder, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": str(self._repository)},
            )  # fmt: skip

        def stop() -> None:
            process.terminate()
            assert process.wait(START_S) == 0, self.log(name)

        self._processes[name] = process
        stack.callback(stop)

    def url_of(self, name: str) -> str:
        """Wait until a process of the registry answers, and return its URL."""
        ready = self.folder / f"{name}.url"
        self.wait(name, ready.exists)
        url = ready.read_text(encoding="ascii").strip()
        self._url = url.replace("127.0.0.1", "localhost")
        return self._url

    def log(self, name: str) -> str:
        """What a service has printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def wait(self, name: str, look: Any) -> Any:
        """Wait until the look finds something, while the service runs."""
        pause = threading.Event()
        for _ in range(START_S * 10):
            if found := look():
                return found
            assert self._processes[name].poll() is None, self.log(name)
            pause.wait(0.1)
        raise AssertionError(self.log(name))


@pytest.mark.parametrize("new_database_url", ["postgresql"], indirect=True)
def test_every_command_line_of_compose_starts(repository, compose, new_database_url, tmp_path):
    services = Services(repository, compose, tmp_path, new_database_url(migrated=False))
    assert "made registry-key" in services.run("setup")
    # Its group is the one of the container. The reader is root here, for whom that would be too many.
    (services.secrets / "registry-key").chmod(0o600)
    assert services.run("migrate") == "registry ccatune: the database is ready\n"
    tls = ("--tls-cert-file", str(services.secrets / "tls.pem"), "--tls-key-file", str(services.secrets / "tls-key"))
    with ExitStack() as stack:
        for name, further in (("controller", ()), ("api", tls)):
            services.start(stack, name, "--ready-file", str(tmp_path / f"{name}.url"), *further)
        controller, url = services.url_of("controller"), services.url_of("api")
        assert httpx.get(f"{controller.replace('localhost', '127.0.0.1')}/readyz").json()["registry"] == "ccatune"
        services.start(stack, "stand-in")
        assert services.run("runner", "--once").split() == ["jobs", "0"]
        token = (services.secrets / "admin-token").read_text(encoding="ascii").strip()
        ca = TlsFiles(ca_file=str(services.secrets / "ca.pem"))
        with RegistryClient(url, token=token, tls=ca) as client:
            services.wait("stand-in", lambda: [row["state"] for row in client.agents()] == ["NoChannel"])
            # The runner has asked for a job, so its token was used.
            assert {row["principal"] for row in client.tokens()} == {"admin", "prometheus", "runner", "stand-in"}
        assert json.loads(services.run("cli", "root", "fetch", "--out", "root.json", "--json"))["version"] == 1


def test_the_health_check_of_the_registry_finds_one_that_answers_and_one_that_does_not(compose):
    words = compose["services"]["api"]["healthcheck"]["test"]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        program = words[3].replace("8640", str(nobody.getsockname()[1]))
        assert words[:3] == ["CMD", "python", "-c"]
        assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 1
