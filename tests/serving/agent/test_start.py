# SPDX-License-Identifier: MIT
"""What the agent imports before its last known good table is in force: on a slow machine, most of its start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from serving.agent.store import PENDING, Store
from tests.conftest import REPOSITORY
from tests.serving.agent.fakes import PARAMETERS, table
from tests.serving.agent.signed_offers import Chain, root_file, signed_answer, trust_in
from tests.serving.signatures.keyring import make_root

STATUS = "module 0.1.0\ninstance 1\ngeneration 0\nregistry -\nchannel -\nserial 0\nurgent 0\ndigest -\n"
# Ends at the first write to the table, with what was imported until then.
PROGRAM = """
import json, os, sys
sys.path.insert(0, sys.argv.pop(1))
table = sys.argv.pop(1)
def look(event, found):
    if event == "open" and found[0] is not None and str(found[0]) == table and found[2] & os.O_WRONLY:
        os.write(1, json.dumps(sorted(sys.modules)).encode())
        os._exit(0)
sys.addaudithook(look)
from serving.agent.cli import main
main()
"""
LATER = {
    *(
        "cryptography",
        "http",
        "ssl",
        "email",
        "socket",
        "subprocess",
        "tempfile",
        "random",
        "tomllib",
        "zipfile",
        "importlib.metadata",
    ),
    *("cryptography", "serving.signatures"),
    *("serving.agent.client", "serving.agent.connection", "serving.agent.commands", "serving.agent.switch"),
}


@pytest.mark.parametrize("is_signed", [False, True], ids=["unsigned", "signed"])
def test_the_last_known_good_is_applied_before_anything_that_it_does_not_need_is_imported(
    *, is_signed: bool, tmp_path: Path
) -> None:
    store = Store(tmp_path / "state")
    good, words = table(1, registry="lab"), []
    with store.acquire():
        if is_signed:
            root = root_file(tmp_path, make_root())
            words = ["--root", str(root)]
            good = trust_in(root, tmp_path / "state").check(signed_answer(good), good, fetch=Chain())
        store.save("gr", PENDING, good.to_json())
        store.promote("gr")
    tree = tmp_path / "tree" / "gr"
    tree.mkdir(parents=True)
    (tree / "status").write_text(STATUS)
    (tree / "ensemble").write_text("")
    (tree / "parameters").write_text(PARAMETERS)
    folders = ["--state-dir", str(tmp_path / "state"), "--proc-root", str(tmp_path / "tree")]
    told = [*words, "--url", "http://127.0.0.1:9", "--cca", "gr", *folders]
    command = [sys.executable, "-c", PROGRAM, str(REPOSITORY), str(tree / "ensemble"), *told]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert LATER & set(json.loads(done.stdout)) == set()
