# SPDX-License-Identifier: MIT
"""Retraining of channels: from the drift of a channel to the promotion of a new ensemble, step by step.

proposed -> training -> trained -> rolling-out -> promoted | aborted
    |           |----------+-----------> dismissed | superseded
    |           '-> failed | unchanged
    '-----------------------------------> dismissed | superseded

Drift, jobs, the shadow gate and roll-outs do the work. Here is only what joins them.
"""

from typing import Final

# The registry itself in jobs, roll-outs and the audit log.
ACTOR: Final = "retraining"
