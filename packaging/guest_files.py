# SPDX-License-Identifier: MIT
"""Fetches the files of the virtual machine of the tier `vm`, kernels and Mahimahi, into a cache folder.

    <cache>/guest/<line>/        kernel image, modules and headers of one kernel line, unpacked; `release` names it
    <cache>/guest/<debian>-root/ the file system of a Debian release other than the machine's, below `files`; modules
                                 for the kernels of that release are built in it
    <cache>/guest/mahimahi/      Mahimahi and the two libraries that it was linked with, unpacked

emulation/vm/kernel-lines.json lists the lines and the tested release of each. If a tested release is no longer in the
archive, the next one of its line replaces it, with a message. If the archive has a newer one, there is a warning.

`<cache>` is $CCATUNE_CACHE, or else ~/.cache/ccatune. Nothing is installed, and no setting of the machine's package
manager changes: apt uses a source list and package lists in the cache. The source list is derived from the machine's
by replacing the name of the suite, because kernel lines are backports and Mahimahi was last packaged in Debian 11. The
downloads are unpacked with `dpkg -x`. mmdebstrap makes the file system, in a user namespace unless root runs it. Root
is not needed. Existing parts are kept. Two processes may run this at the same time. With arguments only the parts of
these names are fetched: `make demo` needs `mahimahi` alone.

If the machine has no apt, or its sources lack a suite, a message says which files are missing. The exit status is 0
nevertheless, because only the tiers `vm` and `mahimahi` need the files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# It runs before anything is installed.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from kmod.locks import locked


@dataclass(frozen=True, kw_only=True)
class Line:
    """A kernel line: its tested release, the suite that provides it, and the tests that run on it."""

    release: str
    suite: str
    tests: str

    @property
    def debian(self) -> str:
        """The name of the Debian release that the suite belongs to."""
        return self.suite.partition("-")[0]


LINES_FILE = Path(__file__).resolve().parents[1] / "emulation" / "vm" / "kernel-lines.json"
LINES = {name: Line(**fields) for name, fields in json.loads(LINES_FILE.read_text(encoding="utf-8")).items()}
MAHIMAHI_SUITE = "bullseye"
MAHIMAHI_PACKAGES = ("mahimahi", "libprotobuf23", "libssl1.1")
# The packages that build modules. The headers of a kernel name the compiler that built the kernel.
BUILD_PACKAGES = ("make", "gcc-14", "libelf1t64", "pahole", "kmod")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class FetchError(Exception):
    """Files could not be fetched or built; the message says which, and why."""


def cache_root() -> Path:
    """Return the folder that contains all parts of the cache."""
    named = os.environ.get("CCATUNE_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "ccatune") / "guest"


def run(*arguments: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return its standard output.

    Raises FetchError with the last line of standard error if the command fails.
    """
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            # depmod is not on an ordinary user's PATH.
            env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C"},
        )
    except OSError as error:
        raise FetchError(f"{arguments[0]}: {error.strerror}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["(no message)"]
        raise FetchError(f"{' '.join(str(a) for a in arguments[:2])}: {lines[-1]}")
    return done.stdout


def codename() -> str:
    """Return the name of the machine's Debian release. Raises FetchError on another system."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r"^VERSION_CODENAME=\"?([a-z]+)", text, re.MULTILINE)
    if not found or not re.search(r"^ID=debian$", text, re.MULTILINE):
        raise FetchError("expected a Debian release in /etc/os-release")
    return found.group(1)


class Apt:
    """apt with a separate source list and separate package lists, for one Debian release (by default the machine's)."""

    def __init__(self, root: Path, *, debian: str = "") -> None:
        self.root = root
        self.debian = debian
        self.options: list[str] = []

    def prepare(self) -> None:
        """Write the source list and fetch the package lists."""
        for folder in ("lists/partial", "archives/partial"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "sources.list").write_text("\n".join(self._sources()) + "\n", encoding="utf-8")
        self.options = [
            "-qq",
            *(
                f"-o{key}={value}"
                for key, value in {
                    "Dir::Etc::SourceList": self.root / "sources.list",
                    "Dir::Etc::SourceParts": "-",
                    "Dir::State::Lists": self.root / "lists",
                    "Dir::Cache": self.root,
                    "APT::Sandbox::User": "",
                    "Acquire::Languages": "none",
                    "Acquire::Retries": "5",
                    "Acquire::http::Timeout": "30",
                }.items()
            ),
        ]
        run("apt-get", *self.options, "update")

    def _sources(self) -> list[str]:
        name = codename()
        targets = run(
            "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"
        )
        options = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        lines: list[str] = []
        for uri, suite, component in {tuple(line.split()) for line in targets.splitlines() if line.count(" ") == 2}:
            if not suite.startswith(name):
                continue
            debian = self.debian or name
            suites = {debian + suite.removeprefix(name)}
            if suite == name:
                suites |= {line.suite for line in LINES.values() if line.debian == debian}
                suites |= {MAHIMAHI_SUITE} if debian == name else set()
            lines += [f"deb {options}{uri} {one} {component}" for one in suites]
        if not lines:
            raise FetchError(f"expected a source for {name} in the machine's apt sources")
        return sorted(set(lines))

    def depends(self, package: str, pattern: str) -> list[str]:
        """Return the dependencies of `package` (or package/suite) whose whole name matches the pattern."""
        shown = run("apt-cache", *self.options, "show", "--no-all-versions", package)
        found = re.search(r"^Depends: (.*)$", shown, re.MULTILINE)
        names = [re.split(r"[ (|:]", part.strip())[0] for part in (found.group(1) if found else "").split(",")]
        return [name for name in names if re.fullmatch(pattern, name)]

    def releases(self, line: str) -> list[str]:
        """Return the releases of a kernel line that have image and headers in the archive, the oldest first."""
        names = set(run("apt-cache", *self.options, "pkgnames", "linux-").split())
        regex = re.compile(rf"linux-image-({re.escape(line)}\.[0-9.]+(?:-[0-9.]+|\+deb[0-9.]+)-amd64)")
        found = [match[1] for match in map(regex.fullmatch, names) if match]
        return sorted((release for release in found if f"linux-headers-{release}" in names), key=numbers_of)

    def unpack(self, packages: list[str], root: Path) -> None:
        """Download packages and unpack them below `root`."""
        folder = root.with_name(root.name + ".deb")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run("apt-get", *self.options, "download", *packages, cwd=folder)
        for file in sorted(folder.glob("*.deb")):
            run("dpkg", "-x", file, root)
        shutil.rmtree(folder)


def numbers_of(release: str) -> list[int]:
    """Return the numbers in a release's name. Releases are sorted by them."""
    return [int(number) for number in re.findall(r"[0-9]+", release)]


def say(text: str) -> None:
    """Print a message of the set-up to standard error."""
    sys.stderr.write(f"setup: {text}\n")


def chosen_release(line: str, tested: str, releases: list[str]) -> str:
    """Choose a release of a line: the tested one, or else the next one, or else the last one before it.

    releases: those in the archive, the oldest first. Raises FetchError if there are none.
    """
    if not releases:
        raise FetchError(f"expected a release of Linux {line} in the archive, found none; change {LINES_FILE.name}")
    later = [release for release in releases if numbers_of(release) > numbers_of(tested)]
    if tested not in releases:
        chosen = (later or releases[-1:])[0]
        say(f"Linux {tested}, which is tested, is no longer in the archive; {chosen} is used instead")
        return chosen
    if later:
        say(f"warning: the archive has Linux {later[-1]}; {tested} is the tested release of the line {line}")
    return tested


def lay_out(root: Path, release: str) -> None:
    """Give the files of a line the same places as in all lines. Debian 13 has modules and kernel in /usr/lib."""
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    image = root / "boot" / f"vmlinuz-{release}"
    if not image.exists():
        image.parent.mkdir(exist_ok=True)
        image.symlink_to(f"../usr/lib/modules/{release}/vmlinuz")


def make_headers_movable(root: Path, release: str, *, shown: Path) -> None:
    """Change the paths in the headers, which are those of an installed package, to where they are unpacked.

    shown: the path of `root` in the file system in which modules are built.
    """
    headers = root / "usr" / "src" / f"linux-headers-{release}"
    for name in ("Makefile", ".kernelvariables"):
        file = headers / name
        if file.exists():
            file.write_text(
                file.read_text(encoding="utf-8").replace("/usr/src/", f"{shown}/usr/src/"), encoding="utf-8"
            )
    modules = root / "lib" / "modules" / release
    for link in ("build", "source"):
        (modules / link).unlink(missing_ok=True)
    (modules / "build").symlink_to(headers)


def fetch_line(apt: Apt, root: Path, *, line: str) -> None:
    """Fetch image, modules and headers of one kernel line. The file `release` is written last, so it marks the end."""
    tested = LINES[line].release
    release = chosen_release(line, tested, apt.releases(line))
    image, headers = f"linux-image-{release}", f"linux-headers-{release}"
    packages = [image, headers, *apt.depends(headers, r"linux-headers-.*-common|linux-kbuild-.*")]
    packages += apt.depends(image, r"linux-(base|binary|modules)-[0-9].*")
    shutil.rmtree(root, ignore_errors=True)
    apt.unpack(packages, root)
    lay_out(root, release)
    native = LINES[line].debian == codename()
    make_headers_movable(root, release, shown=root if native else Path("/guest") / line)
    run("depmod", "-b", root, release)
    (root / "tested").write_text(tested + "\n", encoding="utf-8")
    (root / "release").write_text(release + "\n", encoding="utf-8")


def make_root(apt: Apt, root: Path) -> None:
    """Make a small file system of a Debian release with the packages that build modules. Existing files are deleted."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    words = [
        "--quiet",
        "--variant=essential",
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        f"--include={','.join(BUILD_PACKAGES)}",
        # emulation/vm/modules.py mounts the cache and the folder of the build here.
        '--customize-hook=mkdir "$1/guest" "$1/work"',
    ]
    run("mmdebstrap", *words, apt.debian, root / "files", apt.root / "sources.list")
    (root / "release").write_text(apt.debian + "\n", encoding="utf-8")


def fetch_mahimahi(apt: Apt, root: Path) -> None:
    """Fetch Mahimahi as packaged in Debian 11."""
    shutil.rmtree(root, ignore_errors=True)
    apt.unpack(list(MAHIMAHI_PACKAGES), root)
    (root / "release").write_text(MAHIMAHI_SUITE + "\n", encoding="utf-8")


def known_parts() -> dict[str, tuple[str, Callable[[Apt, Path], None]]]:
    """Return, for each part of the cache, the Debian release whose sources provide it and the function that fetches it.

    The tools of another Debian release than the machine's do not run on it, so its kernels need a file system.
    """
    found = {name: (line.debian, partial(fetch_line, line=name)) for name, line in LINES.items()}
    foreign = sorted({line.debian for line in LINES.values()} - {codename()})
    return {**found, "mahimahi": (codename(), fetch_mahimahi),
            **{f"{debian}-root": (debian, make_root) for debian in foreign}}  # fmt: skip


def is_current(root: Path, name: str) -> bool:
    """Whether the cache has a part; of a kernel line the tested release, or one that was fetched in its place."""
    files = [file for file in (root / name / "release", root / name / "tested") if file.exists()]
    held = {file.read_text(encoding="utf-8").strip() for file in files}
    return (root / name / "release").exists() and (name not in LINES or LINES[name].release in held)


def lacking(root: Path, *, only: Sequence[str] = ()) -> list[str]:
    """Return the names of the parts that the cache lacks. only: look at these parts alone; none given: at all."""
    return [name for name in known_parts() if (not only or name in only) and not is_current(root, name)]


def fetch_all(root: Path, *, only: Sequence[str] = ()) -> list[str]:
    """Fetch the missing parts of the cache. Return a message for each part or Debian release that failed."""
    problems = []
    missing = {name: known_parts()[name] for name in lacking(root, only=only)}
    apts = {}
    for debian in sorted({debian for debian, _ in missing.values()}):
        apts[debian] = Apt(root / ("apt" if debian == codename() else f"apt-{debian}"), debian=debian)
        try:
            apts[debian].prepare()
        except FetchError as error:
            problems.append(f"{debian}: {error}")
            missing = {name: part for name, part in missing.items() if part[0] != debian}
    with ThreadPoolExecutor() as pool:
        jobs = {name: pool.submit(fetch, apts[debian], root / name) for name, (debian, fetch) in missing.items()}
        for name, job in jobs.items():
            try:
                job.result()
            except (FetchError, OSError) as error:
                problems.append(f"{name}: {error}")
    for apt in apts.values():  # some 200 MB of package lists, which the next fetch would update
        shutil.rmtree(apt.root, ignore_errors=True)
    return problems


def main(only: Sequence[str] = ()) -> None:
    """Fetch the missing parts of the cache and print what failed. only: these parts; none given: all."""
    root = cache_root()
    try:
        if not lacking(root, only=only):
            return
    except FetchError as error:
        say(f"not fetched, so that neither the virtual machine nor real links can run: {error}")
        return
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock"):
        for problem in fetch_all(root, only=only):
            say(f"not fetched, so that what needs it cannot run: {problem}")


if __name__ == "__main__":
    main(sys.argv[1:])
