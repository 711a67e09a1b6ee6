# SPDX-License-Identifier: MIT
"""The attacks on an agent with a pinned root document, each against a real registry (see attacked.py).

Each attack must leave the table in force as it is, and the state and its words must say why. When the attack ends, the
agent must follow the registry again without an operator. `--dry-run` must say the same, and write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from serving.agent.store import NO_CCA, ROOT, Store
from serving.agent.table import MAX_ADVANCE
from serving.signatures import Envelope, PrivateKey, Root
from tests.serving.agent.fakes import ensemble, table
from tests.serving.attacked import DAY_S, Json, Scene, scene_in
from tests.serving.signing import Keys, envelope_of
from tests.serving.threads import beside

pytestmark = pytest.mark.service

Attack = Callable[[Scene, Json], Json]
FOREIGN = Keys()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_in(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene for attacks on one offer, after each of which the agent follows the registry again."""
    with scene_in(tmp_path_factory.mktemp("steady")) as made:
        yield made


def without_signature(_scene: Scene, offer: Json) -> Json:
    return {**offer, "signatures": {**offer["signatures"], "deployment": None}}


def without_signatures(_scene: Scene, offer: Json) -> Json:
    return {name: value for name, value in offer.items() if name != "signatures"}


def without_approval(_scene: Scene, offer: Json) -> Json:
    return {**offer, "signatures": {**offer["signatures"], "ensemble": []}}


def changed(**fields: object) -> Attack:
    return lambda _, offer: {**offer, **fields}


def signed_as(**fields: object) -> Attack:
    """The registry's key signed another statement than the offer's."""
    return lambda scene, offer: scene.signed(offer, **fields)


def ahead(serial: int) -> Attack:
    """Whoever stole the registry's key signs a high serial."""
    return lambda scene, offer: scene.signed({**offer, "serial": serial})


def of_another_registry(scene: Scene, offer: Json) -> Json:
    return scene.signed({**offer, "registry": "elsewhere"}, FOREIGN.registry)


def of_a_registry_with_the_same_keys(scene: Scene, offer: Json) -> Json:
    return scene.signed({**offer, "registry": "elsewhere"})


def other_ensemble(scene: Scene, offer: Json) -> Json:
    """An ensemble that a publisher signed, in an offer whose deployment is of another one."""
    first = ensemble(window_us=60_001)
    approval = scene.approval(first, scene.keys.publisher).to_json()
    signatures = {**offer["signatures"], "ensemble": [approval]}
    return {**offer, "ensemble": first.to_json(), "digest": first.digest, "signatures": signatures}


def unapproved_ensemble(scene: Scene, offer: Json) -> Json:
    """The stolen key of the registry signs an ensemble that no publisher has signed."""
    made = ensemble(window_us=66_666)
    return scene.signed({**offer, "serial": 3, "ensemble": made.to_json(), "digest": made.digest})


def self_approved_ensemble(scene: Scene, offer: Json) -> Json:
    """As above, and the stolen key signs as a publisher, too."""
    made = ensemble(window_us=66_666)
    signed = scene.signed({**offer, "serial": 3, "ensemble": made.to_json(), "digest": made.digest})
    signed["signatures"]["ensemble"] = [scene.approval(made, scene.keys.registry).to_json()]
    return signed


