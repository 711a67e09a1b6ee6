# SPDX-License-Identifier: MIT
"""Settings of the registry: one frozen model, read from a YAML file and overridden by command-line options.

configs/serving/local.yaml repeats the defaults, and a test checks that they are equal.
A database URL may contain a password. It is therefore a SecretStr, which does not appear in logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from kmod.errors import DocumentError
from kmod.yaml12 import load_yaml
from serving.access.grants import Role
from serving.errors import SettingsError
from serving.names import DatasetName, HostName, in_words, is_name

DEFAULT_PORT = 8640
DEFAULT_REGISTRY = "local"


class ServingSettings(BaseModel):
    """The settings of a registry. The name of a quantity ends in its unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: SecretStr = Field(
        default=SecretStr("sqlite:///ccatune.db"),
        description="SQLAlchemy URL: sqlite:///FILE or postgresql://USER@HOST/NAME.",
    )
    registry: str | None = Field(
        default=None,
        description="Name that every deployment carries; kept in the database at its first start ('local' if unset).",
    )
    role: Literal["all", "api", "controller"] = Field(
        default="all",
        description="What this process does: `api` answers requests, `controller` judges roll-outs, takes the steps of "
        "retrainings, ends leases and deletes what is too old, and answers /readyz and /metrics alone.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535, description="TCP port; 0 takes a free one.")
    insecure_bind: bool = Field(
        default=False,
        description="Allow an address that others can reach without TLS, as behind a proxy that ends TLS.",
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of the server's certificate and the intermediate ones; makes it https."
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of its key, which others cannot read.")
    client_ca_file: Path | None = Field(
        default=None, description="PEM file of authorities; TLS clients must show a certificate of one of them."
    )
    open: bool = Field(
        default=False,
        description="Serve without accounts: who reaches the API may do everything. Only loopback is allowed then.",
    )
    token_cache_s: float = Field(
        default=5.0, ge=0.1, le=300, description="Time within which a token that another process revoked is refused."
    )
    session_idle_s: float = Field(
        default=8 * 3600.0, ge=60, le=90 * 86_400, description="Time without a request after which a session ends."
    )
    session_lifetime_s: float = Field(
        default=7 * 86_400.0, ge=60, le=90 * 86_400, description="Longest time between log-in and the session's end."
    )
    oidc_issuer: str | None = Field(
        default=None, description="Address of a provider of OpenID Connect by which people log in (extra `oidc`)."
    )
    oidc_client_id: str | None = Field(default=None, description="Name by which the provider knows the registry.")
    oidc_client_secret_file: Path | None = Field(
        default=None, description="File with the client's secret, which others cannot read; none for a public client."
    )
    oidc_redirect_url: str | None = Field(
        default=None,
        description="Address of ui/login/provider/callback as browsers reach it, as behind a proxy's path prefix. "
        "Without it, it is derived from the request.",
    )
    oidc_name_claim: str = Field(
        default="preferred_username", description="Claim of the ID token that names a new person."
    )
    oidc_role_claim: str = Field(default="groups", description="Claim of the ID token with the person's groups.")
    oidc_roles: dict[str, Role] = Field(
        default={}, description="Role of each group. Who is in none of them is refused; the highest role counts."
    )
    host_names: tuple[HostName, ...] = Field(
        default=(),
        description="Names besides localhost that requests may call the registry by, as behind a proxy. "
        "Without any, every name is taken if others can reach the address.",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses of proxies whose X-Forwarded-For names the client, for the audit log and the limit on "
        "attempts. Anyone else could name any address.",
    )
    migrate: bool = Field(default=True, description="Bring the database's schema up to date at the start.")
    max_body_bytes: int = Field(default=2 * 1024 * 1024, ge=1024, description="Largest request body.")
    max_wait_s: float = Field(default=60.0, ge=0, le=3600, description="Longest time that a long poll is held.")
    recheck_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="How often held polls look for moves that another process made.",
    )
    wake_spread_ms: int = Field(
        default=2000,
        ge=0,
        le=60_000,
        description="Time over which the polls that a move ends are answered, so that they do not return all at once.",
    )
    max_connections: int = Field(
        default=32_768, ge=16, le=1_000_000, description="Most connections at once; further ones are answered 503."
    )
    head_timeout_s: float = Field(default=10.0, gt=0, le=3600, description="Longest time for a request's headers.")
    body_timeout_s: float = Field(default=30.0, gt=0, le=3600, description="Longest time for a request's body.")
    answer_timeout_s: float = Field(
        default=60.0, gt=0, le=3600, description="Longest time for a client to take an answer."
    )
    keep_alive_s: int = Field(
        default=75, ge=1, le=3600, description="Time that an idle connection is kept for a further request."
    )
    log: Literal["text", "json"] = Field(default="text", description="Form of the log on stderr.")
    access_log: bool = Field(
        default=False, description="Log each answer. Without it faults and slow answers are logged, at a bounded rate."
    )
    slow_request_s: float = Field(
        default=5.0, gt=0, le=3600, description="Time from which on an answer counts as slow. Long polls never do."
    )
    telemetry: bool = Field(
        default=False,
        description="Send traces of requests by OpenTelemetry, to where the OTEL_ variables of the environment say.",
    )
    metrics_every_s: float = Field(
        default=15.0, ge=0.1, le=3600, description="/metrics reads its figures from the database at most so often."
    )
    max_queued_reports: int = Field(
        default=20_000, ge=1, le=1_000_000, description="Most reports that wait to be written; others are answered 503."
    )
    agent_retention_days: float = Field(
        default=30.0, ge=1, le=36_500, description="Time without a report after which an agent is deleted."
    )
    qos_retention_days: float = Field(
        default=90.0, ge=1, le=36_500, description="Time for which the sums of flows over all agents are kept."
    )
    qos_agent_retention_days: float = Field(
        default=7.0, ge=1, le=36_500, description="Time for which the sums of flows of each agent are kept."
    )
    observation_retention_days: float = Field(
        default=30.0, ge=0.01, le=36_500, description="Time for which files of observations are kept."
    )
    observation_bytes_per_agent: int = Field(
        default=128 << 20, ge=0, description="Most bytes of files of observations of an agent; the oldest are deleted."
    )
    observation_bytes: int = Field(
        default=2 << 30, ge=0, description="Most bytes of files of observations of all agents together."
    )
    write_stall_s: float = Field(
        default=10.0, gt=0, le=3600, description="Time without a successful write after which /healthz tests one."
    )
    database_connections: int = Field(
        default=16, ge=4, le=1000, description="Most connections of this process to the database."
    )
    busy_timeout_ms: int = Field(
        default=5000, ge=0, le=600_000, description="How long a write waits for another one (SQLite)."
    )

    studies: Path | None = Field(
        default=None, description="Folder of the studies (NAME.yaml) that jobs may name; without it there are no jobs."
    )
    datasets: tuple[DatasetName, ...] = Field(
        default=(), description="Datasets that jobs may name, besides those that a runner has described."
    )
    job_lease_s: float = Field(
        default=60.0, ge=2, le=86_400, description="Time without a heartbeat after which another runner takes a job."
    )
    job_losses: int = Field(
        default=5, ge=1, le=1000, description="A job fails after its lease has been lost so many times."
    )
    jobs_per_principal: int = Field(
        default=16, ge=1, le=100_000, description="Most queued and running jobs of a principal."
    )
    shadow_gate: Literal["off", "required"] = Field(
        default="off", description="Whether a roll-out needs a comparison in the simulator, or a reason to do without."
    )
    job_retention_days: float = Field(
        default=30.0, ge=0.01, le=36_500, description="Time after its end after which a job is deleted with its logs."
    )

    retraining_check_s: float = Field(
        default=30.0, ge=0.1, le=86_400, description="How often channels with a policy of retraining are looked at."
    )

    signing_key_file: Path | None = Field(
        default=None,
        description="Private key (PEM) with which the registry signs deployments. Only its owner may read the file.",
    )
    signature_validity_s: int = Field(
        default=7 * 86_400,
        ge=16,
        le=366 * 86_400,
        description="How long a deployment's signature is valid. A new one is made after every eighth of this time.",
    )

    @model_validator(mode="after")
    def _open_is_for_this_machine(self) -> ServingSettings:
        if self.open and (self.insecure_bind or self.host_names):
            raise ValueError(
                "expected no insecure_bind (--insecure-bind-anyway) and no host_names (--host-name) with open "
                "(--open), because an open registry answers this machine alone"
            )
        return self

    @model_validator(mode="after")
    def _provider_is_complete(self) -> ServingSettings:
        if self.oidc_issuer is None:
            return self
        if self.oidc_client_id is None or not self.oidc_roles:
            raise ValueError("expected oidc_client_id and oidc_roles with oidc_issuer")
        for name in ("oidc_issuer", "oidc_redirect_url"):
            address = getattr(self, name)
            if address is not None and not is_protected(address):
                raise ValueError(f"{name}: expected an address with https, or on this machine")
        return self

    @field_validator("registry")
    @classmethod
    def _registry_is_a_name(cls, name: str | None) -> str | None:
        if name is not None and not is_name(name):
            raise ValueError("expected 1 to 63 of A-Z a-z 0-9 . _ -")
        return name

    @model_validator(mode="after")
    def _tls_files_are_complete(self) -> ServingSettings:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("expected both tls_cert_file and tls_key_file, or neither")
        if self.client_ca_file is not None and not self.has_tls:
            raise ValueError("client_ca_file: expected tls_cert_file and tls_key_file with it")
        return self

    @property
    def has_tls(self) -> bool:
        """Whether the registry answers by https."""
        return self.tls_cert_file is not None


def is_protected(address: str) -> bool:
    """Whether an address has https, or belongs to this machine."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"})
        )
    except ValueError:
        return False


def load_settings(path: Path | None = None, **overrides: Any) -> ServingSettings:
    """Read a YAML file, if `path` is given, and replace its values by the overrides that are not None.

    Raises:
        SettingsError: the file cannot be read, a key is unknown, or a value is invalid.
    """
    values = _read_yaml(path) if path is not None else {}
    values.update({key: value for key, value in overrides.items() if value is not None})
    try:
        return ServingSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "settings"
        source = f"{path}: " if path is not None else ""
        # A database's address may contain a password, and the value of an unknown key anything.
        field = ServingSettings.model_fields.get(where.partition(".")[0])
        said = in_words(first, shows_input=field is not None and field.annotation is not SecretStr)
        raise SettingsError(f"{source}{where}: {said}; see configs/serving/ for every key") from error


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        data = load_yaml(path, what="settings")
    except DocumentError as error:
        raise SettingsError(str(error)) from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise SettingsError(f"{path}: expected `key: value` lines, got {type(data).__name__}")
    return data
