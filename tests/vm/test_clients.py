# SPDX-License-Identifier: MIT
"""R-TCP's file `clients` in a running kernel (guest/clients.py): who may use it, and what a write forgets."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.vm.boot import Found, result_of
from tests.vm.lines import FULL_LINES
from tests.vm.subjects import RTCP_CUBIC

pytestmark = [pytest.mark.vm, pytest.mark.parametrize("found", FULL_LINES, indirect=True)]


@pytest.fixture
def seen(found: Found) -> Any:
    """What the program found, in the modules' boot."""
    return result_of(found, "clients", RTCP_CUBIC)


def test_addresses_are_shown_to_the_capability_alone(seen: Any) -> None:
    assert seen["mode"] == "0o600"
    assert seen["root"] == 0
    assert seen["nobody"] == errno.EACCES
    assert seen["powerless"] == errno.EPERM


def test_clients_are_forgotten_on_request(seen: Any) -> None:
    told = seen["forgotten"]
    both = {"127.0.0.1": "1", "::/64": "0"}
    assert told["known"] == both
    assert set(told["refused"]) == {errno.EINVAL}
    assert told["not there"] == [errno.ENOENT, errno.ENOENT]
    assert told["all or none"] == [errno.ENOENT, both]
    assert told["without connections"] == [0, {"127.0.0.1": "1"}]
    assert told["with one"] == [0, {"127.0.0.1": "1"}]
    assert told["received"] == 6000
    assert told["all"] == [0, {}]


def test_a_namespaces_table_is_made_when_its_first_connection_begins(seen: Any) -> None:
    # The first one has a client of its own: it begins where nothing can wait for memory.
    assert seen["first use"] == ["0", "1"]


def test_a_retransmission_is_no_start_of_a_transfer(seen: Any) -> None:
    # A start with each send, of which there are two.
    assert seen["retransmitted"]["timeouts"] >= 1
    assert seen["retransmitted"]["starts"] == 2
