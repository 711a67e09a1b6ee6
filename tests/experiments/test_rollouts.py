# SPDX-License-Identifier: MIT
"""Roll-outs of the simulated fleet, with few seeds. `python -m experiments rollouts` has all of them."""

from __future__ import annotations

import json

from click.testing import CliRunner

from experiments.rollouts import command


def test_candidates_of_known_harm_end_as_they_should() -> None:
    done = CliRunner().invoke(command, ["--seeds", "5", "--nulls", "10", "--json"], catch_exceptions=False)
    found = {row["case"]: row for row in json.loads(done.stdout)}
    for case in ("better", "worse, within target", "worse, goodput", "worse, retransmissions"):
        assert found[case]["hits"] == 5, case
        assert (found[case]["most_share"] < 0.25) is case.startswith("worse")
    assert found["itself, all looks"]["hits"] == 10
    assert found["itself, all looks"]["mean_looks"] >= 30
    assert found["naive: flows of one server"]["hits"] == 5
    assert found["servers, queues of their own"]["actions"] == {"pause": 5}
    assert found["switchback, queues between servers"]["actions"] == {"pause": 5}
    # The limit that docs/rollouts.md states: servers that share queues with each other need a switchback.
    assert found["servers, queues between servers"]["hits"] >= 2
