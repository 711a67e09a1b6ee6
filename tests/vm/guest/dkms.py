# SPDX-License-Identifier: MIT
"""The DKMS package in the guest: add, build, install, load by name, remove."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import inside
import tree


def dkms(*words: str) -> str:
    """Run it; raises with its complaint and the build's log."""
    done = subprocess.run(["dkms", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        logs = [path.read_text()[-3000:] for path in Path("/var/lib/dkms").glob("ccatune/*/build/make.log")]
        raise RuntimeError(f"dkms {words}: status {done.returncode}: {done.stdout}{done.stderr}{logs}")
    return done.stdout


def with_few_modules(release: str) -> None:
    """Hide the kernel's own modules: depmod would read thousands of them, which takes a quarter of an hour here."""
    tree_of = Path("/lib/modules") / release
    few = Path("/run/few-modules")
    few.mkdir()
    for path in tree_of.iterdir():
        if path.is_symlink():
            (few / path.name).symlink_to(path.readlink())
        elif path.is_file():
            shutil.copyfile(path, few / path.name)
    inside.run("mount", "--bind", few, tree_of)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """What `dkms status` says at each step, and whether modprobe finds what was installed."""
    tree.unload_modules(job)
    source = Path(job["dkms_source"])
    shutil.copytree(source, Path("/usr/src") / source.name)
    name = "/".join(source.name.rsplit("-", 1))
    release = job["release"]
    with_few_modules(release)
    seen: dict[str, Any] = {}
    dkms("add", name)
    dkms("build", name, "-k", release)
    seen["built"] = dkms("status", name).strip()
    dkms("install", name, "-k", release)
    seen["installed"] = dkms("status", name).strip()
    modules = [subject["module"] for subject in job["subjects"].values()]
    for module in modules:
        inside.run("modprobe", module)
    seen["trees"] = sorted(path.name for path in tree.PLACE.iterdir())
    seen["from"] = [inside.run("modinfo", "-n", module).strip() for module in modules]
    for module in (*modules, "tcp_rtcp", "ccatune"):
        inside.run("rmmod", module)
    dkms("remove", name, "--all")
    seen["removed"] = dkms("status", name).strip()
    seen["left"] = sorted(path.name for path in Path(f"/lib/modules/{release}/updates").rglob("*.ko*"))
    return seen
