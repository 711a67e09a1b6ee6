# SPDX-License-Identifier: MIT
"""One stage of the synthetic generator: draws how many opportunities fall in each of the `ratio` ticks of a parent.

A stage receives the counts of its parents and draws one tick after the other,

    count_t = parent_t  y,      y ~ distribution tree at the features of t

    features    parent_t: its count per tick
                the means of the last 1, 1, 2, 4, 8 and 16 ticks, in octaves back to 32, divided by parent_t
                ticks since the last opportunity (at most 200): how long an outage has lasted
                the next parent's count divided by this one's: whether the rate rises or falls
                the tick's place in its parent

So whatever follows a dip, a burst or an outage is distributed as in the recording. Then the ticks of a parent are
scaled to the parent's count, and rounded with the remainder carried on. So a finer stage changes nothing that a coarser
one has drawn.

A long series is drawn in pieces of some hundred ticks, all pieces in parallel. Each piece starts with a run-in over the
ticks before it. So only at the seams does the past from which a tick is drawn differ from the ticks that stand before
it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from emulation.traces._tree import DistributionTree, grow_tree

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

OCTAVES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32))
HISTORY_TICKS = 32
MAX_SILENCE_TICKS = 200
# A parent with a lower count per tick carries nothing: one opportunity in a thousand ticks.
SILENT = 1e-3
MAX_SAMPLES = 40_000
MIN_LEAF = 25
MAX_LEAVES = 192
N_QUANTILES = 25
PIECE_TICKS = 400
RUN_IN_TICKS = 100


class Stage(BaseModel):
    """Draws ticks of tick_ms. Each group of `ratio` ticks shares the count of one parent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tick_ms: int = Field(ge=1)
    ratio: int = Field(ge=1)
    max_count: int = Field(ge=1, description="most opportunities seen in one tick")
    tree: DistributionTree


def is_even(counts: Counts, *, ratio: int) -> bool:
    """Whether the opportunities of most parents are spread evenly over their ticks [n].

    In an even parent each tick gets the integer part of the mean or one more. The variance is then f (1 - f), where f
    is the fraction of the mean. A parent counts as uneven if its variance is over 2 (f (1 - f) + 0.05). The 0.05
    is there because a mean without fraction has no variance at all. The link is even if at most a tenth of its parents
    are uneven.
    """
    n_parents = len(counts) // ratio
    ticks = counts[: n_parents * ratio].reshape(n_parents, ratio).astype(np.float64)
    mean = ticks.mean(axis=1)
    fraction = mean - np.floor(mean)
    uneven = ticks.var(axis=1) > 2 * (fraction * (1 - fraction) + 0.05)
    return bool(uneven[mean > 0].mean() <= 0.1) if (mean > 0).any() else True


