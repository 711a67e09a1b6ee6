# SPDX-License-Identifier: MIT
"""Which deaths of a guest are the emulator's: by a stand-in for the guest, which dies as asked."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from emulation.vm import GuestError, GuestResult
from tests.vm import boot

INT3 = "the console:\n[ 1.99] Oops: int3: 0000 [#1] PREEMPT SMP\n[ 1.99] CPU: 1 PID: 0 Comm: swapper/1\n"
IN_THE_RECEIVE_PATH = f"{INT3}[ 1.99] RIP: 0010:__netif_receive_skb_core.constprop.0+0x9a/0xfd0\n"


class Guest:
    """Dies so many times, before its command begins or after that, and then runs."""

    def __init__(self, deaths: int, words: str = INT3, *, begun: bool = False) -> None:
        self.deaths, self.words, self.begun = deaths, words, begun
        self.boots = 0

    def __call__(self, *_: Any, files: Path, **__: Any) -> GuestResult:
        self.boots += 1
        (files / ".guest").mkdir(exist_ok=True)
        if self.begun:
            (files / ".guest" / "stdout").touch()
        if self.boots <= self.deaths:
            raise GuestError(self.words)
        return GuestResult(status=0, stdout="", stderr="", kernel_log="", files=files)


@pytest.mark.parametrize(
    ("guest", "boots", "runs"),
    [
        pytest.param(Guest(0), 1, True, id="none"),
        pytest.param(Guest(2), 3, True, id="twice"),
        pytest.param(Guest(3), 3, False, id="again and again"),
        pytest.param(Guest(1, IN_THE_RECEIVE_PATH, begun=True), 2, True, id="in the receive path"),
        pytest.param(Guest(2, IN_THE_RECEIVE_PATH, begun=True), 2, False, id="in the receive path again"),
        pytest.param(Guest(1, f"{INT3}RIP: 0010:gr_on_ack+0x1 [tcp_gr]", begun=True), 1, False, id="elsewhere, later"),
        pytest.param(Guest(1, "the console:\nBUG: unable to handle page fault"), 1, False, id="of something else"),
    ],
)
def test_a_guest_that_dies_of_the_emulator_is_booted_anew_with_a_warning(
    guest: Guest, boots: int, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "run_in_guest", guest)
    warned = pytest.warns(UserWarning, match="booted anew") if boots > 1 else nullcontext()
    with warned, nullcontext() if runs else pytest.raises(GuestError):
        boot.run_booted("6.12", ["true"], timeout_s=1, folder=tmp_path, own_clock=False)
    assert guest.boots == boots
