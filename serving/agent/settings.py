# SPDX-License-Identifier: MIT
"""The agent's settings: one frozen class that checks all values, and the readers of the TOML file and of secrets.

A command-line option has precedence over the variable CCATUNE_AGENT_NAME, the variable over the file, and the file
over the default. The file's keys are those of _FILE_KEYS; `cca` is a list, or one string.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kmod.abi import ALGORITHMS
from serving.agent.errors import SecretError, SettingsError
from serving.agent.kernel import DEFAULT_PROC_ROOT, VIAS, Via

DEFAULT_CONFIG = Path("/etc/ccatune/agent.toml")
DEFAULT_STATE_DIR = Path("/var/lib/ccatune-agent")
LOG_FORMS = ("text", "json")
# The file that systemd's LoadCredential=ccatune-token:FILE makes for the unit.
CREDENTIAL = "ccatune-token"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_AGENT_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# The registry accepts no others (serving/names.py).
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,62}")
_MAX_LABELS = 8
_PREFIXES = re.compile(r"([0-9]{1,2}),([0-9]{1,3})")
_DOTS = (".", "..")
_MAX_TOKEN_BYTES = 4096
# Visible ASCII, so that no token can end the header line that it stands in.
_TOKEN = re.compile(rb"[!-~]+")
# Only texts that cannot name another machine. The module ipaddress would take longer to import than the agent's start.
_LOOPBACK = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")

# name: (minimum, default, maximum, meaning), in seconds. The meaning completes the help text "Seconds ...".
SECONDS: dict[str, tuple[float, float, float, str]] = {
    "interval_s": (0.05, 2.0, 3600.0, "between two checks of the kernel's table"),
    "wait_s": (0.0, 30.0, 600.0, "that a long poll may be held by the registry"),
    "timeout_s": (0.1, 10.0, 600.0, "for a whole answer of the registry, in addition to --wait"),
    "backoff_max_s": (0.1, 60.0, 3600.0, "between two attempts at most while the registry is unreachable"),
    "report_every_s": (1.0, 60.0, 86400.0, "between two reports if nothing changed"),
    "report_spread_s": (0.0, 5.0, 3600.0, "that a report of a new table is delayed at most, by a random share"),
}


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """All settings of an agent. SECONDS lists the ranges of those in seconds. Raises SettingsError.

    labels: what the server is, such as its site. Roll-outs can have shares within them.
    textfile: where to write figures for Prometheus' node exporter. rtcp_prefixes: see prefix_bits(); empty leaves
    the clients of R-TCP out of these figures. log: the form of the log, text or json.
    """

    url: str
    ccas: tuple[str, ...]
    registry_name: str = ""
    root: Path | None = None
    channel: str = "champion"
    state_dir: Path = DEFAULT_STATE_DIR
    via: Via = "auto"
    proc_root: Path = DEFAULT_PROC_ROOT
    agent_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None
    token_file: str | None = None
    insecure_http: bool = False
    textfile: Path | None = None
    rtcp_prefixes: str = ""
    log: str = "text"
    interval_s: float = SECONDS["interval_s"][1]
    wait_s: float = SECONDS["wait_s"][1]
    timeout_s: float = SECONDS["timeout_s"][1]
    backoff_max_s: float = SECONDS["backoff_max_s"][1]
    report_every_s: float = SECONDS["report_every_s"][1]
    report_spread_s: float = SECONDS["report_spread_s"][1]

    def __post_init__(self) -> None:
        self._check_transport()
        if not self.ccas:
            raise SettingsError("cca: expected at least one algorithm, got none; set --cca, e.g. --cca gr")
        if len(set(self.ccas)) != len(self.ccas):
            raise SettingsError(f"cca: expected each algorithm once, got {', '.join(self.ccas)}")
        tuned = [name for name, algorithm in ALGORITHMS.items() if algorithm.tuned]
        for cca in self.ccas:
            if cca not in tuned:
                raise SettingsError(f"cca: expected one of {', '.join(tuned)}, got {cca!r}; correct --cca")
        if self.via not in VIAS:
            raise SettingsError(f"via: expected one of {', '.join(VIAS)}, got {self.via!r}; correct --via")
        if self.log not in LOG_FORMS:
            raise SettingsError(f"log: expected one of {', '.join(LOG_FORMS)}, got {self.log!r}; correct --log")
        _require_name("channel", self.channel)
        if self.registry_name:
            _require_name("registry_name", self.registry_name)
        if self.agent_id:
            require_agent_id(self.agent_id)
        _require_labels(self.labels)
        if self.rtcp_prefixes:
            prefix_bits(self.rtcp_prefixes)
            if self.textfile is None:
                raise SettingsError("rtcp_prefixes: expected textfile with it, which has their figures; set --textfile")
        for name in SECONDS:
            _require_seconds(name, getattr(self, name))

    def _check_transport(self) -> None:
        url = check_url(self.url)
        for name in ("ca_file", "client_cert_file", "client_key_file"):
            if getattr(self, name) is not None and url.scheme != "https":
                raise SettingsError(
                    f"{name}: expected a registry by https, got {url.scheme}; leave {name} out, or use https"
                )
        if self.client_key_file is not None and self.client_cert_file is None:
            raise SettingsError("client_key_file: expected client_cert_file with it; set --client-cert-file")
        is_exposed = url.scheme == "http" and not _LOOPBACK.fullmatch(url.hostname or "")
        if self.token_file is not None and is_exposed and not self.insecure_http:
            raise SettingsError(
                "token_file: expected a registry by https, for others can read a token that is sent by http; "
                "use https, or say --insecure-http where the network is trusted"
            )


# The keys of the settings file, each with its allowed types.
_FILE_KEYS: dict[str, tuple[type, ...]] = {
    **{one.name: (str,) for one in fields(AgentSettings) if one.name != "ccas"},
    "cca": (list, str),
    "labels": (dict,),
    "insecure_http": (bool,),
    **dict.fromkeys(SECONDS, (int, float)),
}


def read_config(path: Path, *, required: bool) -> dict[str, Any]:
    """Return the keys and values of a TOML file. A missing file gives none.

    Raises SettingsError where the file is invalid, or missing although `required`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        if required:
            raise SettingsError(f"{path}: expected a TOML file, there is none; set --config") from error
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: expected a TOML file, got {error.strerror or error}") from error
    import tomllib

    try:
        data = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: expected a TOML file, got {error}") from error
    for key, value in data.items():
        if key not in _FILE_KEYS:
            raise SettingsError(f"{path}: expected one of {', '.join(_FILE_KEYS)}, got the key {key}")
        # In Python a bool is an int, too.
        if not isinstance(value, _FILE_KEYS[key]) or (isinstance(value, bool) and bool not in _FILE_KEYS[key]):
            kinds = " or ".join(kind.__name__ for kind in _FILE_KEYS[key])
            raise SettingsError(f"{path}: expected {key} as {kinds}, got {without_user_info(repr(value))}")
    for key in SECONDS.keys() & data.keys():
        _require_seconds(key, data[key], where=f"{path}: ")
    _require_labels(data.get("labels", {}), where=f"{path}: ")
    return data


