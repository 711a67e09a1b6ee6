# SPDX-License-Identifier: MIT
"""Which deaths of a guest are the emulator's: by a stand-in for the guest, which dies as asked."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from emulation.vm import GuestError, GuestResult
from tests.vm import boot

INT3 = "the console:\n[ 1.99] Oops: int3: 0000 [#1] PREEMPT SMP"


class Guest:
    """Dies so many times, before its command begins or behind that, and then runs."""

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
        pytest.param(Guest(1, begun=True), 1, False, id="behind the command's beginning"),
        pytest.param(Guest(1, "the console:\nBUG: unable to handle page fault"), 1, False, id="of something else"),
    ],
)
def test_a_guest_that_dies_of_the_emulator_as_it_boots_is_booted_anew(
    guest: Guest, boots: int, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "run_in_guest", guest)
    with nullcontext() if runs else pytest.raises(GuestError):
        boot.run_booted("6.12", ["true"], timeout_s=1, folder=tmp_path, own_clock=False)
    assert guest.boots == boots
