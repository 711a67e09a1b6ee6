# SPDX-License-Identifier: MIT
from __future__ import annotations

import sys

import numpy as np
import pytest

from training.errors import TrainingError
from training.searches.contextual import Model, ModelSettings, Outputs, fit

SETTINGS = ModelSettings(members=3, width=24, steps=400, batch=128, vector=2)
BINS = 12


def known(features: np.ndarray, positions: np.ndarray) -> Outputs:
    """A function with a peak of delay that moves with the position, and a flag."""
    hardness, x = features[:, 0], positions[:, 0]
    ratios = np.stack([0.5 * (x - hardness) ** 2, 0.5 + hardness / 2, np.full(len(x), 0.3)], axis=1)
    away = np.arange(BINS)[None] - (2 + 7 * x[:, None])
    shares = np.exp(-(away**2) / 2)
    return Outputs(ratios, (x > hardness).astype(float), shares / shares.sum(axis=1, keepdims=True))


def fitted(seed: int = 1, *, first: int = 0) -> tuple[Model, np.ndarray]:
    """first: fit it to so many runs before the others come."""
    rng = np.random.default_rng(1)
    features, cases = rng.uniform(0.2, 0.8, (40, 1)), np.arange(600) % 32  # the last eight cases have no runs
    positions = rng.random((600, 2))
    model = None
    for n in (first, 600) if first else (600,):
        model = fit(SETTINGS, features=features, cases=cases[:n], positions=positions[:n],
                    outputs=known(features[cases[:n]], positions[:n]), seed=seed, earlier=model)  # fmt: skip
    assert model is not None
    return model, features


@pytest.mark.parametrize("first", [0, 60])
def test_it_learns_a_known_function_also_on_cases_without_runs(first: int) -> None:
    model, features = fitted(first=first)
    x = np.linspace(0.05, 0.95, 19)
    for case in (3, 35):
        positions = np.column_stack([x, np.full(19, 0.5)])
        found = model.predict(np.full(19, case), positions)
        truth = known(np.repeat(features[case][None], 19, axis=0), positions)
        assert found.ratios.shape == (3, 19, 3)
        assert x[found.ratios.mean(axis=0)[:, 0].argmin()] == pytest.approx(features[case, 0], abs=0.15)
        assert np.abs(found.delays.mean(axis=0) - truth.delays).mean() < 0.03  # uniform shares: 0.09
        assert np.abs(found.delays.sum(axis=2) - 1).max() < 1e-4


def test_the_same_seed_gives_the_same_model() -> None:
    at = np.array([[0.3, 0.4]])
    one, same, other = (fitted(seed)[0].predict(np.array([1]), at).ratios for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TrainingError, match=r"pip install 'ccatune\[search\]'"):
        fitted()