OFFERS: list[tuple[str, Attack, str, str]] = [
    # attack, what the agent gets, its state, and its words
    ("unsigned", without_signature, "Rejected", "expected the registry's signature, the offer has none"),
    ("as from an old registry", without_signatures, "Rejected", "expected the registry's signature"),
    ("no publisher", without_approval, "Rejected", "1 of the 1 keys of the role publisher"),
    ("unknown key", lambda s, o: s.signed(o, FOREIGN.registry), "Rejected", "keys of the role registry"),
    ("publisher's key", lambda s, o: s.signed(o, s.keys.publisher), "Rejected", "keys of the role registry"),
    ("root's key", lambda s, o: s.signed(o, s.keys.root), "Rejected", "keys of the role registry"),
    ("unapproved ensemble", unapproved_ensemble, "Rejected", "expected one of gr sha256:"),
    ("self-approved ensemble", self_approved_ensemble, "Rejected", "keys of the role publisher"),
    ("another registry", of_another_registry, "Rejected", "keys of the role registry"),
    ("same keys elsewhere", of_a_registry_with_the_same_keys, "Rejected", "registry lab, got elsewhere"),
    ("another CCA", signed_as(cca="roccet"), "Rejected", "expected cca gr in the registry's signature, got roccet"),
    ("another channel", signed_as(channel="canary"), "Rejected", "expected channel champion"),
    ("hold-back", changed(hold_back_permille=1000), "Rejected", "expected hold_back_permille 1000"),
    ("urgent", changed(urgent=True), "Rejected", "expected urgent True in the registry's signature, got False"),
    ("serial", changed(serial=3), "Rejected", "expected serial 3 in the registry's signature, got 2"),
    ("digest", other_ensemble, "Rejected", "expected digest sha256:"),
    ("content", changed(ensemble=ensemble(window_us=66_666).to_json()), "Rejected", "expected digest sha256:"),
    ("far ahead", ahead(2**63 - 1), "Rejected", "not plausible"),
    ("just too far ahead", ahead(2 + MAX_ADVANCE + 1), "Rejected", "not plausible"),
    ("expired", signed_as(issued_s=1, expires_s=DAY_S), "Stale", "it expired at 1970-01-02T00:00:00Z"),
    ("from the future", signed_as(issued_s=2**33, expires_s=2**34), "Rejected", "compare the clocks"),
]


def assert_refused(scene: Scene, state: str, words: str) -> None:
    """The agent and its trial refuse what they are offered, each time, and the table in force stays."""
    text = scene.text
    for _ in range(2):
        files = scene.files()
        trial = scene.trial()
        assert scene.files() == files
        assert (trial.would, trial.blocked) == ("nothing", state)
        assert words in trial.registry
        report = scene.ask()
        assert (report.state, words in str(report.error)) == (state, True), report
        assert scene.text == text


def assert_in_sync(scene: Scene, *, serial: int) -> None:
    """The agent follows the registry without an operator."""
    assert scene.trial().blocked is None
    report = scene.ask()
    assert (report.state, report.effective_serial, report.error) == ("InSync", serial, None)


@pytest.mark.parametrize(("attack", "state", "words"), [row[1:] for row in OFFERS], ids=[row[0] for row in OFFERS])
def test_a_changed_offer_is_refused(attack: Attack, state: str, words: str, steady: Scene) -> None:
    steady.attacker.offer = lambda offer: attack(steady, offer)
    assert_refused(steady, state, words)
    assert steady.reported() == {"web-1": state}
    steady.attacker.stop()
    assert_in_sync(steady, serial=2)


def test_the_next_move_is_applied_after_all_changed_offers(steady: Scene) -> None:
    assert steady.move(3) == 3
    assert_in_sync(steady, serial=3)


def test_genuine_signatures_of_another_channel_are_refused(scene: Scene) -> None:
    for _ in range(2):
        scene.move(2, channel="canary")
    canary = scene.offered(channel="canary")
    assert (canary["serial"], canary["digest"]) == (2, scene.offered()["digest"])
    scene.attacker.offer = lambda offer: {**offer, "signatures": canary["signatures"]}
    assert_refused(scene, "Rejected", "expected channel champion in the registry's signature, got canary")
    scene.attacker.offer = lambda _: canary
    assert_refused(scene, "Rejected", "expected channel champion, got 'canary'")


def test_a_replayed_offer_is_refused_even_after_a_reboot(scene: Scene) -> None:
    old = scene.offered()
    scene.move(3)
    assert_in_sync(scene, serial=3)
    scene.attacker.offer = lambda _: old
    assert_refused(scene, "Rejected", "or a later one, got 2, which is older")
    scene.reboot()
    report = scene.ask()
    assert (report.state, report.effective_serial) == ("Rejected", 3)


