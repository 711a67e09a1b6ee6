# SPDX-License-Identifier: MIT
from __future__ import annotations

import resource
from pathlib import Path

import pytest

from training import TrainingError, write_trials


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_trials_that_do_not_fit_on_the_disk_leave_the_file_as_it_was(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trials{suffix}"
    path.write_bytes(b"earlier")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(TrainingError, match=rf"trials{suffix}: cannot be written \(File too large\)"):
            write_trials([{"cost": 0.125, "point": 20_000}], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]
