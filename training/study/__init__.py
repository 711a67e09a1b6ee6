# SPDX-License-Identifier: MIT
"""Studies: their files, how they run, and the ensembles that they make."""

from training.study.ensemble import single_sets
from training.study.journal import Journal
from training.study.settings import StageSettings, StudySettings, load_study, study_of
from training.study.study import Study, require_recordings, setting_of, study_key
from training.study.trials import check_trials_path, write_trials

__all__ = [
    "Journal", "StageSettings", "Study", "StudySettings", "check_trials_path", "load_study", "require_recordings",
    "setting_of", "single_sets", "study_key", "study_of", "write_trials",
]  # fmt: skip
