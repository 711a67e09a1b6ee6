# SPDX-License-Identifier: MIT
"""The command `ccatune demo`: it runs the whole pipeline once, with the same commands that a person would type.

    1. train on recorded links, or on generated ones if there are none
    2. start a registry, and publish the ensemble to it
    3. let the agent apply the ensemble, to this machine's kernel if possible, otherwise to a stand-in (demo_kernel.py)
    4. on this machine's kernel: send a flow under the ensemble
    5. evaluate the gain on epochs that were not used for training

All files are written to one folder. The registry keeps running at the end if the output is a terminal and not JSON;
--keep and --no-keep override this.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from emulation.errors import EmulationError
from emulation.scenario.files import read_document
from emulation.traces import default_traces
from kmod.terminal import echo, visible
from serving.errors import ServingError

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "configs" / "studies" / "gr-demo.yaml"
MODELS = ROOT / "configs" / "traces"
MADE_S = 1200
FLOWS = 30  # of a dataset: the demo takes less than three minutes with them
START_S = 30.0


@click.command()
@click.option("--traces", type=click.Path(exists=True, path_type=Path), help="Traces of your own: a file or folder.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"), show_default=True,
              help="Folder for all that it writes.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the registry; 0 takes a free one.")
@click.option("--keep/--no-keep", default=None, help="Leave the registry running.  [at a terminal: keep]")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON, last.")
def demo(*, traces: Path | None, out: Path, port: int, keep: bool | None, as_json: bool) -> None:
    """Run the whole pipeline once: train, publish, apply, and show the gain.

    \b
    Example:
      ccatune demo
      ccatune demo --traces recordings/ --out /tmp/demo --no-keep
    """
    began = time.monotonic()
    signal.signal(signal.SIGTERM, _exit)
    out.mkdir(parents=True, exist_ok=True)
    keep = sys.stdout.isatty() and not as_json if keep is None else keep
    say = Say(quiet=as_json)
    links = _links(traces, out, say)
    paths = read_document(STUDY)["workload"].get("paths")
    ensemble, picture = out / "gr.json", out / "gain.png"

    say.step("Train: the best parameters for each target delay, over paths of all kinds")
    say.run("train", "gr", "--study", STUDY, *links, "--out", ensemble, "--fresh")
    with _registry(out, port=port, keep=keep) as url:
        say.step("Publish: an immutable ensemble, and the channel that points to it")
        say.run("publish", ensemble, "--channel", "champion", "--note", "demo", "--url", url)
        applied, flow = _apply(say, url, out, traces=links[1])
        say.step("Judge: flows over recordings and paths that nobody trained on")
        over = ("--paths", paths) if paths else ()
        shown = say.capture("evaluate", ensemble, *links, *over, "--flows", FLOWS, "--plot", picture, "--json")
        figures = json.loads(shown)
        say.last(figures, {
            "took": f"{time.monotonic() - began:.0f} s",
            "ensemble": str(ensemble),
            "picture": str(picture),
            **({"flow": flow["picture"]} if flow else {}),
            "pages": f"{url}/ui/",
            "API": f"{url}/v1/docs"
            + ("" if keep else f"  (ended; again: ccatune serve --open --database {_database(out)})"),
        })  # fmt: skip
    if as_json:
        places = {"ensemble": str(ensemble), "picture": str(picture)}
        echo(json.dumps({**figures, **places, "applied": applied, "flow": flow}))


class Say:
    """Prints the steps, and runs ccatune's commands in subprocesses. `quiet`: print no steps."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._number = 0

    def step(self, text: str) -> None:
        """Print a numbered heading."""
        self._number += 1
        if not self._quiet:
            click.secho(f"\n{self._number}. {text}", bold=True)  # noqa: TID251 (the demo's own words)

    def line(self, text: str) -> None:
        """Print text."""
        if not self._quiet:
            echo(text)

    def run(self, *words: object, program: str = "ccatune", environment: Mapping[str, str] | None = None) -> None:
        """Run a command and show its output. Raises ServingError where it fails.

        environment: variables of the command besides those of this process.
        """
        added = dict(environment or {})
        self._announce([*(f"{name}={value}" for name, value in added.items()), program, *words])
        stdout = sys.stderr if self._quiet else None
        done = subprocess.run(_command(words, program=program), stdout=stdout, env={**os.environ, **added}, check=False)
        self._require(done.returncode, (program, *words))

    def capture(self, *words: object) -> str:
        """Run a command and return its standard output; show its standard error. Raises ServingError where it fails."""
        self._announce(["ccatune", *words])
        done = subprocess.run(_command(words), stdout=subprocess.PIPE, text=True, check=False)
        self._require(done.returncode, ("ccatune", *words))
        return done.stdout

    def last(self, figures: dict[str, Any], places: dict[str, str]) -> None:
        """Print the table of gains, and where the results are."""
        if self._quiet:
            return
        from training.reports.gain import gain_lines

        echo("\n".join(["", *gain_lines(figures), ""]))
        for name, place in places.items():
            echo(f"{name + ':':<10} {place}")

    def _announce(self, words: Sequence[object]) -> None:
        if not self._quiet:
            shown = visible(" ".join(_short(word) for word in words))
            click.secho(f"$ {shown}", dim=True)  # noqa: TID251 (visible)

    @staticmethod
    def _require(status: int, words: Sequence[object]) -> None:
        if status != 0:
            raise ServingError(f"demo: expected `{words[0]} {words[1]}` to succeed, it exited {status}; see above")


