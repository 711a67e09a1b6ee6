# SPDX-License-Identifier: MIT
"""Learns parameter sets per network state: states, searches, studies, ensembles, judgement."""

from training.build import single_sets
from training.dds import DdsSearch, DdsSettings
from training.errors import TrainingError
from training.evaluator import Evaluator, Request
from training.grid import GridSearch
from training.journal import Journal
from training.judge import judge
from training.objective import Objective
from training.optimise import optimise
from training.search import Found, Score, Search
from training.settings import StudySettings, load_study, make_search, study_of
from training.space import Dimension, Point, Space, space_of
from training.states import Confusion, StateEpoch, confusion, epochs_of
from training.study import Study

__all__ = [
    "Confusion",
    "DdsSearch",
    "DdsSettings",
    "Dimension",
    "Evaluator",
    "Found",
    "GridSearch",
    "Journal",
    "Objective",
    "Point",
    "Request",
    "Score",
    "Search",
    "Space",
    "StateEpoch",
    "Study",
    "StudySettings",
    "TrainingError",
    "confusion",
    "epochs_of",
    "judge",
    "load_study",
    "make_search",
    "optimise",
    "single_sets",
    "space_of",
    "study_of",
]
