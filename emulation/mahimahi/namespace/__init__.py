# SPDX-License-Identifier: MIT
"""Programs inside a run's namespaces, on this machine and in a guest. They use only the standard library.

link.py     makes one run: starts the shells and the flows, returns the result
flows.py    sends and receives a scenario's flows, and samples them on one clock
traffic.py  sends and receives bulk flows, for use by hand; reads tcp_info
shells.py   starts nested Mahimahi shells without changing the machine
linklog.py  reads mm-link's log
policer.py  makes token-bucket policers with nftables, and counts their packets per flow

They are started as files (`python -I -S link.py`), so that a guest under software emulation imports little.
Each finds the others in its own folder.
"""
