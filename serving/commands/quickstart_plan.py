# SPDX-License-Identifier: MIT
"""What `ccatune quickstart` is to set up: settings of the registry and of its agents, and the texts of their files."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving.agent.settings import AgentSettings
from serving.errors import SettingsError
from serving.settings import DEFAULT_REGISTRY, ServingSettings, load_settings

# Where the packages look for their settings, and the user as which `ccatune-api.service` runs.
SYSTEM_FOLDER = Path("/etc/ccatune")
SYSTEM_DATA = Path("/var/lib/ccatune")
SERVICE_USER = "ccatune"

CONFIG = "registry.yaml"
AGENT_CONFIG = "agent.toml"
AGENT_TOKEN = "agent.token"  # noqa: S105 - the name of a file
ROOT_DOCUMENT = "root.json"
AUTHORITIES = "ca.pem"

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Plan:
    """The service to set up.

    folder: absolute. account: the user of the service, or None for the user of the command. ccas, channel: what the
    agents follow. agents: names of further servers.
    """

    folder: Path
    settings: ServingSettings
    account: pwd.struct_passwd | None
    ccas: tuple[str, ...]
    channel: str
    agents: tuple[str, ...]
    ca_file: Path | None

    @property
    def is_system(self) -> bool:
        """Whether systemd's units use the folder."""
        return self.folder == SYSTEM_FOLDER

    @property
    def url(self) -> str:
        """Where agents and commands reach the registry."""
        names = self.settings.host_names
        host = names[0] if self.settings.has_tls and names else "127.0.0.1"
        return f"{'https' if self.settings.has_tls else 'http'}://{host}:{self.settings.port}"

    @property
    def has_authorities(self) -> bool:
        """Whether agents trust the authorities of a file, instead of the system's."""
        return self.settings.has_tls and (self.ca_file is not None or (self.folder / AUTHORITIES).exists())

    def config_text(self) -> str:
        """Return the registry's settings file. A string of JSON is one of YAML, too."""
        kept = self.settings
        values: dict[str, Any] = {
            "database_url": kept.database_url.get_secret_value(),
            "registry": kept.registry,
            "host": kept.host,
            "port": kept.port,
            "tls_cert_file": kept.tls_cert_file and str(kept.tls_cert_file),
            "tls_key_file": kept.tls_key_file and str(kept.tls_key_file),
            "host_names": list(kept.host_names) or None,
            "signing_key_file": str(kept.signing_key_file),
        }
        head = "# The registry's settings, made by `ccatune quickstart`. `ccatune serve --config FILE` reads them.\n"
        return head + _lines(values, ": ")

    def agent_text(self, folder: Path, *, state_dir: Path | None) -> str:
        """Return an agent's settings file for a server that has its files in this folder."""
        values: dict[str, Any] = {
            "url": self.url,
            "registry_name": self.settings.registry,
            "channel": self.channel,
            "cca": list(self.ccas),
            "root": str(folder / ROOT_DOCUMENT),
            "token_file": str(folder / AGENT_TOKEN),
            "ca_file": str(folder / AUTHORITIES) if self.has_authorities else None,
            "state_dir": None if state_dir is None else str(state_dir),
        }
        head = "# Settings of ccatune-agent, made by `ccatune quickstart`.\n"
        return head + _lines(values, " = ")


def _lines(values: Mapping[str, Any], between: str) -> str:
    said = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items() if value is not None}
    return "".join(f"{key}{between}{text}\n" for key, text in said.items())


def make_plan(folder: Path | None, *, ccas: tuple[str, ...], channel: str, agents: tuple[str, ...],
              ca_file: Path | None, **given: Any) -> Plan:  # fmt: skip
    """Return the plan for a command line. given: settings of the registry, None for those that are not given.

    Raises SettingsError, of the agent's settings, too.
    """
    is_root = os.geteuid() == 0
    folder = (folder or (SYSTEM_FOLDER if is_root else Path("ccatune"))).absolute()
    account = _service_account() if is_root and folder == SYSTEM_FOLDER else None
    settings = _settings(folder, has_account=account is not None, given=given)
    plan = Plan(folder, settings, account, ccas, channel, agents, ca_file)
    if (agents or ca_file) and not settings.has_tls:
        raise SettingsError(
            "--agent, --ca-file: expected TLS (--tls-cert-file, --tls-key-file), for without it the registry answers "
            "this machine alone"
        )
    # The same checks as at the agent's start, before anything is written.
    AgentSettings(url=plan.url, ccas=ccas, channel=channel, registry_name=settings.registry or "")
    return plan


def _settings(folder: Path, *, has_account: bool, given: Mapping[str, Any]) -> ServingSettings:
    """Return the settings in the folder, which must be those that are given, or else new ones. Raises SettingsError."""
    given = {key: value for key, value in given.items() if value}
    for key in ("tls_cert_file", "tls_key_file"):
        if key in given:
            given[key] = given[key].absolute()
    path = folder / CONFIG
    if path.exists():
        kept = load_settings(path)
        wanted = load_settings(path, **given)
        if differing := [key for key in given if getattr(kept, key) != getattr(wanted, key)]:
            raise SettingsError(
                f"{path}: expected the {', '.join(differing)} that it has, got another on the command line; change the "
                "file by hand, for quickstart replaces none"
            )
        if kept.registry is None or kept.signing_key_file is None:
            raise SettingsError(
                f"{path}: expected registry and signing_key_file in it; add them, see docs/signatures.md"
            )
        return kept
    return load_settings(None, **(_defaults(folder, has_account=has_account, has_tls="tls_cert_file" in given) | given))


def _defaults(folder: Path, *, has_account: bool, has_tls: bool) -> dict[str, Any]:
    data = SYSTEM_DATA if has_account else folder
    return {
        "registry": DEFAULT_REGISTRY,
        "database_url": f"sqlite:///{data / 'registry.db'}",
        "signing_key_file": folder / "registry.pem",
        **({"host": "0.0.0.0", "host_names": (socket.getfqdn(),)} if has_tls else {}),  # noqa: S104 - with TLS alone
    }


def check_database_url(url: str | None) -> str | None:
    """Return the URL. Raises SettingsError where it has a password, which would stand in a file that others read."""
    if url is not None and urlsplit(url).password:
        raise SettingsError(
            "--database: expected a URL without a password; set PGPASSWORD for this command, and for the service in "
            f"{SYSTEM_FOLDER}/api.env"
        )
    return url


def own_name() -> str:
    """Return the name of this server's agent: the host's, in the characters that a name may have."""
    return _NOT_IN_NAMES.sub("-", socket.gethostname()).strip(".-")[:63] or "server"


def _service_account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return None


@contextmanager
def acting_as(account: pwd.struct_passwd | None) -> Iterator[None]:
    """Open and make files as this user within the block. The database must belong to the user of the service."""
    if account is None:
        yield
        return
    before = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])
        os.setgroups(before[2])
