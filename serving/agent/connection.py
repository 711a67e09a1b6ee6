# SPDX-License-Identifier: MIT
"""HTTP requests over one connection that is kept, each with one deadline for the whole exchange, and its TLS.

The standard library limits the time of each receive, not of the whole answer. A server that sends one byte per
second could hold such a client for ever. Here one deadline covers connecting, the TLS handshake, sending, headers and
body: the timeout of each socket operation is the time that is left, and all addresses of the host share it.

A long poll every 30 s over TLS would otherwise cost a handshake each. The connection is kept for the next exchange
only if the answer arrived completely and nothing followed it. It is not used again

- after an error, an answer of status 5xx, or `Connection: close`;
- when it was idle for longer than MAX_IDLE_S, or the server has closed it or sent something meanwhile;
- when it is older than MAX_AGE_S, so that a changed address or certificate takes effect.

If a kept connection turns out to be closed before any byte of the answer came, the request is sent once more over a
new one. All requests of the agent are idempotent, so this is harmless even if the server received the first one.

- Redirects are not followed. They are returned like any other answer, and the caller refuses them.
- Proxies from environment variables are ignored.
- A body is read up to a bound.

The files of TLS are read again for a new connection when one of them has changed, so that a renewed certificate needs
no restart. Commands use `TlsFiles`, `ClientTls` and `connect`, too.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult

from serving.agent.errors import SettingsError
from serving.agent.settings import read_secret

# The registry keeps an idle connection for 75 s (`keep_alive_s`).
MAX_IDLE_S = 70.0
MAX_AGE_S = 3600.0
_MAX_KEY_BYTES = 64 * 1024

Clock = Callable[[], float]
# A file's inode, its size, and the time of its last change in nanoseconds.
FileStamp = tuple[int, int, int]

_NO_DELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

# The errors of a connection that the server has closed. Both errors of TLS are no ConnectionError.
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@dataclass(frozen=True)
class Answer:
    """A server's answer. Header names are in lower case. `body` is at most one byte longer than the bound."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Request:
    """A request that may be sent twice. `path` includes the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket. Each receive may take until the deadline, and then raises TimeoutError."""

    def __init__(self, raw: socket.socket, deadline_s: float, clock: Clock) -> None:
        self._raw = raw
        self._deadline_s = deadline_s
        self._clock = clock
        self.n_bytes = 0
        self.is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.is_ended:
            return 0
        self._raw.settimeout(remaining_s(self._deadline_s, self._clock))
        n_bytes = self._raw.recv_into(buffer)
        self.n_bytes += n_bytes
        return n_bytes


class _AnswerFile(io.BufferedReader):
    """The file that http.client reads an answer from, and closes at its end. `has_rest`: more than it had arrived."""

    has_rest = False

    def close(self) -> None:
        if not self.closed:
            cast("_DeadlineReader", self.raw).is_ended = True
            self.has_rest = bool(self.peek(1))
        super().close()


class _DeadlineSocket:
    """The part of a socket's interface that http.client uses. The owner of the real socket closes it."""

    def __init__(self, raw: socket.socket, deadline_s: float, clock: Clock) -> None:
        self._raw = raw
        self._deadline_s = deadline_s
        self._clock = clock
        self._reader = _DeadlineReader(raw, deadline_s, clock)
        self._file = _AnswerFile(self._reader)

    @property
    def is_unanswered(self) -> bool:
        """Whether no byte of an answer has arrived."""
        return self._reader.n_bytes == 0

    @property
    def is_at_end(self) -> bool:
        """Whether the answer was read to its end, and nothing has arrived after it."""
        return self._file.closed and not self._file.has_rest

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return self._file

    def sendall(self, data: Any) -> None:
        self._raw.settimeout(remaining_s(self._deadline_s, self._clock))
        self._raw.sendall(data)

    def close(self) -> None:
        """Do nothing: the response is still read after http.client closes its connection."""


def remaining_s(deadline_s: float, clock: Clock) -> float:
    """Return the seconds until the deadline. Raises TimeoutError where the deadline has passed."""
    left_s = deadline_s - clock()
    if left_s <= 0:
        raise TimeoutError("the answer took too long")
    return left_s