def test_a_replay_under_one_of_two_keys_is_refused_even_after_a_reboot(scene: Scene) -> None:
    old = scene.offered()
    scene.publish_root(2, registry_keys=[scene.keys.registry, FOREIGN.registry])
    scene.serve(FOREIGN.registry)
    scene.move(3)
    assert_in_sync(scene, serial=3)
    scene.attacker.offer = lambda _: old
    scene.reboot()
    assert scene.ask().effective_serial == 3
    assert_refused(scene, "Rejected", "or a later one, got 2, which is older")


# -- tokens ------------------------------------------------------------------------


def revoked(scene: Scene) -> str:
    text = scene.new_token("read", "report")
    with scene.operator as client:
        client.revoke_token(next(row["id"] for row in client.tokens() if row["id"] in text))
    return text


TOKENS: list[tuple[str, Callable[[Scene], str], str]] = [
    ("none", lambda _: "", "the registry requires a token"),
    ("invented", lambda scene: f"{scene.token[:-8]}aaaaaaaa", "does not accept the token"),
    ("wrong scope", lambda scene: scene.new_token("publish"), "expected a token that permits the scope read"),
    ("another channel", lambda scene: scene.new_token("read", channels=["canary"]), "for the channel champion"),
    ("another algorithm", lambda scene: scene.new_token("read", ccas=["roccet"]), "for the algorithm gr"),
    ("expired", lambda scene: scene.new_token("read", age_s=61, lifetime_s=60), "may be expired or revoked"),
    ("revoked", revoked, "may be expired or revoked"),
]


@pytest.mark.parametrize(("make", "words"), [row[1:] for row in TOKENS], ids=[row[0] for row in TOKENS])
def test_a_token_that_does_not_permit_it_gives_no_table(make: Callable[[Scene], str], words: str, scene: Scene) -> None:
    own = scene.token
    scene.move(3)
    scene.token = make(scene)
    assert_refused(scene, "TokenRefused", words)
    assert scene.reported() == {"web-1": "InSync"}
    scene.token = own
    assert_in_sync(scene, serial=3)


@pytest.mark.parametrize(
    ("scopes", "agent_id", "state"),
    [(("read",), None, "Rejected"), (("read", "report"), "web-2", "TokenRefused")],
    ids=["no scope", "another agent's"],
)
def test_a_report_in_anothers_name_is_not_stored(
    scopes: tuple[str, ...], agent_id: str | None, state: str, scene: Scene
) -> None:
    scene.token = scene.new_token(*scopes, agent_id=agent_id)
    scene.attacker.offer = lambda offer: without_signature(scene, offer)
    assert scene.ask().state == state
    assert "event=report_failed" in scene.log.getvalue()
    assert scene.reported() == {"web-1": "InSync"}


# -- keys that were removed ----------------------------------------------------------


def test_a_removed_key_of_the_registry_signs_no_more(scene: Scene) -> None:
    scene.rotate()
    assert_in_sync(scene, serial=2)
    scene.attacker.offer = lambda offer: scene.signed(offer, scene.keys.registry)
    assert_refused(scene, "Rejected", "role registry in version 2 of the root document of lab, got 0 that hold")


def test_the_old_root_document_does_not_return(scene: Scene) -> None:
    old = scene.offered()
    scene.rotate()
    assert_in_sync(scene, serial=2)
    scene.attacker.offer = lambda _: old
    for root in (lambda _: None, lambda _: scene.root(1), lambda version: scene.root(version - 1)):
        scene.attacker.root = root
        assert scene.ask().state == "Rejected"
    kept = Envelope.from_json(Store(scene.folder / "state").load(NO_CCA, ROOT, dict)["envelope"])
    assert Root.from_payload(kept.payload).version == 2
    scene.attacker.stop()
    assert_in_sync(scene, serial=2)


