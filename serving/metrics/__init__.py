# SPDX-License-Identifier: MIT
"""The registry's figures for Prometheus: requests, agents, delivery, quality of service, roll-outs, jobs, database."""
