# SPDX-License-Identifier: MIT
"""Constrained Bayesian optimisation of noisy evaluations with BoTorch (Balandat et al. 2020).

For evaluations of ten seconds or more, such as those of emulation or of real servers: one point costs about a second.

Two Gaussian processes (SingleTaskGP, with noise that is fitted) model the cost and the violation as functions of the
position. The next point maximises the logarithm of the expected improvement of the cost over the points so far, where
the violation is at most 0 (qLogNEI: Letham et al. 2019, Ament et al. 2023). As it is integrated over the models'
uncertainty at the points so far, a lucky measurement does not hold it up. While no point meets the constraint, the
next one maximises the probability of meeting it. While all points meet it, only the cost is modelled.

What is common to searches by models, and how they learn points that stopped early, is in models.py. The model of the
cost leaves out points whose cost is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from training.searches.models import ModelSearch, ModelSettings, Seen, require_extra, with_torch
from training.searches.search import Search, Seed
from training.searches.space import Point, Space


class BotorchChoice(ModelSettings):
    """Noisy expected improvement under a constraint."""

    kind: Literal["botorch"]
    restarts: int = Field(4, ge=1, description="starts from which a point's acquisition value is maximised")
    raw_samples: int = Field(128, ge=1, description="positions among which these starts are drawn")
    model_samples: int = Field(128, ge=1, description="draws of the models, over which improvements are averaged")

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """A search. samples, steps: the seeds of the Sobol sequence and of the model.

        Raises:
            TrainingError: the extra `search` is not installed.
        """
        require_extra("botorch", "torch")
        return ModelSearch(space, candidates, settings=self, samples=samples, steps=steps,
                           propose=partial(_propose, settings=self))  # fmt: skip


def _fitted(positions: Sequence[Sequence[float]], values: Sequence[float]) -> Any:
    """A Gaussian process through values, n, at positions, n x d."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.tensor(positions, dtype=torch.double)  # n x d
    y = torch.tensor(values, dtype=torch.double).unsqueeze(-1)  # n x 1
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _acquisition(seen: Sequence[Seen], seed: int, *, model_samples: int) -> Any:
    import torch
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement, qLogProbabilityOfFeasibility
    from botorch.acquisition.objective import GenericMCObjective
    from botorch.models import ModelListGP
    from botorch.sampling import SobolQMCNormalSampler

    sampler = SobolQMCNormalSampler(torch.Size([model_samples]), seed=seed)
    met = [one.violation <= 0 for one in seen]
    everything = [one.position for one in seen]
    if not any(met):
        violation = _fitted(everything, [one.violation for one in seen])
        return qLogProbabilityOfFeasibility(violation, constraints=[lambda y: y[..., 0]], sampler=sampler)
    known = [(one.position, -one.cost) for one in seen if one.cost is not None]
    merit = _fitted([position for position, _ in known], [value for _, value in known])
    baseline = torch.tensor(everything, dtype=torch.double)  # n x d
    if all(met):
        return qLogNoisyExpectedImprovement(merit, baseline, sampler=sampler, prune_baseline=True)
    return qLogNoisyExpectedImprovement(
        ModelListGP(merit, _fitted(everything, [one.violation for one in seen])),
        baseline,
        sampler=sampler,
        objective=GenericMCObjective(lambda y, X=None: y[..., 0]),  # noqa: ARG005, N803 - BoTorch passes X by its name
        constraints=[lambda y: y[..., 1]],
        prune_baseline=True,
    )


def _propose(seen: Sequence[Seen], seed: int, *, settings: BotorchChoice) -> list[float]:
    with with_torch(seed):
        import torch
        from botorch.optim import optimize_acqf

        dimensions = len(seen[0].position)
        bounds = torch.tensor([[0.0] * dimensions, [1.0] * dimensions], dtype=torch.double)  # 2 x d
        acquisition = _acquisition(seen, seed, model_samples=settings.model_samples)
        found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=settings.restarts,
                                 raw_samples=settings.raw_samples)  # fmt: skip
        return [float(x) for x in found[0]]
