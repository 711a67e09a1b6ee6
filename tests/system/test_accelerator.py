# SPDX-License-Identifier: MIT
"""The files of configs/accelerator at work between a server and a phone, in network namespaces."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulation.mahimahi.namespace import shells, traffic
from emulation.mahimahi.namespace.shells import Space, call

HAPROXY = shutil.which("haproxy", path=shells.PATH)
NOBODY = ("--reuid=65534", "--regid=65534", "--clear-groups")
RIGHTS = ("--inh-caps=+net_admin,+net_bind_service", "--ambient-caps=+net_admin,+net_bind_service")
PHONES, SERVER = "10.9.2.0/30", "10.9.1.2"
# A connection that has it got it from the route, because it is no kernel's default.
ALGORITHM = "reno"


@dataclass(frozen=True)
class Network:
    proxy: Space
    server: Space
    phone: Space


@pytest.fixture
def network(repository: Path) -> Iterator[Network]:
    """A server and a phone, each on a link of the accelerator, which has the settings of the folder."""
    if HAPROXY is None:
        pytest.skip("not installed: haproxy")
    with shells.network_namespace() as proxy, ExitStack() as stack:
        call(*proxy.enter, "ip", "link", "set", "lo", "up")
        server = stack.enter_context(shells.veth(proxy.enter, "servers", "10.9.1"))
        phone = stack.enter_context(shells.veth(proxy.enter, "phones", "10.9.2"))
        for space, gateway in ((server, "10.9.1.1"), (phone, "10.9.2.1")):
            call(*space.enter, "ip", "route", "add", "default", "via", gateway)
        call(*proxy.enter, "sysctl", "-qp", repository / "configs" / "accelerator" / "90-ccatune-accelerator.conf")
        yield Network(proxy, server, phone)


def routes(network: Network, folder: Path, verb: str, **settings: str) -> None:
    variables = [f"{name}={value}" for name, value in {"PHONES": PHONES, "ALGORITHM": ALGORITHM, **settings}.items()]
    call(*network.proxy.enter, "env", *variables, folder / "accelerator-routes", verb)


def state_of(network: Network) -> tuple[str, ...]:
    words = ("ip route show table all", "ip rule", "nft list ruleset")
    return tuple(call(*network.proxy.enter, *each.split()) for each in words)


@contextmanager
def running(*words: str, stdin: str = os.devnull) -> Iterator[None]:
    with Path(stdin).open("rb") as file:
        words = ("setpriv", "--pdeathsig", "KILL", "--", *words)
        started = subprocess.Popen(words, stdin=file, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.kill()
        started.wait()


def algorithms(network: Network, *, own_port: int) -> dict[str, str]:
    """The algorithms of the accelerator's connections to the phone (own_port) and to the server (its port 443)."""
    found = {}
    for line in call(*network.proxy.enter, "ss", "-tinHO", "state", "established").splitlines():
        _, _, own, far, *words = line.split()
        algorithm = next(word for word in words if word not in {"ts", "sack", "ecn", "ecnseen"})
        if own.endswith(f":{own_port}"):
            found["phone"] = algorithm
        elif far.endswith(":443"):
            found["server"] = algorithm
    return found


def download(network: Network, *, host: str, port: int, configuration: Path) -> tuple[dict[str, str], str]:
    """Send data through HAProxy, as an ordinary user with the unit's rights.

    Returns the algorithms of both sides, and the client of the server's connection.
    """
    python = (sys.executable, "-I", "-S", traffic.__file__)
    send = (*network.server.enter, *python, "send", "--host", SERVER, "--port", "443", "--listen", "--seconds", "20")
    fetch = (*network.phone.enter, *python, "fetch", "--host", host, "--port", str(port), "--seconds", "20")
    haproxy = (*network.proxy.enter, "setpriv", *NOBODY, *RIGHTS, str(HAPROXY), "-db", "-f", "/dev/stdin")
    with running(*send), running(*haproxy, stdin=str(configuration)):
        # Without HAProxy a connection that is diverted goes to the server unchanged.
        await_true(lambda: ":8443" in call(*network.proxy.enter, "ss", "-tlnH"))
        with running(*fetch):
            await_true(lambda: len(algorithms(network, own_port=port)) == 2)
            found = algorithms(network, own_port=port)
            (connection,) = call(*network.server.enter, "ss", "-tnH", "state", "established").splitlines()
            return found, connection.split()[3].rpartition(":")[0]


def await_true(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.mark.mahimahi
@pytest.mark.parametrize("mode", ["explicit", "transparent"])
def test_an_accelerator_uses_its_algorithm_towards_phones_alone(
    mode: str, network: Network, repository: Path, tmp_path: Path
) -> None:
    folder, is_transparent = repository / "configs" / "accelerator", mode == "transparent"
    text = (folder / "haproxy.cfg").read_text().replace("203.0.113.10:443", f"{SERVER}:443")
    if is_transparent:
        start, end = text.index("#listen transparent"), len(text)
        text = text[:start] + re.sub("^#", "", text[start:end], flags=re.MULTILINE)
    configuration, rules = tmp_path / "haproxy.cfg", tmp_path / "tproxy.nft"
    configuration.write_text(text)
    rules.write_text((folder / "tproxy.nft").read_text().replace('"eth1"', '"phones"'))
    before = state_of(network)
    settings = {"TPROXY": "yes" if is_transparent else "no", "TPROXY_RULES": str(rules)}
    routes(network, folder, "up", **settings)
    routes(network, folder, "up", **settings)
    host, port = (SERVER, 443) if is_transparent else ("10.9.2.1", 8443)
    found, client = download(network, host=host, port=port, configuration=configuration)
    default = call(*network.proxy.enter, "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    assert default != ALGORITHM
    assert found == {"phone": ALGORITHM, "server": default}
    assert client == ("10.9.2.2" if is_transparent else "10.9.1.1")
    routes(network, folder, "down", **settings)
    assert state_of(network) == before


@pytest.mark.mahimahi
def test_routes_refuse_a_destination_without_a_route(network: Network, repository: Path) -> None:
    with pytest.raises(shells.ShellError, match=r"PHONES: expected one route to 10\.64\.0\.0/10, got: none"):
        routes(network, repository / "configs" / "accelerator", "up", PHONES="10.64.0.0/10")
