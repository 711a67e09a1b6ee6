# SPDX-License-Identifier: MIT
"""R-TCP's file `clients` in a running kernel (guest/clients.py): who may use it, and what a write forgets."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.vm import boot
from tests.vm.boot import Found, result_of
from tests.vm.job import job
from tests.vm.lines import FULL_LINES, LONG
from tests.vm.subjects import RTCP_CUBIC

pytestmark = pytest.mark.vm

NAME = f"clients:{RTCP_CUBIC.cca}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The program's outcome."""
    folder = tmp_path_factory.mktemp("clients")
    return boot.run_programs(FULL_LINES[-1], [NAME], job(folder, long=LONG), folder=folder, timeout_s=600)


@pytest.fixture(scope="module")
def found(ran: Found) -> Any:
    """What the program found."""
    return result_of(ran, "clients", RTCP_CUBIC)


def test_nothing_is_in_the_kernel_log(ran: Found, found: Any) -> None:
    del found
    assert ran[NAME].complaints == []


def test_addresses_are_shown_to_the_capability_alone(found: Any) -> None:
    assert found["mode"] == "0o600"
    assert found["root"] == "0"
    assert found["nobody"] == str(errno.EACCES)
    assert found["powerless"] == "Operation not permitted"


def test_clients_are_forgotten_on_request(found: Any) -> None:
    seen = found["forgotten"]
    both = {"127.0.0.1": "1", "::/64": "0"}
    assert seen["known"] == both
    assert set(seen["refused"]) == {errno.EINVAL}
    assert seen["not there"] == [errno.ENOENT, errno.ENOENT]
    assert seen["all or none"] == [errno.ENOENT, both]
    assert seen["without connections"] == [0, {"127.0.0.1": "1"}]
    assert seen["with one"] == [0, {"127.0.0.1": "1"}]
    assert seen["received"] == 6000
    assert seen["all"] == [0, {}]


def test_a_namespaces_table_is_made_when_its_first_connection_begins(found: Any) -> None:
    # The first one has a client of its own: it begins where nothing can wait for memory.
    assert found["first use"] == ["0", "1"]


def test_a_retransmission_is_no_start_of_a_transfer(found: Any) -> None:
    # A start with each send, of which there are two.
    assert found["retransmitted"]["timeouts"] >= 1
    assert found["retransmitted"]["starts"] == 2
