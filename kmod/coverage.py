# SPDX-License-Identifier: MIT
"""How much of an ensemble was trained, by its provenance: states that copy a row, and rows that miss their target."""

from __future__ import annotations

from kmod.ensemble import Ensemble


def training_warnings(ensemble: Ensemble) -> list[str]:
    """Sentences for the user on what the training lacks.

    There are none if all states were trained and their rows meet their targets on the training data, and none if the
    provenance does not describe the training of each state.
    """
    try:
        rows = [
            (tuple(row["state"]), row.get("copied_from") is not None, bool(row["training"]["meets"]))
            for row in ensemble.provenance["states"]
        ]
        states = {state: is_copied for state, is_copied, _ in rows}
    except (KeyError, TypeError, AttributeError):
        return []
    found, n_copied = [], sum(states.values())
    if n_copied:
        found.append(
            f"{len(states) - n_copied} of {len(states)} states were trained. The other {n_copied} had too few epochs "
            "in the traces and copy the row of the nearest trained state. More traces, and traces of other rates, "
            "train more states."
        )
    trained = [meets for _, is_copied, meets in rows if not is_copied]
    if n_missed := trained.count(False):
        found.append(
            f"{n_missed} of {len(trained)} trained rows miss their target on the training data. "
            "A row belongs to a state and a class."
        )
    return found
