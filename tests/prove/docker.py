# SPDX-License-Identifier: MIT
"""Docker for a campaign, on a machine without a daemon, without Compose, and whose builds have no network.

    programs   docker.io, containerd, runc and tini of Debian, unpacked; Compose, built from the Go module proxy
    daemon     in mount, network and process namespaces of its own, so that nothing of it remains when the campaign ends
    images     those that docker-compose.yml pulls: Debian's packages under their names (tests/prove/images)
    wheels     of requirements/trainer.lock in build/wheels, for builds without a network

All but the wheels is kept in <cache>/containers ($CCATUNE_CACHE or ~/.cache/ccatune), where the images take some
gigabytes. The first run takes 10 minutes more than the next ones.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = Path(__file__).with_name("images")
CACHE = Path(os.environ.get("CCATUNE_CACHE") or Path.home() / ".cache" / "ccatune") / "containers"
INSIDE = "CCATUNE_DOCKER_INSIDE"
COMPOSE = "github.com/docker/compose/v2/cmd@v2.40.3"
DEBIAN = "bookworm"
PACKAGES = ("docker.io", "containerd", "runc", "tini")
SLIM = ("python3", "ca-certificates")
COMPILING = ("python3-venv", "python3-dev", "g++", "make")
FULL = (*SLIM, *COMPILING, "postgresql-15", "nginx-light", "curl", "prometheus", "procps")
START_S = 30.0


class DockerError(Exception):
    """A program of Docker failed; the message says which, and what it said."""


class Docker:
    """The client of the daemon. environment: variables of docker-compose.yml."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = {**os.environ, **paths(), **environment}

    def run_bytes(self, *words: str | Path, stdin: bytes | None = None, within_s: float = 1800) -> bytes:
        """Run `docker WORDS`, and return its output. Raises DockerError where it fails."""
        command = ["docker", *map(str, words)]
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=self.environment,
            input=stdin,
            capture_output=True,
            timeout=within_s,
            check=False,
        )
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise DockerError(f"{' '.join(command[:6])} exits {done.returncode}: {said[-3000:]}")
        return done.stdout

    def run(self, *words: str | Path) -> str:
        """Run `docker WORDS`, and return the text of its output."""
        return self.run_bytes(*words).decode()

    def compose(self, *words: str | Path, stdin: bytes | None = None) -> bytes:
        """Run `docker compose WORDS`, and return its output."""
        return self.run_bytes("compose", *words, stdin=stdin)

    def has_image(self, name: str) -> bool:
        """Whether there is an image of this name."""
        return bool(self.run("image", "ls", "--quiet", name).strip())


def paths() -> dict[str, str]:
    """Where the unpacked programs are. The old builder needs no further program."""
    programs = CACHE / "programs"
    found = f"{programs}/usr/bin:{programs}/usr/sbin:{os.environ['PATH']}"
    client = {"DOCKER_HOST": f"unix://{CACHE}/docker.sock", "DOCKER_CONFIG": str(CACHE / "client")}
    return {"PATH": found, **client, "DOCKER_BUILDKIT": "0"}


def enter_namespaces(module: str) -> None:
    """Run the program anew in namespaces of its own, which end with it, and exit as it does. Needs root."""
    if os.environ.get(INSIDE):
        return
    fetch()
    kinds = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    apart = ["unshare", *kinds, sys.executable, "-m", module]
    sys.exit(subprocess.run([*apart, *sys.argv[1:]], env={**os.environ, INSIDE: "1"}, check=False).returncode)


def fetch() -> None:
    """Fetch and build what the cache lacks. Only this part needs a network."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _part("programs") as folder:
        if folder:
            _call("apt-get", "-qq", "download", *PACKAGES, cwd=folder)
            for package in folder.glob("*.deb"):
                _call("dpkg", "-x", package, folder)
                package.unlink()
    with _part("client") as folder:
        if folder:
            (folder / "cli-plugins").mkdir()
            _build_compose(folder / "module", folder / "cli-plugins" / "docker-compose")
    for name, included in (("slim", SLIM), ("full", FULL)):
        with _part(name) as folder:
            if folder:
                words = ("--quiet", "--variant=minbase", f"--include={','.join(included)}", DEBIAN)
                _call("mmdebstrap", *words, folder / "root.tar")
    wheels = REPOSITORY / "build" / "wheels"
    lock = REPOSITORY / "requirements" / "trainer.lock"
    if not (stamp := wheels / lock.name).exists() or stamp.read_bytes() != lock.read_bytes():
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
        _call(*pip, "--require-hashes", "-r", lock, "-d", wheels)
        stamp.write_bytes(lock.read_bytes())


@contextmanager
def daemon(environment: Mapping[str, str]) -> Iterator[Docker]:
    """A running daemon with the images that docker-compose.yml pulls."""
    _call("ip", "link", "set", "lo", "up")
    _call("sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1")
    docker = Docker(environment)
    with (CACHE / "lock").open("w") as lock, (CACHE / "daemon.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        places = ("--data-root", CACHE / "data", "--exec-root", CACHE / "exec", "--pidfile", CACHE / "daemon.pid")
        (CACHE / "daemon.pid").unlink(missing_ok=True)
        process = subprocess.Popen(
            ["dockerd", *map(str, places), "--host", docker.environment["DOCKER_HOST"]],
            stdout=log, stderr=log, env=docker.environment,
        )  # fmt: skip
        try:
            _wait_for(docker, process)
            _import_images(docker)
            yield docker
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(docker: Docker, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + START_S
    while True:
        try:
            docker.run("version")
        except DockerError as error:
            if process.poll() is not None or time.monotonic() > end_s:
                raise DockerError(f"dockerd does not answer; see {CACHE / 'daemon.log'}") from error
            time.sleep(0.2)
        else:
            return


def _import_images(docker: Docker) -> None:
    """Give Debian's packages the names of the images in Dockerfile and docker-compose.yml."""
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    compose = (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
    python = sorted(set(re.findall(r"^FROM (python:\S+)", dockerfile, re.MULTILINE)), key=lambda name: "slim" in name)
    for name, root in zip(python, ("full", "slim"), strict=True):
        if not docker.has_image(name):
            docker.run("import", CACHE / root / "root.tar", name)
    docker.run("tag", python[0], "ccatune-debian")
    for target in ("postgres", "nginx", "prometheus"):
        name = re.search(rf"image: (\S*{target}:\S+)", compose)
        assert name is not None
        docker.run("build", "--target", target, "--tag", name[1], IMAGES)


@contextmanager
def _part(name: str) -> Iterator[Path | None]:
    """A new folder of the cache, which gets its name when it is complete; None where there is one of that name."""
    if (CACHE / name).exists():
        yield None
        return
    made = CACHE / f"{name}.{os.getpid()}"
    made.mkdir()
    yield made
    made.rename(CACHE / name)


def _build_compose(module: Path, program: Path) -> None:
    """Build Compose as a tool of a module of its own: it cannot be installed by itself."""
    module.mkdir()
    (module / "go.mod").write_text("module compose\n\ngo 1.24\n", encoding="ascii")
    _call("go", "get", "-tool", COMPOSE, cwd=module)
    _call("go", "build", "-trimpath", "-o", program, COMPOSE.partition("@")[0], cwd=module)


def _call(*words: str | Path, cwd: Path = REPOSITORY) -> None:
    done = subprocess.run(["nice", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DockerError(f"{' '.join(map(str, words[:3]))} exits {done.returncode}: {done.stderr[-3000:]}")


def lines(text: str) -> Sequence[str]:
    """The lines of an output that are not empty."""
    return [line for line in text.splitlines() if line.strip()]
