# SPDX-License-Identifier: MIT
"""Search strategies, by the name that a study file gives as `kind`.

    dds     divide, diverge, simulated annealing over the whole space (PQSA, section IV)
    local   simulated annealing in a box around the best of the candidates
    grid    every combination of log-spaced values
    sobol   a Sobol sequence
    ray     Ray Tune's searchers Optuna and Ax
    botorch Bayesian optimisation with BoTorch, for expensive evaluations
    surrogate   a model of all states of a stage together, in PyTorch (study/contextual.py)

A new search is a class with the methods of `Search`, and a settings class with `kind` and `make`, which joins the
union `SearchSettings`, or which another package registers (training/registered.py). Candidates are points that earlier
stages of a study found; every search evaluates them, too.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SerializeAsAny

from training.registered import SEARCHES, or_registered
from training.searches.botorch import BotorchChoice
from training.searches.contextual import SurrogateChoice
from training.searches.dds import DdsChoice, DdsSearch, LocalChoice
from training.searches.points import GridChoice, PointsSearch, SobolChoice
from training.searches.ray import RayChoice
from training.searches.search import Evaluation, Found, Proposal, Score, Search
from training.searches.space import Dimension, Point, Space, space_of

__all__ = [
    "BotorchChoice", "DdsChoice", "DdsSearch", "Dimension", "Evaluation", "Found", "GridChoice", "LocalChoice",
    "Point", "PointsSearch", "Proposal", "RayChoice", "Score", "Search", "SearchSettings", "SobolChoice", "Space",
    "SurrogateChoice", "space_of",
]  # fmt: skip


SearchSettings = Annotated[
    SerializeAsAny[
        Annotated[
            DdsChoice | LocalChoice | GridChoice | SobolChoice | RayChoice | BotorchChoice | SurrogateChoice,
            Field(discriminator="kind"),
        ]
    ],
    or_registered(SEARCHES),
]
