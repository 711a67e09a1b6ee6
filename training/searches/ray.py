# SPDX-License-Identifier: MIT
"""Searchers of Ray Tune, within one search: `suggest` and `on_trial_complete` without a Tune trial or a Ray process.

    optuna   TPE, the tree-structured Parzen estimator (Bergstra et al. 2011; Watanabe 2023)
    ax       Bayesian optimisation with BoTorch as Ax configures it (Bakshy et al. 2018)

Any other searcher is named by its import path (imported.py). The following is about the two above.

What is common to them, and how they learn points that stopped early, is in models.py. A searcher is made for each
point. It receives the earlier points as `points_to_evaluate` and their scores by `on_trial_complete`.

Constraint. OptunaSearch takes none, so that it minimises a penalised cost:

    cost + violation_weight * violation

TPE compares points by their order alone. Points whose violation reaches the limit have no result. Optuna takes them for
pruned, and so for worse than all others. AxSearch takes the violation as an outcome that is at most 0, and does not use
`violation_weight`. Ax models no missing outcome: where a cost is unknown, it gets the mean of the known ones.

DEVIATION: Ray 2.60 reads attributes of Ax that version 1.3 no longer has. The extra `search` therefore requires 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from training.searches.imported import Imported, source_digest
from training.searches.models import ModelSearch, ModelSettings, Propose, Seen, quietly, require_extra, with_torch
from training.searches.search import Search, Seed
from training.searches.space import Point, Space


class RayChoice(ModelSettings):
    """One of Ray Tune's searchers."""

    kind: Literal["ray"]
    searcher: str = Field(
        pattern=r"^(optuna|ax|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
        description="optuna, ax, or package.module:Class of a subclass of ray.tune.search.Searcher",
    )
    arguments: dict[str, Any] = Field({}, description="arguments of the constructor of package.module:Class")
    seed_argument: str | None = Field(
        None, description="the argument that receives the seed; none: `seed`, if the constructor has it"
    )
    violation_weight: float = Field(
        4.0, gt=0, description="penalty of missing the constraint by as much as its bound; ax does not use it"
    )

    @model_validator(mode="after")
    def _only_imported_ones_have_arguments(self) -> RayChoice:
        if ":" not in self.searcher and (self.arguments or self.seed_argument):
            raise ValueError(f"expected arguments only with package.module:Class, got them with {self.searcher}")
        return self

    def versions(self) -> dict[str, str]:
        """The digest of the file that has the imported class.

        Raises:
            TrainingError: it cannot be imported, or is no searcher.
        """
        if ":" not in self.searcher:
            return {}
        require_extra("ray", extra="ray")
        return {self.searcher: source_digest(self.searcher)}

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search. samples, steps: the seeds of the Sobol sequence and of the searcher.

        Raises:
            TrainingError: the extra `search` is not installed; the class cannot be imported, or refuses its arguments.
        """
        propose: Propose
        if ":" in self.searcher:
            require_extra("ray", extra="ray")
            seed = int(np.random.SeedSequence(list(steps)).generate_state(1)[0])
            propose = Imported(self.searcher, self.arguments, names=space.names, seed=seed,
                               seed_argument=self.seed_argument, weight=self.violation_weight)  # fmt: skip
            return ModelSearch(space, candidates, settings=self, samples=samples, steps=steps, propose=propose)
        require_extra("ray", *(["optuna"] if self.searcher == "optuna" else ["ax", "torch"]))
        propose = partial(_optuna, weight=self.violation_weight) if self.searcher == "optuna" else _ax
        return ModelSearch(space, candidates, settings=self, samples=samples, steps=steps, propose=propose)


def _named(seen: Sequence[Seen]) -> list[dict[str, float]]:
    return [{f"x{axis}": x for axis, x in enumerate(one.position)} for one in seen]


def _after(searcher: Any, results: Sequence[dict[str, float] | None]) -> list[float]:
    """The position that a searcher suggests after these results of its `points_to_evaluate`."""
    for number, result in enumerate(results):
        searcher.suggest(str(number))
        searcher.on_trial_complete(str(number), result)
    suggested = searcher.suggest(str(len(results)))
    return [float(suggested[f"x{axis}"]) for axis in range(len(suggested))]


def _optuna(seen: Sequence[Seen], seed: int, *, weight: float) -> list[float]:
    with quietly():
        from optuna.distributions import FloatDistribution
        from ray.tune.search.optuna import OptunaSearch

        points = _named(seen)
        space = {name: FloatDistribution(0.0, 1.0) for name in points[0]}
        searcher = OptunaSearch(space, metric="penalised", mode="min", points_to_evaluate=points, seed=seed)
        return _after(
            searcher,
            [None if one.cost is None else {"penalised": one.cost + weight * max(one.violation, 0.0)} for one in seen],
        )


def _ax(seen: Sequence[Seen], seed: int) -> list[float]:
    with with_torch(seed):
        from ray.tune.search.ax import AxSearch

        points = _named(seen)
        space = [{"name": name, "type": "range", "bounds": [0.0, 1.0], "value_type": "float"} for name in points[0]]
        searcher = AxSearch(space, metric="cost", mode="min", points_to_evaluate=points,
                            outcome_constraints=["violation <= 0.0"], random_seed=seed)  # fmt: skip
        costs = [one.cost for one in seen if one.cost is not None]
        mean = sum(costs) / len(costs)
        return _after(
            searcher,
            [{"cost": mean if one.cost is None else one.cost, "violation": one.violation} for one in seen],
        )