def labels_of(texts: Iterable[str]) -> dict[str, str]:
    """Return labels that are given as NAME=VALUE. Raises SettingsError."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals:
            raise SettingsError(f"labels: expected NAME=VALUE, got {name!r:.200}; correct --label")
    labels = {name: value for name, _, value in pairs}
    if len(labels) < len(pairs):
        raise SettingsError(f"labels: expected each name once, got {', '.join(name for name, _, _ in pairs)!s:.200}")
    return labels


def prefix_bits(text: str, *, name: str = "rtcp_prefixes") -> tuple[int, int]:
    """Return the lengths of prefixes of IPv4 and of IPv6 in bits, from a text such as 24,56.

    name: where the text is from, for the message. Raises SettingsError.
    """
    found = _PREFIXES.fullmatch(text)
    bits = (int(found[1]), int(found[2])) if found else (33, 129)
    if bits[0] > 32 or bits[1] > 128:
        raise SettingsError(
            f"{name}: expected the lengths for IPv4 and IPv6, of 0 to 32 and 0 to 128 bits, such as 24,56, "
            f"got {text!r:.40}; correct them"
        )
    return bits


def check_url(url: str) -> SplitResult:
    """Return the parts of a registry's address. Raises SettingsError unless it is http(s)://HOST[:PORT][/PATH]."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment:
        raise SettingsError(f"url: expected http(s)://HOST[:PORT][/PATH], got {without_user_info(url)!r}; set --url")
    return parts


