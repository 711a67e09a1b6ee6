# SPDX-License-Identifier: MIT
"""Schemes as a test finds them: ours, and those of a checkout of Pantheon."""

from __future__ import annotations

import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from emulation.errors import EmulationError
from emulation.pantheon import schemes
from emulation.pantheon.cli import _row, not_installed
from emulation.pantheon.schemes import Scheme, SchemeError, read_schemes, schemes_of
from tests.emulation.pantheon.checkout import make_checkout
from tests.emulation.tables import ensemble_of

WRAPPER = "import sys\nif sys.argv[1] == 'run_first':\n    print({answer!r})\n"


@pytest.fixture(autouse=True)
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCATUNE_SCHEMES", str(tmp_path / "schemes"))


def scheme(tmp_path: Path, text: str) -> Scheme:
    wrapper = tmp_path / "it.py"
    wrapper.write_text(text)
    return Scheme("it", "It", "blue", "o", wrapper)


def test_the_schemes_of_ccatune_all_answer_which_end_listens() -> None:
    found = read_schemes()
    assert {"cubic", "bbr", "gr", "roccet", "rtcp_cubic"} <= found.keys()
    # It is not in config.yml, but has a module.
    assert (found["sira"].label, found["sira"].leading, found["sira"].cca) == ("SIRA", ("sira",), "sira")
    assert {each.run_first() for each in found.values()} <= {"receiver", "sender"}
    assert all(each.is_built_in and each.label for each in found.values())


def test_the_list_of_schemes_names_what_each_lacks() -> None:
    known = read_schemes()
    problem = _row(known["tquic-copa"])["problem"]
    assert problem.startswith("expected cargo") or "setup --schemes tquic-copa`" in problem
    assert "expected this kernel to have nosuch" in _row(replace(known["cubic"], leading=("nosuch",)))["problem"]
    assert not_installed(["bash", "nosuch"]) == ["nosuch"]


def test_a_checkout_has_its_own_schemes_and_none_of_ours(tmp_path: Path) -> None:
    found = read_schemes(make_checkout(tmp_path))
    assert {name: each.run_first() for name, each in found.items()} == {
        "receiver_first": "receiver",
        "sender_first": "sender",
        "crashing": "receiver",
        "hanging": "receiver",
        "after_reboot": "receiver",
    }
    assert not any(each.is_built_in for each in found.values())


def test_a_name_with_a_target_is_the_scheme_with_that_delay_class() -> None:
    known = read_schemes()
    gr, slow = schemes_of(["gr", "gr-100ms"], known)
    assert (gr.target, slow.target, slow.label) == ("", "100ms", "GR 100 ms")
    assert slow.wrapper == gr.wrapper
    for names, message in (
        (["nobody"], "got nobody"),
        (["cubic-50ms"], "got cubic-50ms"),
        (["gr", "gr"], "got gr twice"),
    ):
        with pytest.raises(EmulationError, match=message):
            schemes_of(names, known)


def test_a_wrapper_in_python_2_runs_with_python2_or_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = scheme(tmp_path, "import helper\n")
    (tmp_path / "helper.py").write_text("import os\nprint 'receiver'\n")
    monkeypatch.setattr(schemes, "_python2", lambda: "")
    with pytest.raises(SchemeError, match=r"it: its wrapper is written in Python 2 \(helper.py, line 2\)"):
        older.run_first()
    monkeypatch.setattr(schemes, "_python2", lambda: "/opt/python2")
    assert older.words("deps")[0] == "/opt/python2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WRAPPER.format(answer="both"), "expected `run_first` to print receiver or sender, got 'both'"),
        ("raise SystemExit('no luck')", "expected `run_first` to succeed, got status 1: no luck"),
        ("import time\ntime.sleep(600)", "expected `run_first` to end within 0.5 s, it hangs"),
    ],
)
def test_a_wrapper_that_fails_or_hangs_is_named(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scheme.ask, "__kwdefaults__", {"limit_s": 0.5 if "sleep" in text else 20.0})
    with pytest.raises(SchemeError) as refused:
        scheme(tmp_path, text).run_first()
    assert str(refused.value) == f"it: {message}"


def test_a_missing_wrapper_and_a_folder_that_is_no_checkout_are_named(tmp_path: Path) -> None:
    with pytest.raises(SchemeError, match=r"it: expected its wrapper .*none.py, found none"):
        Scheme("it", "It", "", "", tmp_path / "none.py").run_first()
    with pytest.raises(EmulationError, match=r"expected a checkout of Pantheon with src/config\.yml"):
        read_schemes(tmp_path)


def test_after_a_restart_a_scheme_is_prepared_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    it = scheme(tmp_path, f"import sys\nopen({str(log)!r}, 'a').write(sys.argv[1] + ' ')\n")
    it.prepare()
    it.prepare()
    it.set_up()
    assert log.read_text().split() == ["setup_after_reboot", "setup", "setup_after_reboot"]


def test_the_priority_of_a_socket_chooses_the_class_of_an_ensemble() -> None:
    from emulation.pantheon.flows import _priority

    ensemble = ensemble_of(((35_000,), (70_000,)), classes_ms=(50, 100), epoch_ms=30_000)
    default, slow, none = schemes_of(["gr", "gr-100ms", "gr-75ms"], read_schemes())
    assert _priority(default, {"gr": ensemble}) == ""
    assert _priority(slow, {"gr": ensemble}) == "2"
    with pytest.raises(SchemeError, match=r"gr-75ms: expected a delay class of the ensemble \(50ms, 100ms\), got 75ms"):
        _priority(none, {"gr": ensemble})
    with pytest.raises(SchemeError, match="expected an ensemble with classes, got none; use --ensemble gr=FILE"):
        _priority(slow, {})


def test_a_verb_that_prints_without_end_or_leaves_its_output_open_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemes, "_MOST_OUTPUT_BYTES", 1 << 20)
    with pytest.raises(SchemeError, match="expected `deps` to print at most 1 MiB"):
        scheme(tmp_path, "while True:\n    print('x' * 9999)\n").deps()
    leaves = "import subprocess\nprint('receiver')\nsubprocess.Popen(['sleep', '5'])\n"
    assert scheme(tmp_path, leaves).run_first() == "receiver"


def test_under_sudo_builds_are_in_the_cache_of_the_user_that_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCATUNE_SCHEMES")
    monkeypatch.setenv("SUDO_UID", "65534")
    assert schemes.builds() == Path(pwd.getpwuid(65534).pw_dir) / ".cache" / "ccatune" / "schemes"
    monkeypatch.setenv("SUDO_UID", "abc")
    assert schemes.caller() is None


def test_a_wrapper_calls_its_interpreter_by_the_name_python(tmp_path: Path) -> None:
    asks = (
        "import os, subprocess\nsubprocess.run(['python', '-c', 'print(\"receiver\")'], env=os.environ, check=True)\n"
    )
    found = scheme(tmp_path, asks)
    assert found.run_first() == "receiver"
    first = Path(schemes.environment(found)["PATH"].split(":")[0], "python")
    assert schemes.interpreter(found) in first.read_text()
