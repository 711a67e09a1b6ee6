# SPDX-License-Identifier: MIT
"""PostgreSQL databases of other encodings than UTF8"""

from __future__ import annotations

import pytest

import ccatune
from serving.database import open_database
from serving.errors import DatabaseError
from serving.settings import ServingSettings

pytestmark = pytest.mark.service


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
@pytest.mark.parametrize("migrates", [True, False])
def test_a_database_of_another_encoding_is_refused_with_the_way_to_make_one(postgresql, encoding, migrates):
    url = postgresql.empty_database(encoding=encoding)
    with pytest.raises(DatabaseError, match=f"expected the encoding UTF8, got {encoding}; .*createdb --encoding=UTF8"):
        open_database(ServingSettings.model_validate({"database_url": url, "migrate": migrates}))


def test_serve_ends_with_status_2_instead_of_a_fault_that_restarts_for_ever(postgresql, capsys):
    url = postgresql.empty_database(encoding="SQL_ASCII")
    assert ccatune.run(["serve", "--database", url, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ccatune: database postgresql+psycopg://")
    assert "got SQL_ASCII" in said
