# SPDX-License-Identifier: MIT
"""Accounts: the set-up of new ones, the page of people, the API, and the command line"""

from __future__ import annotations

import re
import stat

import pytest

from serving.database import Database
from serving.people import repository
from tests.serving.people.browser import PASSWORD
from tests.serving.running import Running

pytestmark = pytest.mark.service

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)

OWN = "a password of my own"


def link_in(answer) -> str:
    """The path of the set-up link on a page."""
    return re.search(r'href="http://registry\.example(/ui/set-up\?word=[\w-]{43})"', answer.text)[1]


def test_a_new_person_sets_the_password_by_a_link_that_works_once(site):
    admin = site.logged_in()
    link = link_in(admin.post("/ui/people", name="bob", role="operator"))
    assert admin.get("/ui/people").text.count("set-up?word") == 0
    bob = site.browser()
    assert bob.get(link).status_code == bob.get(link).status_code == 200
    word = link.partition("=")[2]
    for new, again in ((OWN, "another one by mistake"), ("short", "short"), ("bob", "bob")):
        assert bob.post("/ui/set-up", csrf="", word=word, new=new, again=again).status_code == 422
    answer = bob.post("/ui/set-up", csrf="", word=word, new=OWN, again=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    assert bob.is_in()
    assert bob.get(link).status_code == 404
    assert site.browser().post("/ui/set-up", csrf="", word=word, new=OWN, again=OWN).status_code == 404
    assert site.browser().log_in("bob", OWN).status_code == 303
    assert site.audit("change-password") == [("bob", "person bob", "{}")]


@sqlite_alone
def test_a_link_expires_and_gives_way_to_a_newer_one(site):
    admin = site.logged_in()
    first = link_in(admin.post("/ui/people", name="bob", role="viewer"))
    second = link_in(admin.post("/ui/people/bob/reset"))
    assert [site.browser().get(link).status_code for link in (first, second, "/ui/set-up?word=x")] == [404, 200, 404]
    site.clock.advance(seconds=3 * 86_400)
    assert site.browser().get(second).status_code == 404
    third = link_in(site.logged_in().post("/ui/people/bob/reset"))
    site.logged_in().post("/ui/people/bob/disable")
    assert site.browser().get(third).status_code == 404


def test_a_password_of_the_administrator_serves_only_to_choose_another_one(site):
    initial = "for the first time only"
    site.logged_in().post("/ui/people", name="bob", role="viewer", password=initial)
    bob = site.browser()
    answer = bob.log_in("bob", initial)
    assert (answer.status_code, bob.cookie) == (303, None)
    link = answer.headers["location"].removeprefix("./")
    word = link.partition("=")[2]
    same = bob.post("/ui/set-up", csrf="", word=word, new=initial, again=initial)
    assert (same.status_code, "expected another one than the administrator" in same.text) == (422, True)
    assert bob.post("/ui/set-up", csrf="", word=word, new=OWN, again=OWN).status_code == 303
    assert bob.is_in()
    assert site.browser().log_in("bob", initial).status_code == 401


@sqlite_alone
def test_the_link_is_one_of_the_proxys_address(site):
    admin = site.logged_in()
    headers = {"Origin": admin.origin, "Referer": f"{admin.origin}/tuning/ui/people"}
    assert (
        f'href="{admin.origin}/tuning/ui/set-up?word='
        in admin.post("/ui/people", headers=headers, name="bob", role="viewer").text
    )
    headers["Referer"] = "http://evil.example/ui/people"
    assert f'href="{admin.origin}/ui/set-up?word=' in admin.post("/ui/people/bob/reset", headers=headers).text


def test_the_api_makes_lists_and_changes_people(api, problem):
    made = api.request("POST", "/v1/people", json={"name": "bob", "role": "viewer"})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    assert re.fullmatch(r"ui/set-up\?word=[\w-]{43}", made.json()["set_up_path"])
    problem(api.request("POST", "/v1/people", json={"name": "bob", "role": "viewer"}), status=409)
    problem(api.request("POST", "/v1/people", json={"name": "open", "role": "viewer"}), status=422)
    refused = problem(
        api.request("POST", "/v1/people", json={"name": "c", "role": "viewer", "password": "hunter2"}), status=422
    )
    assert "hunter2" not in str(refused)
    api.new_token("read", principal="builds")
    assert (
        "expected ci"
        in problem(api.request("POST", "/v1/people", json={"name": "builds", "role": "admin"}), status=409)["detail"]
    )
    assert api.request("PUT", "/v1/people/bob/role", json={"role": "operator"}).json()["role"] == "operator"
    assert api.request("PUT", "/v1/people/bob/role", json={"role": "operator"}).status_code == 200
    reset = api.request("POST", "/v1/people/bob/reset", json={}).json()
    assert reset["set_up_path"] != made.json()["set_up_path"]
    problem(api.request("PUT", "/v1/people/nobody/role", json={"role": "viewer"}), status=404)
    api.request("DELETE", "/v1/principals/bob")
    problem(api.request("POST", "/v1/people/bob/reset", json={}), status=409)
    page = api.get("/v1/people", params={"limit": 1}).json()
    assert [(row["name"], row["is_set_up"], row["disabled_at"] is None) for row in page["items"]] == [
        ("bob", False, False)
    ]
    changes = [row["action"] for row in api.get("/v1/audit", params={"target": "person bob"}).json()["items"]]
    assert changes == ["reset-person", "set-role", "create-person"]


@sqlite_alone
def test_the_command_makes_and_changes_people(api, run_command, monkeypatch, tmp_path):
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n", encoding="utf-8")
    password.chmod(0o600)
    with Running(api.database, open=False) as registry:
        monkeypatch.setenv("CCATUNE_REGISTRY_URL", registry.url)
        monkeypatch.setenv("CCATUNE_TOKEN", api.token)
        status, out, _ = run_command("people", "add", "bob", "--role", "viewer")
        assert (status, f"{registry.url}/ui/set-up?word=" in out) == (0, True)
        status, out, _ = run_command("people", "add", "carol", "--role", "admin", "--password-file", password)
        assert (status, "set-up" in out) == (0, False)
        assert run_command("people", "set-role", "bob", "operator")[0] == 0
        assert "set-up?word=" in run_command("people", "reset", "bob")[1]
        assert run_command("people", "disable", "carol")[0] == 0
        status, out, _ = run_command("people", "list")
    lines = [line.split() for line in out.splitlines()[1:]]
    assert [(line[0], line[1], line[2]) for line in lines] == [
        ("bob", "operator", "not"),
        ("carol", "admin", "disabled"),
    ]


def test_the_first_person_is_made_with_the_first_token(sqlite_url, run_command, tmp_path):
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n", encoding="utf-8")
    serve = ("serve", "--database", sqlite_url, "--init", "--person")
    password.chmod(0o644)
    status, _, said = run_command(*serve, "alice", "--password-file", password)
    assert (status, "expected a file that others cannot read" in said) == (2, True)
    password.chmod(0o600)
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert "expected 1 to 128" in run_command(*serve, "a b", "--password-file", password)[2]
    assert not (tmp_path / "registry.db").exists()
    status, out, _ = run_command(*serve, "alice", "--password-file", password)
    assert (status, "ccat_" in out, PASSWORD in out) == (0, True, False)
    password.write_text("a new one after a loss\n", encoding="utf-8")
    assert run_command(*serve, "alice", "--password-file", password)[0] == 2
    assert run_command(*serve, "alice", "--again", "--password-file", password)[0] == 0
    database = Database(sqlite_url)
    with database.read() as session:
        row = repository.person(session, "alice")
    database.close()
    assert (row.role, row.must_change, row.password_hash[:10]) == ("admin", False, "$argon2id$")


@pytest.mark.parametrize("options", [["--person", "alice"], ["--init", "--password-file", "x"]])
def test_options_of_a_person_need_those_before_them(sqlite_url, run_command, options):
    assert run_command("serve", "--database", sqlite_url, *options)[0] == 2