def without_user_info(url: str) -> str:
    """Return the text after the last `@`: an error, a log line or a report must not show a user's password."""
    return url if "@" not in url else "...@" + url.rpartition("@")[2]


def require_agent_id(agent_id: str) -> None:
    """Raise SettingsError unless the registry accepts this id."""
    if not _AGENT_ID.fullmatch(agent_id) or agent_id in _DOTS:
        raise SettingsError(
            f"agent_id: expected 1 to 128 of A-Z a-z 0-9 . _ : -, not . or .. alone, got {agent_id!r:.200}"
        )


def credential_file() -> str | None:
    """Return the path of the token that systemd passed to this unit, or None."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = Path(folder) / CREDENTIAL
    return str(path) if folder and path.exists() else None


def read_secret(what: str, path: str | os.PathLike[str], *, max_bytes: int) -> bytes:
    """Return the content of a file that others cannot read, and that its group can at most read.

    what: names the setting in errors. Raises SecretError; the message does not contain the content.
    """
    forbidden = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
    advice = "expected a file that others cannot read, got the mode {mode:04o}; chmod it to 0600"
    return read_guarded(what, path, max_bytes=max_bytes, forbidden=forbidden, advice=advice)


def read_token(path: str | os.PathLike[str]) -> str:
    """Return the token in this file. Raises SecretError, with a message that does not contain it."""
    content = read_secret("token_file", path, max_bytes=_MAX_TOKEN_BYTES).strip()
    if not _TOKEN.fullmatch(content):
        raise SecretError(
            f"token_file {path}: expected one token of visible ASCII characters, got "
            f"{'another text' if content else 'none'}; put the text there that begins with ccat_"
        )
    return content.decode("ascii")


def read_guarded(what: str, path: str | os.PathLike[str], *, max_bytes: int, forbidden: int, advice: str) -> bytes:
    """Return the content of a regular file of root or this user, whose mode has none of the bits of `forbidden`.

    advice: the error's words about such a mode. Raises SecretError.
    """
    where = f"{what} {os.fspath(path)!r}" if "\0" in os.fspath(path) else f"{what} {os.fspath(path)}"
    try:
        # Without O_NONBLOCK a named pipe in this place would hold the agent.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise SecretError(f"{where}: expected a regular file, got something else")
            if found.st_mode & forbidden:
                raise SecretError(f"{where}: {advice.format(mode=stat.S_IMODE(found.st_mode))}")
            if found.st_uid not in {0, os.geteuid()}:
                raise SecretError(
                    f"{where}: expected root or user {os.geteuid()} as the owner, got user {found.st_uid}; chown it"
                )
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # a ValueError is a NUL in the path
        raise SecretError(
            f"{where}: expected a file that can be read, got {getattr(error, 'strerror', None) or error}"
        ) from error
    if len(content) > max_bytes:
        raise SecretError(f"{where}: expected at most {max_bytes} bytes, got more")
    return content


def _require_name(what: str, name: str) -> None:
    # A channel's name becomes a segment of a URL's path, so `.` and `..` are not valid names.
    if not _NAME.fullmatch(name) or name in _DOTS:
        raise SettingsError(f"{what}: expected a name of 1 to 63 of A-Z a-z 0-9 . _ -, got {name!r}")


def _require_labels(labels: Mapping[str, Any], *, where: str = "") -> None:
    what = f"{where}labels: expected"
    if len(labels) > _MAX_LABELS:
        raise SettingsError(f"{what} at most {_MAX_LABELS}, got {len(labels)}")
    for name, value in labels.items():
        if not _LABEL.fullmatch(name):
            raise SettingsError(f"{what} names of 1 to 63 of a-z 0-9 _ with a letter first, got {name!r:.200}")
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise SettingsError(f"{what} {name} as 1 to 63 of A-Z a-z 0-9 . _ -, got {value!r:.200}")


def _require_seconds(name: str, value: float, *, where: str = "") -> None:
    smallest, _, largest, _ = SECONDS[name]
    # An integer from the file may be too large for a float. It is therefore compared as it is, and printed truncated.
    if not smallest <= value <= largest:
        raise SettingsError(f"{where}{name}: expected {smallest:g} to {largest:g} s, got {value!s:.40}")
