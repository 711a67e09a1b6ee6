# SPDX-License-Identifier: MIT
"""Learns parameter sets for each network state.

study/        a study's file, its stages, the ensemble that they make
workloads/    what a study trains on: epochs of recorded links, files through rate limiters
objectives/   what is required, and what is minimised
searches/     how points are proposed
evaluation/   how points are run and scored, and where searches run
validation/   how an ensemble does on unseen data
verification/ how real kernels choose among the best points
reports/      the tables of `ccatune report`
"""

from training.errors import TrainingError
from training.study import Journal, Study, StudySettings, load_study, single_sets, study_of, write_trials

__all__ = [
    "Journal", "Study", "StudySettings", "TrainingError", "load_study", "single_sets", "study_of", "write_trials",
]  # fmt: skip