def test_removed_publishers_and_too_few_of_them_approve_nothing(scene: Scene) -> None:
    keys, third = scene.keys, PrivateKey.generate()
    evil = ensemble(window_us=66_666)
    two = {"publishers": [keys.second_publisher, third], "threshold": 2}
    scene.serve(None)
    scene.publish_root(2, **two)
    scene.serve(keys.registry)

    def approved_by(*signers: PrivateKey) -> Callable[[Json], Json]:
        def offer(genuine: Json) -> Json:
            changed = {**genuine, "serial": 9, "ensemble": evil.to_json(), "digest": evil.digest}
            changed["signatures"]["ensemble"] = [scene.approval(evil, one).to_json() for one in signers]
            return scene.signed(changed)

        return offer

    for signers, number in (([keys.publisher], 0), ([third], 1), ([third, keys.publisher], 1), ([third, third], 1)):
        scene.attacker.offer = approved_by(*signers)
        assert_refused(scene, "Rejected", f"role publisher in version 2 of the root document of lab, got {number} that")
    scene.attacker.stop()
    assert scene.move(3, publishers=[keys.second_publisher, third]) == 3
    assert_in_sync(scene, serial=3)


@contextmanager
def following(scene: Scene) -> Iterator[None]:
    """An agent that runs in a thread."""
    running = scene.new_agent()
    with beside(running.run, stop=running.stop):
        yield


def wait_for_report(scene: Scene, state: str) -> None:
    deadline_s = time.monotonic() + 60
    while scene.reported() != {"web-1": state}:
        assert time.monotonic() < deadline_s, scene.log.getvalue()
        time.sleep(0.05)


@pytest.mark.parametrize("is_running", [False, True], ids=["restarted", "running"])
def test_the_way_out_of_a_fast_forward_is_a_root_document_without_the_key(scene: Scene, *, is_running: bool) -> None:
    scene.attacker.offer = lambda offer: ahead(2 + MAX_ADVANCE)(scene, offer)
    assert_in_sync(scene, serial=2 + MAX_ADVANCE)
    scene.attacker.stop()
    scene.move(3)
    assert_refused(scene, "Rejected", "or a later one, got 3, which is older")
    with following(scene) if is_running else nullcontext():
        scene.rotate()
        if is_running:
            wait_for_report(scene, "InSync")
    assert_in_sync(scene, serial=3)
    assert scene.log.getvalue().count("event=clearing") == 1
    scene.attacker.offer = lambda offer: ahead(3 + MAX_ADVANCE)(scene, offer)
    assert_refused(scene, "Rejected", "role registry in version 2")


def test_a_table_that_an_operator_wrote_stays_before_and_after_a_rotation(scene: Scene) -> None:
    by_hand = table(5, registry="lab", window_us=61_000).text
    scene.tree.write("gr", "ensemble", by_hand)

    def assert_degraded() -> None:
        trial = scene.trial()
        assert (trial.would, trial.blocked) == ("nothing", "Degraded")
        assert (scene.ask().state, scene.text) == ("Degraded", by_hand)

    assert_degraded()
    scene.rotate()
    scene.move(3)
    assert_degraded()
    assert "event=root version=2" in scene.log.getvalue()


# -- root documents ------------------------------------------------------------------

STRANGER = PrivateKey.generate()
CHAINS: list[tuple[str, Callable[[Scene, int], Json], str]] = [
    ("gap", lambda scene, _: scene.root(3), "expected version 2, got 3"),
    ("downgrade", lambda scene, _: scene.root(1), "expected version 2, got 1"),
    ("of another owner", lambda _, version: FOREIGN.envelope(version), "role root in version 1"),
    ("unsigned", lambda scene, version: envelope_of(scene.keys.document(version), []).to_json(), "got 0 that hold"),
    ("of another registry", lambda scene, version: scene.root(version, registry="elsewhere"), "got one of elsewhere"),
    ("no document", lambda _, version: {"version": version}, "envelope: expected the fields"),
]


