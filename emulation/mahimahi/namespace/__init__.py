# SPDX-License-Identifier: MIT
"""Programs that run inside a run's namespaces, on this machine and in a guest: the standard library alone.

link.py     one run: its shells, its flows, its result
flows.py    the flows of a scenario, each with its algorithm and its times, sampled on one clock
traffic.py  bulk flows by hand: send, receive, fetch; reads tcp_info
shells.py   Mahimahi's shells around each other, without changing the machine
linklog.py  reads mm-link's log
policer.py  token buckets by nftables, counted by flow

They are started as files (`python -I -S link.py`), so that a guest under software emulation imports little, and
find each other beside themselves.
"""
