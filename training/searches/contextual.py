# SPDX-License-Identifier: MIT
"""A model of the measures of a run, by a bootstrapped ensemble of networks over its case's features and the parameters.

A member is a network of two hidden layers. Its inputs are the standardised features of the case, the positions of the
parameters, and a vector of the case, which is learnt, so that the runs of a case tell what its features do not. The
vector is pulled towards zero, and a share of the samples goes without it: a case that never ran has the vector zero.
Its outputs are

    ratios    exp(a), of measures that are not negative (evaluation/predicted.py)
    flag      the probability 1 / (1 + exp(-a))
    delays    the shares of packets by queueing delay: softmax(ln p + a) of groups of neighbouring bins, each with about
              the same share p of the packets of all runs. Within a group, each bin has the share of the group's
              packets that it has in all runs together

and its loss is the sum of quasi-likelihoods, whose minimum is the mean: (mu - y ln mu) / phi of a ratio (McCullagh,
Nelder 1989, table 9.1; phi its variance over its mean in the data), and the cross entropies of flag and delays.

Every member takes each run as often as a Poisson number with mean 1 says (Oza, Russell 2001: a bootstrap for data that
arrive in batches). The members differ where the data do not determine the prediction. A model that receives further
runs continues from its weights, in fewer steps.

PyTorch is imported when a model is fitted. On one thread and the same version and kind of processor the same seed gives
the same model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from training.errors import TrainingError
from training.fields import StudyPart
from training.searches.models import require_extra
from training.searches.search import Search, SearchChoice, Seed
from training.searches.space import Point, Space

Floats = NDArray[np.float64]
Device = Literal["cpu", "cuda", "auto"]
LEAST_DISPERSION = 1e-3
GROUPS = 64
DELAY_WEIGHT = 20.0
VECTOR_WEIGHT = 0.05
WITHOUT_VECTOR = 0.1
LARGEST_LOG = 8.0
LATER_FITS = 4
ROWS = 8192  # of a prediction at once


class ModelSettings(StudyPart):
    """The choices of the model."""

    members: int = Field(5, ge=2, le=64, description="networks, each fitted to a bootstrap of the runs")
    width: int = Field(64, ge=4, le=1024, description="units of each of the two hidden layers")
    vector: int = Field(4, ge=1, le=64, description="length of the vector that is learnt of each case")
    steps: int = Field(1000, ge=1, description="of the optimiser, in the first fit of a stage")
    batch: int = Field(512, ge=1, description="runs of a step")
    rate: float = Field(0.004, gt=0, description="learning rate at first; falls to 0 by a cosine")
    device: Device = Field("cpu", description="auto: a GPU where there is one")


class SurrogateChoice(SearchChoice):
    """A model of the runs of all states of the stage; one search for all of them (study/contextual.py)."""

    kind: Literal["surrogate"]
    points: int = Field(4, ge=1, description="random points that run on each case at first")
    probes: int = Field(2, ge=0, description="times that a promising point of each state and class is tried")
    probe_cases: int = Field(8, ge=1, description="cases of the state that it is tried on")
    finalists: int = Field(2, ge=1, description="points of each state and class that run on all its cases, at most")
    least_gain: float = Field(
        0.02, ge=0, description="a further finalist is expected to gain so much, in standard deviations of the cost "
        "over the space"
    )  # fmt: skip
    budget: int | None = Field(None, ge=1, description="no further finalists after so many runs of the stage")
    model: ModelSettings = ModelSettings()

    def make(self, space: Space, candidates: Sequence[Point], *, samples: Seed, steps: Seed) -> Search:
        """Refuse: there is no search of a single state.

        Raises:
            TrainingError: always.
        """
        del space, candidates, samples, steps
        raise TrainingError(
            "search: expected one that searches each state by itself, got `kind: surrogate`; use it for stages alone"
        )


@dataclass(frozen=True, eq=False)
class Outputs:
    """Measures of n runs. ratios [n, k]; flags [n], 0 to 1; delays [n, bins], shares that sum to 1 or are all 0.

    In a prediction, each array has one more axis in front, with an entry for each member of the models' ensemble.
    """

    ratios: Floats
    flags: Floats
    delays: NDArray[np.floating]


def _device(torch: Any, wanted: Device) -> str:
    if wanted == "cpu" or torch.cuda.is_available():
        return "cuda" if wanted != "cpu" else "cpu"
    if wanted == "cuda":
        raise TrainingError("search: expected a GPU for `device: cuda`, PyTorch finds none; use `device: auto`")
    return "cpu"


@contextlib.contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Sums in a fixed order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Model:
    """A fitted ensemble."""

    def __init__(self, torch: Any, settings: ModelSettings, *, features: Floats, positions: int, outputs: Outputs,
                 seed: int) -> None:  # fmt: skip
        self._torch, self._settings = torch, settings
        self._device = _device(torch, settings.device)
        self._ratios = outputs.ratios.shape[1]
        spread = features.std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        cases = np.clip((features - features.mean(axis=0)) / scale, -4, 4)
        self._cases = self._tensor(cases)  # [cases, features]
        mean = np.maximum(outputs.ratios.mean(axis=0), 1e-6)
        dispersion = np.maximum(outputs.ratios.var(axis=0) / mean, LEAST_DISPERSION)
        self._base, self._dispersion = self._tensor(np.log(mean)), self._tensor(dispersion)
        by_bin = outputs.delays.sum(axis=0) + 1e-3
        reached = np.cumsum(by_bin) / by_bin.sum()
        self._starts = np.unique(np.searchsorted(reached, np.arange(GROUPS if len(by_bin) else 0) / GROUPS))
        self._sizes = np.diff(self._starts, append=len(by_bin))  # bins of each group
        by_group = self._grouped(by_bin)
        self._of_group = by_bin / np.repeat(by_group, self._sizes)  # the share of each bin
        self._shares = self._tensor(np.log(by_group / by_group.sum()))
        self._weights = self._first_weights(features.shape[1] + positions + settings.vector, len(features), seed)

    def _grouped(self, delays: NDArray[Any]) -> NDArray[Any]:
        """The sums over the bins of each group, [..., groups]."""
        return np.add.reduceat(delays, self._starts, axis=-1)

    def _tensor(self, values: NDArray[Any]) -> Any:
        return self._torch.tensor(np.asarray(values, dtype=np.float32), device=self._device)

    def _first_weights(self, inputs: int, cases: int, seed: int) -> list[Any]:
        """Of the layers [members, in, out], each with its bias [members, 1, out], and of the cases' vectors."""
        s, rng = self._settings, np.random.default_rng(seed)
        outs = self._ratios + 1 + len(self._shares)
        found = []
        for i, o, gain in ((inputs, s.width, 1.0), (s.width, s.width, 1.0), (s.width, outs, 0.1)):
            found += [rng.normal(0, gain / np.sqrt(i), (s.members, i, o)), np.zeros((s.members, 1, o))]
        found.append(rng.normal(0, 0.01, (s.members, cases, s.vector)))
        return [self._tensor(one).requires_grad_() for one in found]

    def _forward(self, w: Sequence[Any], cases: Any, positions: Any, vectors: Any) -> Any:
        """Weights w, cases [n], positions [n, p] and vectors [members, n, v]: a [members, n, outputs]."""
        torch = self._torch
        known = torch.cat([self._cases[cases], 2 * positions - 1], dim=1)  # [n, features + p]
        at = torch.cat([known.expand(len(vectors), -1, -1), vectors], dim=2)
        for layer in (0, 2):
            at = torch.nn.functional.silu(torch.baddbmm(w[layer + 1], at, w[layer]))
        return torch.baddbmm(w[5], at, w[4])

    def _split(self, a: Any) -> tuple[Any, Any, Any]:
        """ln of the ratios, the flag's logit, and ln of the delays' shares."""
        k = self._ratios
        logs = self._base + a[..., :k].clamp(-LARGEST_LOG, LARGEST_LOG)
        return logs, a[..., k], (self._shares + a[..., k + 1 :]).log_softmax(dim=-1)

    def learn(self, cases: NDArray[np.int64], positions: Floats, outputs: Outputs, *, seed: int, steps: int) -> None:
        """Fit it to n runs in so many steps. cases: row of each in the features, int [n]. positions: float [n, p]."""
        torch, s = self._torch, self._settings
        rng = np.random.default_rng(seed)
        taken = self._tensor(rng.poisson(1.0, (len(cases), s.members)).T)  # [members, n]
        of, at = torch.tensor(cases, device=self._device), self._tensor(positions)
        ratios, flags = self._tensor(outputs.ratios), self._tensor(outputs.flags)
        delays = self._tensor(self._grouped(outputs.delays))
        optimiser = torch.optim.Adam(self._weights, lr=s.rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        rows = np.empty(0, dtype=np.int64)
        for _ in range(steps):
            if len(rows) < min(s.batch, len(cases)):
                rows = rng.permutation(len(cases))
            now, rows = torch.tensor(rows[: s.batch], device=self._device), rows[s.batch :]
            with_vector = self._tensor(rng.random((s.members, len(now), 1)) >= WITHOUT_VECTOR)
            vectors = self._weights[6][:, of[now]] * with_vector
            logs, logit, shares = self._split(self._forward(self._weights, of[now], at[now], vectors))
            loss = ((logs.exp() - ratios[now] * logs) / self._dispersion).sum(dim=2)
            loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(
                logit, flags[now].expand_as(logit), reduction="none"
            )
            loss = loss - DELAY_WEIGHT * (delays[now] * shares).sum(dim=2)
            loss = (taken[:, now] * loss).mean(dim=1) + VECTOR_WEIGHT * vectors.square().sum(dim=2).mean(dim=1)
            optimiser.zero_grad()
            loss.sum().backward()
            torch.nn.utils.clip_grad_norm_(self._weights, 10.0)
            optimiser.step()
            schedule.step()

    def predict(self, cases: NDArray[np.int64], positions: Floats, *, members: slice = slice(None),
                mean: bool = False) -> Outputs:  # fmt: skip
        """The measures of n runs, by each of these members; mean: by one, their mean."""
        torch = self._torch
        parts, weights = [], [w[members] for w in self._weights]
        with torch.no_grad(), _one_thread(torch):
            for first in range(0, len(cases), ROWS):
                of = torch.tensor(cases[first : first + ROWS], device=self._device)
                at = self._tensor(positions[first : first + ROWS])
                logs, logit, shares = self._split(self._forward(weights, of, at, weights[6][:, of]))
                found = (logs.exp(), logit.sigmoid(), shares.exp())
                parts.append([(x.mean(dim=0, keepdim=True) if mean else x).cpu().numpy() for x in found])
        ratios, flags, groups = (np.concatenate(one, axis=1) for one in zip(*parts, strict=True))
        delays = np.repeat(groups, self._sizes, axis=-1) * np.float32(self._of_group)
        return Outputs(ratios, flags, delays)


def fit(
    settings: ModelSettings,
    *,
    features: Floats,
    cases: NDArray[np.int64],
    positions: Floats,
    outputs: Outputs,
    seed: int,
    earlier: Model | None = None,
) -> Model:
    """A model of n runs.

    features: of each case, also of those that it only predicts, [cases, f]. Without runs a case's vector is 0. cases:
    the case of each run, int [n]. positions: of the parameters, 0 to 1, [n, p]. earlier: of the same cases and seed,
    and the first of these runs. It goes on, in 1 / LATER_FITS of the steps; its runs keep their weights in each member.

    Raises:
        TrainingError: PyTorch is not installed, or the device is not there.
    """
    require_extra("torch")
    import torch

    with _one_thread(torch):
        model = earlier or Model(torch, settings, features=features, positions=positions.shape[1], outputs=outputs,
                                 seed=seed)  # fmt: skip
        steps = max(settings.steps // LATER_FITS, 1) if earlier else settings.steps
        model.learn(cases, positions, outputs, seed=seed, steps=steps)
    return model
