# SPDX-License-Identifier: MIT
"""The whole service of docker-compose.yml, for real: it is built, started, used, restored, and started again.

    build, setup, up      two replicas, the controller, a Ray cluster with two workers, nginx, an agent on a stand-in
    hardened              every container has a read-only root, no capability, no secret in its environment
    pages                 through the proxy, with a link for the first person
    first table           signed, published, and in force on the agent
    roll-out              promoted by the controller over sixteen agents, while a replica is killed
    job                   trained on the workers of the cluster
    figures               Prometheus has those of every replica and of the controller
    backup, restore       by the commands of docs/operate.md
    secrets               certificate, tokens and password are replaced
    down, up              no serial, agent, token, job or row of the audit log is lost

Grafana's image cannot be had here, so it is not started. Needs root. Example: python -m tests.prove.compose
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import httpx

from tests.prove.docker import Docker, DockerError, daemon, enter_namespaces, lines
from tests.prove.guarded import free_port, make_ensemble
from tests.prove.kill_trainer import STUDY, ShortfallError, make_site
from tests.prove.rolling_fleet import RollingFleet

WAIT_S = 180.0
AS = ("--username=ccatune",)
OFFLINE = ("--volume", "{secrets}/offline:/offline:ro")
# What `up` starts, and how many of each.
SCALE = ("--scale", "ray-worker=2")
ONCE = ("controller", "postgres", "proxy", "ray-head", "runner", "stand-in")
# Processes of Ray's own on each node.
NO_TASKS = {"IDLE", "DashboardAgent", "RuntimeEnvAgent"}
RUNNING = {"api": 2, "ray-worker": 2, **dict.fromkeys(ONCE, 1)}


class Site:
    """The folder of an operator, and the service."""

    def __init__(self, docker: Docker, folder: Path, port: int) -> None:
        self.docker = docker
        self.folder = folder
        self.secrets = folder / "secrets"
        self.url = f"https://localhost:{port}"
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the time."""
        click.echo(f"{time.monotonic() - self._began_s:6.0f} s  {text}")

    def compose(self, *words: str | Path, stdin: bytes | None = None) -> str:
        """Run `docker compose`, and return the text of its output."""
        return self.docker.compose("--profile", "stand-in", *words, stdin=stdin).decode()

    def cli(self, *words: str | Path, options: tuple[str, ...] = ()) -> Any:
        """Run a command of the operator in the container `cli`, and return its JSON."""
        found = self.compose("run", "--rm", "--no-TTY", *options, "cli", *words, "--json")
        return json.loads(found)

    def up(self, *options: str) -> None:
        """Start everything, and wait until it is healthy."""
        self.compose("up", "--detach", "--wait", "--wait-timeout", "300", *SCALE, *options)

    def down(self, *options: str) -> None:
        """Remove all containers, also those of profiles."""
        self.docker.compose("--profile", "*", "down", *options)

    def wait(self, what: str, look: Callable[[], Any]) -> Any:
        """Wait until the look finds something, and return it."""
        end_s = time.monotonic() + WAIT_S
        while not (found := look()):
            if time.monotonic() > end_s:
                raise ShortfallError(f"expected {what} within {WAIT_S:g} s")
            time.sleep(1.0)
        return found

    def containers(self) -> list[dict[str, Any]]:
        """What the daemon says of the containers that run."""
        ids = lines(self.docker.run("ps", "--quiet", "--filter", "label=com.docker.compose.project=ccatune"))
        found: list[dict[str, Any]] = json.loads(self.docker.run("inspect", *ids))
        return found

    def http(self) -> httpx.Client:
        """A client outside of the containers, with the token of the administrator."""
        token = (self.secrets / "admin-token").read_text(encoding="ascii").strip()
        trusted = ssl.create_default_context(cafile=str(self.secrets / "ca.pem"))
        return httpx.Client(base_url=self.url, verify=trusted, timeout=10, headers={"Authorization": f"Bearer {token}"})


def service_of(container: dict[str, Any]) -> str:
    """The name in docker-compose.yml."""
    return str(container["Config"]["Labels"]["com.docker.compose.service"])


def start(site: Site, *, builds: bool) -> None:
    """Build the images, make the secrets, start everything."""
    site.down("--volumes")
    if builds:
        site.docker.compose("build", "--build-arg", "PIP_NO_INDEX=1")
        site.say("both images are built")
    made = site.compose("run", "--rm", "--no-TTY", "setup")
    site.say(f"setup: {len(lines(made)) - 1} secrets")
    site.up()
    running = [service_of(one) for one in site.containers()]
    counts = {name: running.count(name) for name in sorted(set(running))}
    if counts != RUNNING:
        raise ShortfallError(f"expected {RUNNING}, got {counts}")
    site.say(f"up and healthy: {', '.join(f'{number} {name}' for name, number in counts.items())}")


