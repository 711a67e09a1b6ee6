# SPDX-License-Identifier: MIT
"""A regression tree with a whole distribution in each leaf, from which a stage of the synthetic generator draws.

A tree cuts the space of its features by "feature <= threshold". Each leaf holds the quantiles of the target among the
samples that fell there. Each cut is the one that lowers the summed CRPS of the leaves most. The CRPS of a set of n
samples about itself is n E|Y - Y'| / 2. It reacts to a change of spread or shape, whereas squared errors react only to
a change of the mean. The leaf whose cut gains most is cut first, until there are max_leaves.
Source of the score: Gneiting and Raftery, "Strictly proper scoring rules", 2007, eq. 21.
"""

from __future__ import annotations

import heapq
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from emulation.errors import TraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_THRESHOLDS = 12
LEAF = -1
SIGNIFICANT_DIGITS = 3


class DistributionTree(BaseModel):
    """Nodes in arrays. Node 0 is the root. Children come after their parent, so that a walk always ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    feature: tuple[Annotated[int, Field(ge=LEAF)], ...] = Field(min_length=1, description="per node; -1 is a leaf")
    threshold: tuple[FiniteFloat, ...] = Field(description="per node: feature <= threshold goes to `below`")
    below: tuple[int, ...] = Field(description="per node; of a leaf: its row in `quantiles`")
    above: tuple[int, ...] = Field(description="per node; of a leaf: 0")
    zero_share: tuple[Annotated[FiniteFloat, Field(ge=0, le=1)], ...] = Field(
        min_length=1, description="per leaf: probability of exactly 0, which between quantiles would blur"
    )
    quantiles: tuple[tuple[FiniteFloat, ...], ...] = Field(
        min_length=1, description="per leaf: of the other values, at probabilities 0, 1/(n-1) ... 1"
    )

    @model_validator(mode="after")
    def _is_a_tree(self) -> DistributionTree:
        n_nodes = len(self.feature)
        if not len(self.threshold) == len(self.below) == len(self.above) == n_nodes:
            raise ValueError("expected arrays of one length per node")
        for node, (feature, below, above) in enumerate(zip(self.feature, self.below, self.above, strict=True)):
            if feature == LEAF and not 0 <= below < len(self.quantiles):
                raise ValueError(f"node {node}: expected a leaf within {len(self.quantiles)}, got {below}")
            if feature != LEAF and not (node < below < n_nodes and node < above < n_nodes):
                raise ValueError(f"node {node}: expected children after it, got {below} and {above}")
        widths = {len(row) for row in self.quantiles}
        if len(widths) != 1 or min(widths) < 2 or len(self.quantiles) != len(self.zero_share):
            raise ValueError(f"expected quantiles of one length, at least 2, for each leaf, got {sorted(widths)}")
        if (np.diff(self._quantiles, axis=1) < 0).any():
            raise ValueError("expected quantiles that never decrease")
        return self

    @cached_property
    def _quantiles(self) -> Floats:
        return np.array(self.quantiles)

    @cached_property
    def _nodes(self) -> tuple[Ints, Floats, Ints]:
        """feature [n_nodes], threshold [n_nodes], children [n_nodes, 2]; a leaf is its own child, so a walk stays."""
        feature = np.array(self.feature)
        itself = np.arange(len(feature))
        children = np.stack([np.array(self.above), np.array(self.below)], axis=1)
        children[feature == LEAF] = itself[feature == LEAF, None]
        return np.maximum(feature, 0), np.array(self.threshold), children

    @cached_property
    def _depth(self) -> int:
        depth = [0] * len(self.feature)
        for node, feature in enumerate(self.feature):
            if feature != LEAF:
                depth[self.below[node]] = depth[self.above[node]] = depth[node] + 1
        return max(depth)

    def leaves(self, features: Floats) -> Ints:
        """The leaf into which each row of features [n_rows, n_features] falls: [n_rows]."""
        feature, threshold, children = self._nodes
        rows = np.arange(len(features))
        node = np.zeros(len(features), dtype=np.int64)
        for _ in range(self._depth):
            goes_below = features[rows, feature[node]] <= threshold[node]
            node = children[node, goes_below.astype(np.int64)]
        return np.array(self.below)[node]

    def draw(self, features: Floats, uniform: Floats) -> Floats:
        """One value per row [n_rows]: the distribution of its leaf, inverted at uniform [n_rows], in [0, 1)."""
        leaf = self.leaves(features)
        zero = np.array(self.zero_share)[leaf]
        is_zero = uniform < zero
        among_others = np.where(is_zero, 0.0, (uniform - zero) / np.maximum(1 - zero, 1e-12))
        # Rounding may turn a number just below 1 into 1.
        place = np.minimum(among_others, 1 - 1e-12) * (self._quantiles.shape[1] - 1)
        left = place.astype(np.int64)
        share = place - left
        low, high = self._quantiles[leaf, left], self._quantiles[leaf, left + 1]
        return np.where(is_zero, 0.0, low + share * (high - low))


def grow_tree(
    features: Floats, target: Floats, *, min_leaf: int, max_leaves: int, n_quantiles: int
) -> DistributionTree:
    """Grow a tree on features [n_samples, n_features] and target [n_samples].

    min_leaf: fewest samples in a leaf. Raises TraceError if there are no samples.
    """
    if not len(target):
        raise TraceError("synthetic model: expected samples to fit on, got none; use a longer recording")
    order = np.argsort(target, kind="stable")
    features, target = features[order], target[order]
    samples = [np.arange(len(target))]
    cuts: dict[int, tuple[int, float, int, int]] = {}
    queue: list[tuple[float, int, int, float]] = []

    def consider(node: int) -> None:
        cut = _best_cut(features[samples[node]], target[samples[node]], min_leaf)
        if cut is not None:
            heapq.heappush(queue, (-cut[0], node, cut[1], cut[2]))

    consider(0)
    while queue and len(cuts) + 1 < max_leaves:
        _, node, feature, threshold = heapq.heappop(queue)
        goes_below = features[samples[node], feature] <= threshold
        cuts[node] = (feature, threshold, len(samples), len(samples) + 1)
        samples += [samples[node][goes_below], samples[node][~goes_below]]
        samples[node] = np.array([], dtype=np.int64)
        consider(len(samples) - 2)
        consider(len(samples) - 1)
    return _tree_of(cuts, [target[members] for members in samples], n_quantiles)


def _best_cut(features: Floats, target: Floats, min_leaf: int) -> tuple[float, int, float] | None:
    """Gain, feature and threshold of the best cut of samples sorted by target; None if no cut gains."""
    n_samples = len(target)
    if n_samples < 2 * min_leaf:
        return None
    before = _self_crps(target)
    best: tuple[float, int, float] | None = None
    for feature in range(features.shape[1]):
        values = features[:, feature]
        at = np.linspace(0, 1, N_THRESHOLDS + 2)[1:-1]
        for threshold in np.unique(np.quantile(values, at, method="lower")):
            goes_below = values <= threshold
            n_below = int(np.count_nonzero(goes_below))
            if min(n_below, n_samples - n_below) < min_leaf:
                continue
            gain = before - _self_crps(target[goes_below]) - _self_crps(target[~goes_below])
            if gain > (best[0] if best else 1e-9 * n_samples):
                best = (gain, feature, float(threshold))
    return best


def _self_crps(ordered: Floats) -> float:
    """n E|Y - Y'| / 2 of n samples in ascending order: the sum of (2 i - n - 1) y_i / n, i from 1."""
    n_samples = len(ordered)
    return float(np.dot(np.arange(1 - n_samples, n_samples, 2), ordered)) / n_samples


def _tree_of(cuts: dict[int, tuple[int, float, int, int]], targets: list[Floats], n_quantiles: int) -> DistributionTree:
    leaves = [node for node in range(len(targets)) if node not in cuts]
    rows = {node: row for row, node in enumerate(leaves)}
    nodes = [cuts.get(node, (LEAF, 0.0, rows.get(node, 0), 0)) for node in range(len(targets))]
    at = np.linspace(0, 1, n_quantiles)
    return DistributionTree(
        feature=tuple(node[0] for node in nodes),
        threshold=tuple(node[1] for node in nodes),
        below=tuple(node[2] for node in nodes),
        above=tuple(node[3] for node in nodes),
        zero_share=tuple(_rounded(np.array([np.mean(targets[node] == 0) for node in leaves]))),
        quantiles=tuple(tuple(_rounded(np.quantile(_non_zero(targets[node]), at))) for node in leaves),
    )


def _non_zero(values: Floats) -> Floats:
    """The values that are not 0; all values if there are none."""
    others = values[values != 0]
    return others if len(others) else values


def _rounded(values: Floats) -> list[float]:
    """Values at three digits. This makes the file a third as long, and the values are not known more precisely."""
    return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values]
