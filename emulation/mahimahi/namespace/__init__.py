# SPDX-License-Identifier: MIT
"""Programs inside a run's namespaces, on this machine and in a guest. They use only the standard library.

run_job.py  reads a job, runs it in up to three attempts, and prints the result
link.py     makes one run of a scenario: starts the shells and the flows, returns the result
flows.py    sends and receives a scenario's flows, and samples them on one clock
traffic.py  sends and receives bulk flows, for use by hand; reads tcp_info
shells.py   starts nested Mahimahi shells without changing the machine
policer.py  makes token-bucket policers with nftables, and counts their packets per flow

They are started as files (`python -I -S link.py`), so that a guest under software emulation imports little.
Each finds the others in its own folder.
"""