def connect(host: str, port: int, *, deadline_s: float, clock: Clock, options: Iterable[Any] = ()) -> socket.socket:
    """Connect to the first address of the host that accepts the connection.

    Each address has an equal share of the time that is left, so that one that does not answer leaves time for others.
    options: the arguments of setsockopt for each option of the socket beside TCP_NODELAY.
    Limits: the look-up of the host's name has the limits of the system's resolver.
    Raises OSError, and TimeoutError after the deadline.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = ConnectionRefusedError(f"{host} has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        raw = socket.socket(family, kind, protocol)
        try:
            for option in (_NO_DELAY, *options):
                raw.setsockopt(*option)
            raw.settimeout(remaining_s(deadline_s, clock) / (len(found) - number))
            raw.connect(address)
        except OSError as error:
            raw.close()
            failure = error
        else:
            return raw
    raise failure


def _read_body(response: http.client.HTTPResponse, *, max_body_bytes: int) -> bytes:
    """Read the body, up to one byte over the bound. Raises IncompleteRead where the body is truncated."""
    body = response.read(max_body_bytes + 1)
    # A read() with a size does not raise for a truncated body. `length` is the number of bytes still expected.
    if len(body) <= max_body_bytes and response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


class Connection:
    """A connection to one server, made anew whenever the kept one cannot be used. One thread at a time may use it.

    `abort`, called from another thread, makes `run` raise an OSError: immediately, unless it is still connecting.
    """

    def __init__(
        self, url: SplitResult, *, tls: Callable[[], ssl.SSLContext] | None, clock: Clock = time.monotonic
    ) -> None:
        """Create the client. `tls` returns the context for a new connection; None means plain HTTP."""
        self._url = url
        self._tls = tls
        self._clock = clock
        self._raw: socket.socket | None = None
        self._made_s = 0.0
        self._idle_since_s = 0.0
        self._aborted = False

    def run(self, request: Request, *, timeout_s: float, max_body_bytes: int) -> Answer:
        """Send the request and read the answer within `timeout_s`.

        Raises OSError (including TimeoutError), http.client.HTTPException or ValueError.
        """
        deadline_s = self._clock() + timeout_s
        if self._raw is not None and not self._is_usable(self._raw):
            self.close()
        if self._raw is not None:
            kept = _DeadlineSocket(self._live_socket(), deadline_s, self._clock)
            try:
                return self._exchange(kept, request, max_body_bytes=max_body_bytes)
            except _CLOSED:
                if self._aborted or not kept.is_unanswered:
                    raise
        self._connect(deadline_s)
        new = _DeadlineSocket(self._live_socket(), deadline_s, self._clock)
        return self._exchange(new, request, max_body_bytes=max_body_bytes)

    def abort(self) -> None:
        """End the current exchange from another thread, and make later ones fail."""
        self._aborted = True
        raw = self._raw
        if raw is not None:
            try:
                # SSLSocket.shutdown would first make the socket one without TLS, while the other thread still sends.
                socket.socket.shutdown(raw, socket.SHUT_RDWR)
            except OSError:
                return

    def close(self) -> None:
        """Close the kept connection, if there is one. Only the thread that calls `run` may do so."""
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def _is_usable(self, raw: socket.socket) -> bool:
        now_s = self._clock()
        if now_s - self._idle_since_s > MAX_IDLE_S or now_s - self._made_s > MAX_AGE_S:
            return False
        # An idle connection has nothing to read. If it has, the server closed it, or breaks the protocol.
        if isinstance(raw, ssl.SSLSocket) and raw.pending():
            return False
        poll = select.poll()
        poll.register(raw, select.POLLIN)
        return not poll.poll(0)

    def _exchange(self, limited: _DeadlineSocket, request: Request, *, max_body_bytes: int) -> Answer:
        """Return the answer, and close the connection unless it can be used again."""
        keep = False
        try:
            connection = http.client.HTTPConnection(self._url.hostname or "")
            connection.sock = cast("socket.socket", limited)
            headers = {"Host": self._url.netloc, **request.headers}
            connection.request(request.method, request.path, body=request.body, headers=headers)
            response = connection.getresponse()
            headers_lower = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, headers_lower, _read_body(response, max_body_bytes=max_body_bytes))
            keep = not response.will_close and limited.is_at_end and 200 <= answer.status < 500
            return answer
        finally:
            self._idle_since_s = self._clock()
            if not keep:
                self.close()

    def _connect(self, deadline_s: float) -> None:
        self._require_not_aborted()
        host, port = self._url.hostname or "", self._url.port or (443 if self._tls is not None else 80)
        context = self._tls() if self._tls is not None else None
        self._raw = connect(host, port, deadline_s=deadline_s, clock=self._clock)
        self._made_s = self._clock()
        if context is None:
            return
        try:
            secured = context.wrap_socket(self._raw, server_hostname=host, do_handshake_on_connect=False)
            # `abort` can end the handshake, too.
            self._raw = secured
            self._require_not_aborted()
            secured.settimeout(remaining_s(deadline_s, self._clock))
            secured.do_handshake()
        except BaseException:
            self.close()
            raise

    def _live_socket(self) -> socket.socket:
        self._require_not_aborted()
        if self._raw is None:
            raise ConnectionAbortedError("the connection is closed")
        return self._raw

    def _require_not_aborted(self) -> None:
        if self._aborted:
            raise ConnectionAbortedError("the exchange was ended by the agent")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: authorities to trust (None: the system's), and the client's own certificate and key, if it has one.

    The key may stand in the file of the certificate.
    """

    ca_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None


class ClientTls:
    """Makes the SSL context of a connection."""

    def __init__(self, files: TlsFiles) -> None:
        """Load the files. Raises SettingsError where one cannot be used."""
        self._files = files
        self._seen = self._stamps()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Raises SettingsError where a changed file cannot be used."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._context = self._load()
            self._seen = stamps
        return self._context

    def _load(self) -> ssl.SSLContext:
        files = self._files
        try:
            context = ssl.create_default_context(cafile=files.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"ca_file {files.ca_file}: expected certificates in PEM form, got {error}") from error
        cert_file, key_file = files.client_cert_file, files.client_key_file
        if cert_file is None:
            return context
        what = "client_cert_file" if key_file is None else "client_key_file"
        read_secret(what, key_file or cert_file, max_bytes=_MAX_KEY_BYTES)
        try:
            # Without a passphrase of its own OpenSSL would ask for one at the terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"client_cert_file {cert_file}: expected a certificate and its key without a passphrase, got {error}"
            ) from error
        return context

    def _stamps(self) -> list[FileStamp | None]:
        return [file_stamp(path) for path in astuple(self._files)]


def file_stamp(path: str | Path | None) -> FileStamp | None:
    """Return what changes with the content of a file, or None for no file."""
    try:
        found = Path(path).stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
