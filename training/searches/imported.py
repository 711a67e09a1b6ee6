# SPDX-License-Identifier: MIT
"""Any searcher of Ray Tune's interface, by its import path, within one search: no Tune trial and no Ray process.

The searcher receives its space by `set_search_properties`: `tune.uniform(0, 1)` for each free parameter. A value is a
position on the logarithmic scale of the parameter's range. The searcher minimises `penalised`. The result of a point
also has the two parts:

    penalised = cost + violation_weight * max(violation, 0)

The candidates and the Sobol sequence are evaluated before the searcher is made. If its constructor has the argument
`points_to_evaluate`, as those of Ray Tune do, it receives these points. Otherwise it does not learn of them.

One searcher lives as long as its search. A search that continues makes a new searcher, which receives the same results
again. For the same seed and results it must therefore suggest the same points. Points that stopped early have the
result (v + L, mean of the known costs) that models.py gives them at that time.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.errors import TrainingError
from training.searches.models import Seen, quietly
from training.searches.search import NoMorePointsError

METRIC = "penalised"
POINTS = "points_to_evaluate"


def searcher_class(path: str) -> type[Any]:
    """The class at `package.module:Class`.

    Raises:
        TrainingError: it cannot be imported, or is no searcher of Ray Tune.
    """
    from ray.tune.search import Searcher

    module, _, name = path.partition(":")
    try:
        with quietly():
            found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the module does when it is imported
        raise TrainingError(f"search: expected the searcher {path}, its import failed: {error!r}; install its package, "
                            "or add its folder to PYTHONPATH, here and on every node") from error  # fmt: skip
    if not (isinstance(found, type) and issubclass(found, Searcher)):
        raise TrainingError(f"search: expected {path} to be a subclass of ray.tune.search.Searcher, got {found!r}")
    return found


def source_digest(path: str) -> str:
    """The beginning of the SHA-256 of the file that has the class; "none" where it has no file.

    Raises:
        TrainingError: see searcher_class.
    """
    file = getattr(inspect.getmodule(searcher_class(path)), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] if file else "none"


class Imported:
    """The searcher of one search, as its `Propose`.

    names: of the free parameters. arguments: of its constructor. seed: passed as the argument `seed_argument`, or else
    as `seed`, if the constructor has it and `arguments` do not set it. weight: the penalty of a violation of 1.

    Raises:
        TrainingError: as searcher_class does; the class refuses its arguments or the space.
    """

    def __init__(
        self,
        path: str,
        arguments: Mapping[str, Any],
        *,
        names: Sequence[str],
        seed: int,
        seed_argument: str | None,
        weight: float,
    ) -> None:
        self._path, self._class, self._names, self._weight = path, searcher_class(path), tuple(names), weight
        self._takes = inspect.signature(self._class).parameters
        takes_seed = "seed" in self._takes and "seed" not in arguments
        its_seed = seed_argument or ("seed" if takes_seed else None)
        self._arguments = {**arguments, **({its_seed: seed} if its_seed else {})}
        self._make([])  # so that a wrong study ends before its first run
        self._searcher: Any = None
        self._told = 0

    def __call__(self, seen: Sequence[Seen], seed: int) -> list[float]:
        """The next position, after what was seen.

        Raises:
            NoMorePointsError: the searcher has finished.
            TrainingError: it failed, or suggested no position of the space.
        """
        del seed  # its own one was given when it was made
        with quietly():
            if self._searcher is None:
                first = [dict(zip(self._names, one.position, strict=True)) for one in seen]
                self._searcher = self._make(first)
                knows = POINTS in self._takes
                for number in range(len(seen) if knows else 0):
                    self._call(self._searcher.suggest, str(number))
                self._told = 0 if knows else len(seen)
            for number in range(self._told, len(seen)):
                self._call(self._searcher.on_trial_complete, str(number), self._result(seen, number))
            self._told = len(seen)
            return self._position(self._call(self._searcher.suggest, str(len(seen))))

    def _make(self, points: Sequence[Mapping[str, float]]) -> Any:
        from ray import tune

        arguments = {**self._arguments, **({POINTS: list(points)} if points and POINTS in self._takes else {})}
        space = {name: tune.uniform(0.0, 1.0) for name in self._names}
        with quietly():
            try:
                made = self._class(**arguments)
                accepts = made.set_search_properties(METRIC, "min", space)
            except Exception as error:
                given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items()) or "none"
                raise TrainingError(
                    f"search: expected {self._path} to accept its arguments ({given}), got {error!r}"
                ) from error
        if not accepts:
            raise TrainingError(f"search: expected {self._path} to take its space by set_search_properties and to "
                                "return true, got false; leave the space out of its arguments")  # fmt: skip
        return made

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            raise TrainingError(f"search: {self._path}: {method.__name__} failed: {error!r}") from error

    def _result(self, seen: Sequence[Seen], number: int) -> dict[str, float]:
        costs = [one.cost for one in seen if one.cost is not None]
        violation, cost = seen[number].violation, seen[number].cost
        cost = sum(costs) / len(costs) if cost is None else cost
        return {METRIC: cost + self._weight * max(violation, 0.0), "cost": cost, "violation": violation,
                "training_iteration": 1}  # fmt: skip

    def _position(self, suggested: Any) -> list[float]:
        if suggested == "FINISHED":  # Searcher.FINISHED
            raise NoMorePointsError
        try:
            found = [float(suggested[name]) for name in self._names]
        except (KeyError, TypeError, ValueError):
            found = []
        if not found or not all(0 <= x <= 1 for x in found):
            raise TrainingError(f"search: expected {self._path} to suggest values from 0 to 1 of "
                                f"{', '.join(self._names)}, got {suggested!r}")  # fmt: skip
        return found
