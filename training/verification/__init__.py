# SPDX-License-Identifier: MIT
"""The last step of a study: real kernels run the best points that the simulator found for a state.

settings.py   the study's part `verify`
cases.py      the cases that it runs on
runs.py       the runs of one point, on a runner
choice.py     which point the runs confirm, and how far simulator and runner differ
verify.py     the points, the cases, and what the ensemble says about them
"""