def fit_stage(series: list[tuple[Counts, Floats]], *, tick_ms: int, ratio: int) -> Stage:
    """Fit on pairs of counts [n_ticks] and parents per tick [n_ticks], one pair per recording."""
    features, targets = [], []
    for counts, parents in series:
        used = parents > SILENT
        used[: min(HISTORY_TICKS, len(counts) // 2)] = False
        ticks = np.flatnonzero(used)
        rows = _features_of(counts.astype(np.float64), parents, ratio)
        features.append(rows[ticks])
        targets.append(counts[ticks] / parents[ticks])
    all_features, target = np.concatenate(features), np.concatenate(targets)
    if len(target) > MAX_SAMPLES:
        chosen = np.linspace(0, len(target) - 1, MAX_SAMPLES).astype(np.int64)
        all_features, target = all_features[chosen], target[chosen]
    tree = grow_tree(all_features, target, min_leaf=MIN_LEAF, max_leaves=MAX_LEAVES, n_quantiles=N_QUANTILES)
    max_count = max(int(counts.max()) for counts, _ in series)
    return Stage(tick_ms=tick_ms, ratio=ratio, max_count=max(max_count, 1), tree=tree)


def _features_of(counts: Floats, parents: Floats, ratio: int) -> Floats:
    """Features of every tick at once: [n_ticks, n_features]. `_Drawing.features` gives the same, tick by tick."""
    n_ticks = len(counts)
    tick = np.arange(n_ticks)
    total = np.concatenate(([0.0], np.cumsum(counts)))
    scale = np.maximum(parents, SILENT)
    means = [
        (total[np.maximum(tick - first + 1, 0)] - total[np.maximum(tick - last, 0)]) / (last - first + 1)
        for first, last in OCTAVES
    ]
    last_seen = np.maximum.accumulate(np.where(counts >= 0.5, tick, -1))
    before = np.concatenate(([-1], last_seen[:-1]))
    silence = np.minimum(tick - 1 - before, MAX_SILENCE_TICKS).astype(np.float64)
    following = np.concatenate((parents[ratio:], np.repeat(parents[-1:], min(ratio, n_ticks))))[:n_ticks]
    return np.stack([parents, *(mean / scale for mean in means), silence, following / scale, tick % ratio], axis=1)


def draw_stage(stage: Stage, parents: Floats, *, rng: np.random.Generator) -> Counts:
    """Draw the ticks of a series of parents. parents: counts per tick [n_parents]. Returns [n_parents * ratio]."""
    n_parents = len(parents)
    piece = max(1, PIECE_TICKS // stage.ratio)
    run_in = max(1, RUN_IN_TICKS // stage.ratio)
    n_pieces = -(-n_parents // piece)
    place = np.arange(n_pieces)[:, None] * piece + np.arange(-run_in, piece + 1)
    table = parents[np.clip(place, 0, n_parents - 1)]
    drawing = _Drawing(stage, table, rng)
    for index in range(run_in + piece):
        drawing.draw_parent(index)
    drawn = drawing.counts[:, HISTORY_TICKS + run_in * stage.ratio :].reshape(-1)[: n_parents * stage.ratio]
    return drawn.astype(np.int64)


class _Drawing:
    """The pieces of one series while they are drawn, one piece per row. All rows advance by one tick together."""

    def __init__(self, stage: Stage, parents: Floats, rng: np.random.Generator) -> None:
        """parents: counts per tick, [n_pieces, n_parents + 1]; the last column is used only as the next parent."""
        self.stage = stage
        self.parents = parents
        self.rng = rng
        n_ticks = (parents.shape[1] - 1) * stage.ratio
        self.counts = np.zeros((len(parents), HISTORY_TICKS + n_ticks))
        self.counts[:, :HISTORY_TICKS] = parents[:, :1]
        self.silence = np.zeros(len(parents))
        self.carried = np.zeros(len(parents))

    def draw_parent(self, index: int) -> None:
        """Draw the ticks of one parent in every row."""
        stage, parent = self.stage, self.parents[:, index]
        scale = np.maximum(parent, SILENT)
        first = HISTORY_TICKS + index * stage.ratio
        for phase in range(stage.ratio):
            tick = first + phase
            share = stage.tree.draw(self.features(index, phase, scale), self.rng.random(len(parent)))
            count = np.where(parent > SILENT, np.clip(share * scale, 0.0, stage.max_count), 0.0)
            # Whole opportunities, with the remainder carried on. A silent tick stays silent.
            whole = np.where(count > 0, np.maximum(np.rint(count + self.carried), 0.0), 0.0)
            self.carried = np.clip(self.carried + count - whole, -1.0, 1.0)
            self.counts[:, tick] = whole
            self.silence = np.where(whole > 0, 0.0, self.silence + 1)
        self._conserve(parent, slice(first, first + stage.ratio))

    def features(self, index: int, phase: int, scale: Floats) -> Floats:
        """Features of one tick in every row: [n_pieces, n_features]."""
        tick = HISTORY_TICKS + index * self.stage.ratio + phase
        means = [self.counts[:, tick - last : tick - first + 1].mean(axis=1) / scale for first, last in OCTAVES]
        silence = np.minimum(self.silence, MAX_SILENCE_TICKS)
        following = self.parents[:, index + 1] / scale
        place = np.full(len(scale), float(phase))
        return np.stack([self.parents[:, index], *means, silence, following, place], axis=1)

    def _conserve(self, parent: Floats, ticks: slice) -> None:
        """Scale the ticks to their parent's whole count and round them, with the remainder carried on."""
        ratio = self.stage.ratio
        drawn = self.counts[:, ticks]
        total = drawn.sum(axis=1)
        # If all ticks of a parent were drawn silent, they share its count evenly.
        shares = np.where(total[:, None] > 0, drawn / np.maximum(total, SILENT)[:, None], 1 / ratio)
        upto = np.rint(np.cumsum(shares, axis=1) * (parent * ratio)[:, None])
        upto[:, -1] = np.rint(parent * ratio)
        whole = np.diff(upto, axis=1, prepend=0.0)
        self.counts[:, ticks] = whole
        trailing = np.argmax(whole[:, ::-1] > 0, axis=1)
        self.silence = np.where((whole > 0).any(axis=1), trailing, self.silence)
