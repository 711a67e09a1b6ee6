# SPDX-License-Identifier: MIT
"""The first file system of the guest: mounts this machine's own, read-only below a layer in memory.

A distribution's kernel has neither 9p nor overlayfs built in. So it receives an archive with a shell and the few
modules that it needs for both. Everything else comes over 9p from the machine's root. The guest sees the machine's
files, and what it writes is lost when it ends.
"""

from __future__ import annotations

import lzma
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from emulation.vm.kernels import GuestError, KernelLine

# Where the guest mounts the folder that it shares with the host.
SHARE = "/run/share"
_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_INIT = """\
#!/bin/sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
for module in /modules/*; do busybox insmod "$module" || echo "guest: $module was not loaded"; done
# `loose`: what the host changes below the guest need not be seen, and reading is many times faster.
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,ro,cache=loose host /host
busybox mount -t tmpfs -o mode=0755 upper /upper
busybox mkdir /upper/files /upper/work
busybox mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work root /root
busybox mount -t proc proc /root/proc
busybox mount -t sysfs sys /root/sys
busybox mount -t devtmpfs dev /root/dev
busybox mkdir -p /root/dev/pts /root/dev/shm
busybox mount -t devpts pts /root/dev/pts
busybox mount -t tmpfs shm /root/dev/shm
busybox ln -s /proc/self/fd /root/dev/fd
for name in stdin:0 stdout:1 stderr:2; do
	busybox ln -s "/proc/self/fd/${{name#*:}}" "/root/dev/${{name%%:*}}"
done
busybox mount -t tmpfs -o mode=0755 run /root/run
busybox mkdir -p /root{share} /root/run/lock
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /root{share}
exec busybox switch_root /root /bin/sh {share}/.guest/start
"""


@dataclass
class _Archive:
    """A cpio archive in the format `newc`, in memory."""

    chunks: list[bytes] = field(default_factory=list)
    inode: int = 1

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        """Add a file or folder. Numbers in the header are eight hexadecimal digits."""
        path = name.encode() + b"\0"
        numbers = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers)
        for part in (header + path, data):
            self.chunks.append(part + b"\0" * (-len(part) % 4))
        self.inode += 1

    def bytes(self) -> bytes:
        """The whole archive with its trailer."""
        self.add("TRAILER!!!", 0)
        return b"".join(self.chunks)


def _name(path: str) -> str:
    return Path(path).name.split(".")[0].replace("-", "_")


def _in_load_order(kernel: KernelLine) -> list[Path]:
    """The modules and their dependencies, each after those that it needs."""
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text(encoding="ascii").splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    built_in = {_name(path) for path in (kernel.modules / "modules.builtin").read_text(encoding="ascii").split()}
    by_name = {_name(path): path for path in needs}
    order: list[str] = []
    for name in _MODULES:
        if name in built_in:
            continue
        if name not in by_name:
            raise GuestError(f"kernel {kernel.release}: expected the module {name} in {kernel.modules}, found none")
        # depmod lists the dependencies of a module from the nearest to the farthest.
        order += [path for path in (*reversed(needs[by_name[name]]), by_name[name]) if path not in order]
    return [kernel.modules / path for path in order]


def _module_bytes(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def build_initramfs(kernel: KernelLine, to: Path) -> None:
    """Write the archive for this kernel. Raises GuestError if busybox or a module is missing."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise GuestError("busybox: expected it installed, found none; run `make setup`")
    archive = _Archive()
    for folder in ("bin", "modules", "proc", "sys", "dev", "host", "upper", "root"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    program = Path(busybox).read_bytes()
    for name in ("bin/busybox", "bin/sh"):
        archive.add(name, stat.S_IFREG | 0o755, program)
    for number, path in enumerate(_in_load_order(kernel)):
        archive.add(f"modules/{number:02}-{path.name.split('.')[0]}.ko", stat.S_IFREG | 0o644, _module_bytes(path))
    archive.add("init", stat.S_IFREG | 0o755, _INIT.format(share=SHARE).encode())
    to.write_bytes(archive.bytes())