@pytest.mark.parametrize(("root", "words"), [row[1:] for row in CHAINS], ids=[row[0] for row in CHAINS])
def test_a_root_document_that_does_not_follow_is_refused(
    root: Callable[[Scene, int], Json], words: str, scene: Scene
) -> None:
    scene.attacker.root = lambda version: root(scene, version)

    def offer(genuine: Json) -> Json:
        signed = scene.signed({**genuine, "serial": 3}, STRANGER)
        return {**signed, "signatures": {**signed["signatures"], "root_version": 2}}

    scene.attacker.offer = offer
    assert_refused(scene, "Rejected", words)
    scene.attacker.stop()
    assert_in_sync(scene, serial=2)


def test_a_withheld_root_document_makes_the_table_stale(scene: Scene) -> None:
    scene.ahead_s = 401 * DAY_S
    scene.attacker.offer = scene.signed
    scene.attacker.root = lambda _: None
    assert_refused(scene, "Stale", "version 1 of the root document of lab has expired, and the registry has no newer")
    second = scene.root(2, expires_s=scene.now_s + 800 * DAY_S)
    scene.attacker.root = {2: second}.get
    assert_in_sync(scene, serial=2)


def test_a_cut_connection_makes_the_table_stale_when_its_signature_expires(scene: Scene) -> None:
    upstream, scene.attacker.upstream = scene.attacker.upstream, "http://127.0.0.1:9"
    assert scene.ask().state == "Offline"
    scene.ahead_s = 8 * DAY_S
    text = scene.text
    assert scene.trial().blocked == "Stale"
    report = scene.ask()
    assert (report.state, scene.text) == ("Stale", text)
    assert "the signature of lab/champion serial 2" in str(report.error)
    scene.ahead_s, scene.attacker.upstream = 0, upstream
    assert_in_sync(scene, serial=2)


def test_a_damaged_root_document_of_the_state_folder_is_fetched_again(scene: Scene) -> None:
    scene.rotate()
    assert_in_sync(scene, serial=2)
    kept = scene.folder / "state" / ROOT
    kept.write_bytes(kept.read_bytes()[:-9])
    assert_in_sync(scene, serial=2)
    assert "event=damaged file=root" in scene.log.getvalue()
    assert kept.with_name("root.damaged").exists()
    with scene.operator as client:
        assert Store(kept.parent).load(NO_CCA, ROOT, dict)["envelope"] == client.root(2).to_json()


def test_a_lost_root_document_does_not_bring_a_removed_key_back(scene: Scene) -> None:
    scene.rotate()
    assert_in_sync(scene, serial=2)
    (scene.folder / "state" / ROOT).unlink()
    scene.attacker.root = lambda _: None
    stolen = scene.keys.registry
    assert_refused(scene, "Rejected", "expected version 2 of the root document")
    scene.attacker.offer = lambda offer: scene.signed({**offer, "serial": 3}, stolen)
    assert_refused(scene, "Rejected", "expected version 2 of the root document")
    scene.attacker.stop()
    assert_in_sync(scene, serial=2)


# -- tables from before ----------------------------------------------------------------


def test_a_table_that_was_never_verified_is_not_applied_anew(scene: Scene) -> None:
    pinned, scene.root_file = scene.root_file, None
    scene.attacker.offer = lambda offer: without_signatures(scene, {**offer, "serial": 3, "hold_back_permille": 1000})
    report = scene.ask()
    assert (report.state, report.effective_serial) == ("Unsigned", 3)
    scene.root_file = pinned
    assert_refused(scene, "Rejected", "expected the registry's signature")
    scene.reboot()
    report = scene.ask()
    assert (report.state, report.effective_serial, scene.text) == ("Rejected", 0, "")
    assert "event=not_trusted cca=gr" in scene.log.getvalue()
    scene.attacker.stop()
    assert_in_sync(scene, serial=2)