def check_hardening(site: Site) -> None:
    """Look for roots that can be written, capabilities, and secrets outside of their files."""
    secrets = {path.name: path.read_text(encoding="utf-8").strip() for path in site.secrets.iterdir() if path.is_file()}
    secrets = {name: text for name, text in secrets.items() if not name.endswith((".pem", ".json"))}
    containers = site.containers()
    said = {"containers": json.dumps(containers), "logs": site.compose("logs", "--no-color")}
    for name, text in secrets.items():
        for place, content in said.items():
            if text in content or text.rpartition(":")[2] in content:
                raise ShortfallError(f"the secret {name} is in the {place}")
    for one in containers:
        host = one["HostConfig"]
        user = one["Config"]["User"].partition(":")[0]
        facts = (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"], host["SecurityOpt"], user not in ("", "0"))
        if facts != (True, ["ALL"], None, ["no-new-privileges:true"], True):
            raise ShortfallError(f"{service_of(one)}: {facts}")
    published = {service_of(one) for one in containers if any(one["NetworkSettings"]["Ports"].values())}
    if published != {"proxy"}:
        raise ShortfallError(f"expected only the proxy to be reached from outside, got {published}")
    site.say(f"{len(containers)} containers: read-only, no capability, not root; no secret outside of its file")


def first_person(site: Site) -> None:
    """A person sets a password by a link, logs in through the proxy, and sees the pages."""
    made = site.cli("people", "add", "alice", "--role", "admin")
    path = httpx.URL(made["set_up_url"]).raw_path.decode()
    trusted = ssl.create_default_context(cafile=str(site.secrets / "ca.pem"))
    with httpx.Client(base_url=site.url, verify=trusted, timeout=10) as browser:
        before = browser.get("/ui/")
        if before.status_code != httpx.codes.SEE_OTHER or browser.get(path).status_code != httpx.codes.OK:
            raise ShortfallError(f"/ui/ without a session answers {before.status_code}")
        style = browser.get("/ui/static/ccatune.css")
        script = browser.get("/ui/static/vendor/htmx.min.js")
    site.say(f"pages: log-in is asked for, alice has a link; style {style.status_code}, script {script.status_code}")


def publish(site: Site, number: int, *options: str) -> str:
    """Sign and publish a table; returns its digest."""
    name = f"table-{number}.json"
    make_ensemble(number).save(site.folder / "files" / name)
    key = tuple(word.format(secrets=site.secrets) for word in OFFLINE)
    site.cli("sign", name, "--key", "/offline/publisher.pem", options=key)
    (published,) = site.cli("publish", name, *options)
    return str(published["digest"])


def agent_row(site: Site) -> dict[str, Any]:
    """What the agent on the stand-in reports."""
    rows = [row for row in site.cli("agents", "list", "--cca", "gr") if row["agent_id"] == "stand-in"]
    return rows[0] if rows else {}


def first_table(site: Site) -> str:
    """A signed table comes into force on the agent; returns its digest."""
    digest = publish(site, 1, "--channel", "champion")

    def in_force() -> Any:
        row = agent_row(site)
        return row if row.get("effective_digest") == digest and row["state"] == "InSync" else None

    row = site.wait("the signed table in force", in_force)
    tree = site.compose("exec", "--no-TTY", "stand-in", "cat", "/var/lib/ccatune/tree/gr.json")
    if digest.removeprefix("sha256:") not in tree:
        raise ShortfallError("the stand-in does not have the table")
    site.say(f"{digest[:19]} is in force, signed: agent {row['agent_id']} is {row['state']} at serial "
             f"{row['effective_serial']}")  # fmt: skip
    return digest


def roll_out(site: Site) -> None:
    """A roll-out over sixteen agents, in which a replica is killed, is promoted by the controller."""
    digests = [publish(site, 2), publish(site, 3)]
    site.cli("channels", "set", "gr", "rolled", digests[0])
    fleet = RollingFleet(site.url, registry="ccatune", http=site.http(), digests=digests)
    fleet.start()
    http = site.http()

    def newest() -> Any:
        found = http.get("/v1/channels/gr/rolled/rollouts").json()["items"]
        return found[-1] if found else None

    site.wait("a roll-out", newest)
    replica = next(one for one in site.containers() if service_of(one) == "api")
    os.kill(replica["State"]["Pid"], signal.SIGKILL)
    site.say(f"roll-out {newest()['id']} runs over {16} agents; replica {replica['Name'][1:]} is killed")
    ended = site.wait("the roll-out's end", lambda: (it := newest()) and it["ended_at"] and it)
    fleet.stop.set()
    fleet.join()
    if fleet.failure or ended["state"] != "promoted":
        raise ShortfallError(fleet.failure or f"the roll-out is {ended['state']}")
    channel = next(row for row in site.cli("channels", "list") if row["channel"] == "rolled")
    site.say(f"roll-out {ended['id']}: {ended['state']}; gr/rolled is at serial {channel['serial']}")


def train(site: Site) -> None:
    """A job is trained on the workers of the cluster."""
    job = site.cli("jobs", "submit", "compose", "--dataset", "recordings")["id"]
    seen: dict[str, set[str]] = {}
    http = site.http()

    def ended() -> Any:
        for index in (1, 2):
            name = f"ray-worker-{index}"
            titles = set(re.findall(r"ray::(\w+)", site.docker.run("top", f"ccatune-{name}", "-eo", "pid,args")))
            seen.setdefault(name, set()).update(titles - NO_TASKS)
        found = http.get(f"/v1/jobs/{job}").json()
        return found if found["ended_at"] else None

    found = site.wait("the job's end", ended)
    if found["state"] != "done" or not any(seen.values()):
        raise ShortfallError(f"job {job} is {found['state']} ({found['error']}), with these tasks on the nodes: {seen}")
    tasks = "; ".join(f"{name} ran {', '.join(sorted(titles))}" for name, titles in seen.items() if titles)
    site.say(f"job {job}: {found['state']}, {found['digest'][:19]}, by {found['runner']}; {tasks}")


def figures(site: Site) -> None:
    """Prometheus reaches every process of the registry, by its own token."""
    site.docker.compose("--profile", "figures", "up", "--detach", "prometheus")

    def asked(query: str) -> dict[str, str]:
        answer = httpx.get("http://127.0.0.1:9090/api/v1/query", params={"query": query}).raise_for_status().json()
        return {row["metric"].get("instance", ""): row["value"][1] for row in answer["data"]["result"]}

    def up() -> Any:
        try:
            found = asked('up{job="ccatune"}')
        except httpx.HTTPError:
            return None
        return found if list(found.values()) == ["1"] * 3 else None

    found = site.wait("three processes that are up in Prometheus", up)
    site.say(f"Prometheus: {len(found)} processes are up; serials {asked('max(ccatune_channel_serial)')}")


def snapshot(site: Site) -> dict[str, Any]:
    """What must survive."""
    with site.http() as http:
        rows = {
            name: http.get(f"/v1/{name}", params={"limit": "200"}).raise_for_status().json()["items"]
            for name in ("channels", "agents", "tokens", "jobs", "ensembles", "audit")
        }
        history = http.get("/v1/channels/gr/rolled/history", params={"limit": "200"}).json()["items"]
    return {
        "serials": {f"{row['cca']}/{row['channel']}": row["serial"] for row in rows["channels"]},
        "history": [(row["serial"], row["digest"]) for row in history],
        "agents": sorted(row["agent_id"] for row in rows["agents"]),
        "tokens": sorted((row["id"], row["principal"]) for row in rows["tokens"]),
        "jobs": sorted((row["id"], row["state"], row["digest"]) for row in rows["jobs"]),
        "ensembles": sorted(row["digest"] for row in rows["ensembles"]),
        "audit": sorted(row["id"] for row in rows["audit"]),
    }


def require_same(before: dict[str, Any], after: dict[str, Any], what: str) -> None:
    """Raise ShortfallError where something was lost."""
    lost = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    if lost:
        raise ShortfallError(f"{what}: {lost}")


def back_up_and_restore(site: Site) -> None:
    """A backup of the running database replaces it, by the commands of docs/operate.md."""
    before = snapshot(site)
    in_postgres = ("exec", "--no-TTY", "postgres")
    file = site.folder / "ccatune.dump"
    file.write_bytes(site.docker.compose(*in_postgres, "pg_dump", *AS, "--format=custom", "ccatune"))
    site.compose("stop", "api", "controller", "runner")
    made = ("--encoding=UTF8", "--locale=C.UTF-8", "--template=template0", "restored")
    site.compose(*in_postgres, "createdb", *AS, *made)
    restore = ("pg_restore", *AS, "--exit-on-error", "--no-owner", "--dbname=restored")
    site.compose(*in_postgres, *restore, stdin=file.read_bytes())
    for old, new in (("ccatune", "damaged"), ("restored", "ccatune")):
        rename = f"ALTER DATABASE {old} RENAME TO {new}"
        site.compose(*in_postgres, "psql", *AS, "--dbname=postgres", "--command", rename)
    site.up()
    require_same(before, snapshot(site), "backup and restore")
    site.say(f"a backup of {file.stat().st_size} bytes is restored, and nothing is lost")


def replace_secrets(site: Site) -> None:
    """Certificate, token of the runner, token of the administrator, and password of the database are replaced."""

    def served() -> str:
        return ssl.get_server_certificate(("localhost", int(site.url.rpartition(":")[2])))

    before = served()
    for name in ("tls.pem", "runner-token", "admin-token", "postgres-password", "pgpass"):
        (site.secrets / name).unlink()
    site.compose("run", "--rm", "--no-TTY", "setup")
    word = (site.secrets / "postgres-password").read_text(encoding="ascii")
    change = f"ALTER ROLE ccatune PASSWORD '{word}'".encode()
    site.compose("exec", "--no-TTY", "postgres", "psql", *AS, stdin=change)
    site.compose("run", "--rm", "--no-TTY", "migrate")
    site.compose("restart", "proxy", "runner", "api", "controller")
    site.up()
    if served() == before:
        raise ShortfallError("the proxy serves the old certificate")
    old = [row for row in site.cli("tokens", "list") if row["principal"] == "runner"][-1]
    site.cli("tokens", "revoke", old["id"])
    job = site.cli("jobs", "submit", "compose", "--dataset", "recordings", "--seed", "2")["id"]
    site.wait("the runner to take a job by its new token", lambda: site.cli("jobs", "show", str(job))["runner"])
    site.cli("jobs", "cancel", str(job))
    site.wait("the job's end", lambda: site.cli("jobs", "show", str(job))["ended_at"])
    site.say("certificate, tokens of runner and administrator, and password of the database are replaced")


def run_all(site: Site, *, builds: bool) -> str:
    """The campaign; its last line."""
    start(site, builds=builds)
    check_hardening(site)
    first_person(site)
    first_table(site)
    roll_out(site)
    train(site)
    figures(site)
    back_up_and_restore(site)
    replace_secrets(site)
    before = snapshot(site)
    site.down()
    site.say("down")
    site.up()
    require_same(before, snapshot(site), "down and up")
    site.wait("the agent in sync again", lambda: agent_row(site).get("state") == "InSync")
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in before.items())
    site.say(f"up again with {counts}")
    site.up("--scale", "api=3")
    replicas = [service_of(one) for one in site.containers()].count("api")
    site.say(f"scaled to {replicas} replicas")
    if replicas != 3:
        raise ShortfallError("expected 3 replicas")
    return f"the whole service held in {time.monotonic() - site._began_s:.0f} s: nothing lost of {counts}"