def _exit(number: int, _: FrameType | None) -> None:
    """End by an exception, so that everything is cleaned up; the status is that of a process that the signal ended."""
    sys.exit(128 + number)


def _short(word: object) -> str:
    return os.path.relpath(word) if isinstance(word, Path) else str(word)


def _command(words: Sequence[object], *, program: str = "ccatune") -> list[str]:
    start = [str(ROOT / "ccatune.py")] if program == "ccatune" else ["-m", "serving.agent"]
    return [sys.executable, *start, *map(str, words)]


def _links(traces: Path | None, out: Path, say: Say) -> tuple[str, Path]:
    """Return the option for the traces: those of the caller, else recorded ones, else generated ones."""
    folder = traces or default_traces()
    if folder is not None:
        return "--traces", folder
    say.step("Make links: there are no recorded ones (set TRACES=folder to use yours)")
    made = out / "traces"
    made.mkdir(exist_ok=True)
    for seed, model in enumerate(sorted(MODELS.glob("*.json")), start=1):
        say.run("traces", "make", model, "--duration", MADE_S, "--seed", seed, "-o", made / f"{model.stem}.down")
    return "--traces", made


def _apply(say: Say, url: str, out: Path, *, traces: Path) -> tuple[str, dict[str, Any] | None]:
    """Let the agent apply the ensemble, and send a flow if the kernel took it.

    Returns a sentence that says what the agent wrote to, and the figures of the flow.
    """
    from serving.commands.demo_kernel import flow_lines, opened, send_flow

    say.step("Apply: the agent checks, writes, reads back")
    with opened(out) as target:
        say.line(target.what)
        words = ("--url", url, "--cca", "gr", "--once", *target.options)
        say.run(*words, program="ccatune-agent", environment=target.environment)
        say.line("Unsigned: nothing is signed in this demo, so the agent cannot verify who made the table.")
        if target.bpf is None:
            return target.what, None
        say.step("Send: a flow of this machine's kernel over a recorded link, under the ensemble")
        try:
            flow = send_flow(target.bpf, traces=traces, picture=out / "flow.png")
        except EmulationError as error:
            echo(f"The flow could not be sent: {error}", err=True)
            return target.what, None
        say.line("\n".join(flow_lines(flow)))
        return target.what, flow


def _database(out: Path) -> str:
    return f"sqlite:///{out / 'registry.db'}"


@contextlib.contextmanager
def _registry(out: Path, *, port: int, keep: bool) -> Iterator[str]:
    """Start a registry, and yield its URL. It is stopped at the end of the block, unless `keep` is set.

    An error in the block always stops it.
    """
    ready = out / "registry.url"
    ready.unlink(missing_ok=True)
    words = ("serve", "--open", "--database", _database(out), "--port", port, "--ready-file", ready)
    with (out / "registry.log").open("wb") as log:
        process = subprocess.Popen(_command(words), stdout=log, stderr=log, start_new_session=keep)
    try:
        yield _wait_for(ready, process)
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _wait_for(ready: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if ready.exists():
            return ready.read_text(encoding="ascii").strip()
        time.sleep(0.05)
    raise ServingError(f"demo: expected the registry to answer within {START_S:.0f} s; see {ready.with_suffix('.log')}")
