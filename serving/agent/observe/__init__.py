# SPDX-License-Identifier: MIT
"""Samples TCP connections of this server, without any module, and keeps what it saw in files (kmod/observations.py).

diag.py       reads sockets from the kernel
acks.py       reads samples of single ACKs from a BPF program
addresses.py  cuts or hashes addresses
sampler.py    chooses connections, and samples them
upload.py     sends finished files to the registry
command.py    the command `observe`
"""
