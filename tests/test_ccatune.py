# SPDX-License-Identifier: MIT
"""The command line's table, its laziness and its way with errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ccatune
from ccatune import COMMANDS, LazyCommand
from kmod.errors import CcatuneError


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> type:
    """A command `probe` in the table, whose behaviour a test sets as `probe.act`."""

    class Probe:
        act = staticmethod(lambda: None)

    module = type(sys)("probe_module")
    module.command = click.Command("probe", callback=lambda: Probe.act())  # noqa: PLW0108 (act is set later)
    monkeypatch.setitem(sys.modules, "probe_module", module)
    monkeypatch.setitem(COMMANDS, "probe", LazyCommand("probe_module:command", "training", "For tests."))
    return Probe


def raise_(error: BaseException) -> None:
    raise error


def test_help_lists_every_command_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run(["--help"]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    for name, row in COMMANDS.items():
        assert f"{name} {row.summary}" in lines


def test_help_imports_no_area_and_no_heavy_library() -> None:
    code = (
        "import ccatune, sys\n"
        "ccatune.run(['--help'])\n"
        "heavy = {'emulation', 'training', 'serving', 'numpy', 'pydantic', 'rich', 'fastapi', 'sqlalchemy'}\n"
        "print('imported:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("imported: []\n")


def test_working_copy_runs_its_own_files(repository: Path, tmp_path: Path) -> None:
    code = "import ccatune, kmod; print(ccatune.__file__); print(kmod.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(repository / "ccatune.py"), str(repository / "kmod" / "__init__.py")]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_exists_and_its_help_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run([name, "--help"]) == 0
    assert "ccatune" in capsys.readouterr().out.split("Example", 1)[1]


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run(["no-such"]) == 2
    assert "ccatune: No such command 'no-such'" in capsys.readouterr().err


def test_missing_dependency_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.setitem(sys.modules, "sqlalchemy.orm", None)
    monkeypatch.setitem(COMMANDS, "probe", LazyCommand("sqlalchemy.orm:Session", "serving", "For tests."))
    assert ccatune.run(["probe"]) == 2
    assert "pip install 'ccatune[serving]'" in capsys.readouterr().err


def test_dependency_missing_at_run_time_names_the_extra_too(probe: type, capsys: pytest.CaptureFixture[str]) -> None:
    probe.act = lambda: raise_(ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"))
    assert ccatune.run(["probe"]) == 2
    error = (
        "ccatune: probe: expected module matplotlib, which is not installed; run `pip install 'ccatune[training]'`\n"
    )
    assert capsys.readouterr().err == error


def test_engine_that_is_not_built_asks_for_make_build(probe: type, capsys: pytest.CaptureFixture[str]) -> None:
    probe.act = lambda: raise_(ModuleNotFoundError("No module", name="emulation._engine"))
    assert ccatune.run(["probe"]) == 2
    assert "make build" in capsys.readouterr().err


def test_error_for_the_user_is_one_line_without_traceback(probe: type, capsys: pytest.CaptureFixture[str]) -> None:
    probe.act = lambda: raise_(CcatuneError("a.down: expected a trace, got nothing; name another file"))
    assert ccatune.run(["probe"]) == 2
    assert capsys.readouterr().err == "ccatune: a.down: expected a trace, got nothing; name another file\n"


@pytest.mark.parametrize("fault", [ZeroDivisionError("a bug"), ConnectionRefusedError(111, "Connection refused")])
def test_fault_of_ours_is_raised(probe: type, fault: Exception) -> None:
    probe.act = lambda: raise_(fault)
    with pytest.raises(type(fault)):
        ccatune.run(["probe"])


def test_fault_of_ours_has_a_status_of_its_own(probe: type, capsys: pytest.CaptureFixture[str]) -> None:
    probe.act = lambda: raise_(ZeroDivisionError("a bug"))
    with pytest.raises(SystemExit) as ended:
        ccatune.main(["probe"])
    assert ended.value.code == 70
    assert capsys.readouterr().err.endswith("ZeroDivisionError: a bug\n")


def test_a_file_that_cannot_be_used_is_named(probe: type, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probe.act = lambda: (tmp_path / "nowhere" / "a.json").write_text("{}", encoding="utf-8")
    assert ccatune.run(["probe"]) == 2
    said = f"ccatune: {tmp_path}/nowhere/a.json: cannot be used (No such file or directory)\n"
    assert capsys.readouterr().err == said


def test_an_output_that_takes_nothing_is_told_in_a_line() -> None:
    command = [sys.executable, "-m", "ccatune", "--help"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    said = "ccatune: the output: cannot be used (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(("act", "status"), [(lambda: None, 0), (lambda: 1, 1)])
def test_what_a_command_returns_is_the_exit_status(probe: type, act: object, status: int) -> None:
    probe.act = act
    assert ccatune.run(["probe"]) == status


def test_exit_through_click_is_the_exit_status(probe: type) -> None:
    probe.act = lambda: click.get_current_context().exit(1)
    assert ccatune.run(["probe"]) == 1


def test_a_group_without_a_command_prints_its_help_once(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["channels"], ["traces"]):
        assert ccatune.run(words) == 2
        error = capsys.readouterr().err
        assert (error.count("Usage:"), error.startswith("Usage: ccatune")) == (1, True)


def test_an_interrupted_command_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.commands.run_train", interrupted)
    assert ccatune.run(["train", "gr"]) == 130
    assert "run the same command with --resume to continue" in capsys.readouterr().err


def test_interrupt_exits_as_the_shell_expects(probe: type) -> None:
    probe.act = lambda: raise_(KeyboardInterrupt())
    assert ccatune.run(["probe"]) == 130


def names_of(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below one, with its words."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from names_of(below, f"{path} {name}".strip())


def test_names_of_commands_and_options_follow_one_pattern() -> None:
    from serving.agent.cli import agent

    found = dict(names_of(ccatune.cli))
    lists = [words for words in found if words.endswith(" list")]
    of = ["ensembles", "channels", "agents", "observations", "retrain", "jobs", "tokens", "people"]
    assert lists == [f"{name} list" for name in of]
    files = ("cert", "key", "ca", "token", "passphrase")
    for words, command in [*found.items(), *names_of(agent, "ccatune-agent")]:
        options = {name for parameter in command.params for name in parameter.opts}
        assert not options & {"--registry", "--trace"}, words
        # A command's option has one name, but for a short form.
        assert [p.opts for p in command.params if len([o for o in p.opts if o.startswith("--")]) > 1] == [], words
        if any(parameter.type.name == "path" for parameter in command.params):
            assert not {f"--{kind}-{name}" for kind in ("tls", "client") for name in files} & options, words
