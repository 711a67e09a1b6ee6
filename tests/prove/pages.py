# SPDX-License-Identifier: MIT
"""The pages at scale, and their pictures.

    python -m tests.prove.pages --agents 10000          how long a browser takes for the first page and the fleet
    python -m tests.prove.pages --pictures docs/pages   takes the pictures of docs/dashboard.md

The fleet is made, and the registry runs in this process. A page is complete at the end of its load event.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import click
from PIL import Image
from playwright.sync_api import Browser

from kmod.terminal import echo
from serving.database import Database, migrate
from tests.serving.dashboard.browser import Watched, chromium
from tests.serving.dashboard.filled import SETTINGS, Filled, fill
from tests.serving.running import Running

LIMIT_S = 1.5
N_LOADS = 7
# Pictures: name, path, width and colour scheme.
WIDE, NARROW, MOST_HEIGHT = 1100, 360, 1400
_CHANNEL = "channels/gr/champion"


def pictures_of(filled: Filled) -> list[tuple[str, str, int, bool]]:
    """Return the pictures of docs/dashboard.md."""
    ensemble = f"ensembles/{filled.digests[1]}?against={filled.digests[0]}"
    pages = {"overview": "", "fleet": "fleet", "channel": _CHANNEL, "rollout": f"{_CHANNEL}/rollouts/2",
             "ensemble": ensemble, "job": "jobs/2"}  # fmt: skip
    wide = [(f"{name}", f"/ui/{path}", WIDE, name in {"fleet", "rollout"}) for name, path in pages.items()]
    return [
        *wide,
        ("overview-narrow", "/ui/", NARROW, False),
        ("rollout-narrow", f"/ui/{pages['rollout']}", NARROW, True),
    ]


def take(browser: Browser, filled: Filled, *, folder: Path) -> None:
    """Take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path, width, dark in pictures_of(filled):
        with Watched(browser, url=filled.url, width=width, dark=dark) as window:
            page = window.open(path)
            height = min(MOST_HEIGHT, int(page.evaluate("document.documentElement.scrollHeight")))
            page.screenshot(path=folder / f"{name}.png", clip={"x": 0, "y": 0, "width": width, "height": height},
                            full_page=True)  # fmt: skip
            with Image.open(folder / f"{name}.png") as picture:
                picture.convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
                    folder / f"{name}.png", optimize=True
                )


def load_s(browser: Browser, url: str, path: str) -> list[float]:
    """Return how long the page took, each time in a browser profile of its own."""
    found = []
    for _ in range(N_LOADS):
        with Watched(browser, url=url) as window:
            page = window.open(path)
            timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
            page.wait_for_function(f"{timing} > 0")
            found.append(float(page.evaluate(timing)) / 1000)
    return found


@click.command()
@click.option("--agents", "n_agents", type=int, default=10_000, show_default=True, help="Agents of the fleet.")
@click.option("--pictures", type=click.Path(file_okay=False, path_type=Path), help="Take pictures into this folder.")
def main(*, n_agents: int, pictures: Path | None) -> None:
    """Load the pages of a registry in Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/registry.db")
        migrate(database)
        if pictures is None:
            filled = fill(database, html="", n_idle_agents=n_agents - 40)
        else:
            filled = fill(database, html="(made)", n_agents=320, hours=30)
        with Running(database, **SETTINGS) as running, chromium() as browser:
            filled.url = running.url
            if pictures is not None:
                take(browser, filled, folder=pictures)
                return
            for path in ("/ui/", "/ui/fleet"):
                times_s = load_s(browser, running.url, path)
                echo(f"{path} with {n_agents:,} agents: median {statistics.median(times_s):.2f} s, "
                     f"largest {max(times_s):.2f} s of {N_LOADS}")  # fmt: skip
                if path == "/ui/" and max(times_s) > LIMIT_S:
                    raise SystemExit(f"expected the first page within {LIMIT_S} s")
        database.close()


if __name__ == "__main__":
    main()