def prepare(folder: Path) -> None:
    """Write what an operator has: a study, recordings, and a folder for files."""
    (folder / "training").mkdir()
    made = make_site(folder / "training", seed=1)
    (folder / "studies").mkdir()
    (folder / "studies" / "compose.yaml").write_text(STUDY, encoding="utf-8")
    shutil.copytree(made.folder / "made-train", folder / "recordings")
    (folder / "files").mkdir()
    for path in (folder, folder / "recordings"):
        path.chmod(0o755)


@click.command()
@click.option("--build/--no-build", "builds", default=True, help="Whether to use the images of an earlier run.")
def main(*, builds: bool) -> None:
    """Run it all; exit 0 where everything held, 1 where something did not."""
    enter_namespaces(__spec__.name)
    with tempfile.TemporaryDirectory(prefix="ccatune-compose-") as name:
        folder, port = Path(name), free_port()
        prepare(folder)
        places = {key: str(folder / key.removeprefix("CCATUNE_").lower())
                  for key in ("CCATUNE_SECRETS", "CCATUNE_STUDIES", "CCATUNE_RECORDINGS", "CCATUNE_FILES")}  # fmt: skip
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits = {"CCATUNE_PORT": str(port), "CCATUNE_NOFILE": str(min(most, 524_288))}
        with daemon({**places, **limits}) as docker:
            site = Site(docker, folder, port)
            try:
                click.echo(run_all(site, builds=builds))
            except (ShortfallError, DockerError) as error:
                click.echo(site.compose("ps", "--all"))
                click.echo(site.compose("logs", "--no-color", "--tail", "30"))
                click.echo(f"compose: falls short: {error}")
                sys.exit(1)
            finally:
                site.down("--volumes")


if __name__ == "__main__":
    main()
