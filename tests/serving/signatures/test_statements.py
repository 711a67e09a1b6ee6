# SPDX-License-Identifier: MIT
"""Statements about ensembles and deployments: any change is refused, and each counts for its own type alone"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmod.ensemble import canonical_json
from serving.signatures import (
    DeploymentStatement,
    EnsembleStatement,
    Envelope,
    ExpiredError,
    SignatureError,
    check_deployment,
    check_ensemble,
    sign_deployment,
    sign_ensemble,
)
from serving.signatures.statements import DEPLOYMENT_TYPE, ENSEMBLE_TYPE
from tests.serving.signatures.keyring import DAY_S, DIGEST, NOW_S, key, keys, make_deployment, make_root

names = st.from_regex(r"[A-Za-z0-9._-]{1,63}", fullmatch=True).filter(lambda name: name not in {".", ".."})
digests = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)
times = st.integers(0, 253_402_300_799)
deployments = st.builds(
    DeploymentStatement,
    registry=names,
    cca=names,
    channel=names,
    serial=st.integers(1, 2**63 - 1),
    digest=digests,
    hold_back_permille=st.integers(0, 1000),
    urgent=st.booleans(),
    issued_s=times,
    expires_s=times,
)
WORDS = ["", "gr", "lab", "champion", "sha256:", "-1", "0", "1.0", "true", "null", "NaN", '"7"', "\ud800", "\x00"]


def ensemble_envelope(signers: str = "p1", *, cca: str = "gr", digest: str = DIGEST) -> Envelope:
    return sign_ensemble(EnsembleStatement(cca, digest), keys(signers))


def check(envelope: Envelope) -> object:
    """Check the signatures of a document of either type."""
    if envelope.payload_type == ENSEMBLE_TYPE:
        return check_ensemble(make_root(), [envelope], cca="gr", digest=DIGEST)
    return check_deployment(make_root(), envelope, now_s=NOW_S)


def test_statements_have_these_bytes():
    assert EnsembleStatement("gr", DIGEST).to_payload() == b'{"cca":"gr","digest":"%b"}' % DIGEST.encode()
    assert make_deployment().to_payload() == (
        b'{"cca":"gr","channel":"champion","digest":"%b","expires":"2026-03-08T12:00:00Z","hold_back_permille":100,'
        b'"issued":"2026-03-01T11:59:00Z","registry":"lab","serial":7,"urgent":false}' % DIGEST.encode()
    )


@given(deployments)
def test_any_deployment_reads_back(statement):
    assert DeploymentStatement.from_envelope(sign_deployment(statement, key("s1"))) == statement


@given(deployments, deployments, st.sampled_from(sorted(asdict(make_deployment()))))
def test_no_field_of_a_deployment_can_be_changed(statement, other, name):
    root = make_root(of=statement.registry)
    envelope = sign_deployment(replace(statement, issued_s=NOW_S, expires_s=NOW_S + 1), key("s1"))
    statement, _ = check_deployment(root, envelope, now_s=NOW_S)
    changed = replace(statement, **{name: asdict(other)[name]})
    if changed != statement:
        with pytest.raises(SignatureError, match="got 0 that hold"):
            check_deployment(root, Envelope(DEPLOYMENT_TYPE, changed.to_payload(), envelope.signatures), now_s=NOW_S)


@given(st.data())
def test_no_word_of_a_signed_document_can_be_replaced(data):
    envelope = data.draw(st.sampled_from([sign_deployment(make_deployment(), key("s1")), ensemble_envelope()]))
    document = json.loads(envelope.payload)
    name = data.draw(st.sampled_from(sorted(document)))
    word = data.draw(st.sampled_from(WORDS) | st.integers() | st.floats() | st.booleans() | st.none() | st.just([]))
    payload = json.dumps({**document, name: word}, sort_keys=True, separators=(",", ":")).encode()
    if payload == envelope.payload:
        return
    changed = Envelope(envelope.payload_type, payload, envelope.signatures)
    with pytest.raises(SignatureError) as error:
        check(changed)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("serial", value) for value in (True, 7.0, "7", None, 0, -1, 2**63, 10**1000)),
        *(("hold_back_permille", value) for value in (False, 0.0, "0", None, -1, 1001)),
        *(("urgent", value) for value in (0, 1, "false", None, 0.0, [])),
        *(("digest", value) for value in (DIGEST.upper(), DIGEST[:-1], DIGEST + "0", "sha512:" + "0" * 64, None, 7)),
        *(("channel", value) for value in ("", ".", "..", "a/b", "a b", "chämpion", "a" * 64, "a\n", None, 7)),
        *(("issued", value) for value in (NOW_S, "2026-03-01", "2026-03-01T12:00:60Z", None)),
        ("surplus", 1),
    ],
)
def test_a_signed_deployment_of_another_form_is_refused(name, value):
    document = {**json.loads(make_deployment().to_payload()), name: value}
    envelope = Envelope.sign(DEPLOYMENT_TYPE, canonical_json(document), keys("s1"))
    with pytest.raises(SignatureError):
        check_deployment(make_root(), envelope, now_s=NOW_S)


def test_a_statement_has_one_form():
    payload = EnsembleStatement("gr", DIGEST).to_payload()
    for other in (payload + b" ", payload.replace(b":", b": ", 1), payload.replace(b"gr", b"\\u0067r"), b" " + payload):
        assert json.loads(other) == json.loads(payload)
        with pytest.raises(SignatureError, match="expected canonical JSON"):
            check_ensemble(make_root(), [Envelope.sign(ENSEMBLE_TYPE, other, keys("p1"))], cca="gr", digest=DIGEST)
    spaced = Envelope.sign(DEPLOYMENT_TYPE, make_deployment().to_payload() + b"\n", keys("s1"))
    with pytest.raises(SignatureError, match="expected canonical JSON"):
        check_deployment(make_root(), spaced, now_s=NOW_S)


def test_a_statement_of_one_type_never_counts_for_another():
    root = make_root(publisher="p1 r1")
    ensemble = ensemble_envelope("p1 r1")
    relabelled = Envelope(DEPLOYMENT_TYPE, make_deployment().to_payload(), ensemble.signatures)
    with pytest.raises(SignatureError, match="role registry"):
        check_deployment(root, relabelled, now_s=NOW_S)
    for envelope in (sign_deployment(make_deployment(), key("s1")), Envelope.sign("t", ensemble.payload, keys("p1"))):
        with pytest.raises(SignatureError, match=f"expected {ENSEMBLE_TYPE.replace('+', '[+]')}"):
            check_ensemble(root, [envelope], cca="gr", digest=DIGEST)
    with pytest.raises(SignatureError, match=r"expected application/vnd\.ccatune\.deployment"):
        check_deployment(root, ensemble, now_s=NOW_S)


def test_publishers_may_sign_in_one_envelope_or_in_several():
    root = make_root(publisher="p1 p2 p3", thresholds={"publisher": 2})
    both = {key(name).public.key_id for name in ("p1", "p2")}
    for envelopes in (["p1 p2"], ["p1", "p2"], ["p1", "p1 p2", "p2"], ["p1 x", "p2 s1"]):
        found = check_ensemble(root, [ensemble_envelope(one) for one in envelopes], cca="gr", digest=DIGEST)
        assert found == both
    for envelopes in ([], [""], ["p1"], ["p1", "p1"], ["p1", "x"]):
        with pytest.raises(SignatureError, match="expected the signature of 2 of the 3 keys"):
            check_ensemble(root, [ensemble_envelope(one) for one in envelopes], cca="gr", digest=DIGEST)


def test_an_ensembles_signature_is_of_this_ensemble():
    for other in (ensemble_envelope(digest=DIGEST.replace("ab", "cd")), ensemble_envelope(cca="rtcp_bbr")):
        with pytest.raises(SignatureError, match="expected one of gr sha256:ab"):
            check_ensemble(make_root(), [ensemble_envelope(), other], cca="gr", digest=DIGEST)


def test_the_number_of_envelopes_is_bounded():
    with pytest.raises(SignatureError, match="expected at most 64 envelopes, got 65"):
        check_ensemble(make_root(), [ensemble_envelope()] * 65, cca="gr", digest=DIGEST)


def test_a_deployment_holds_until_the_second_of_its_expiry():
    statement = make_deployment()
    envelope = sign_deployment(statement, key("s1"))
    assert check_deployment(make_root(), envelope, now_s=statement.expires_s - 0.001)
    for late_s in (0, 1, 10 * 365 * DAY_S):
        with pytest.raises(ExpiredError, match="expired at 2026-03-08T12:00:00Z"):
            check_deployment(make_root(), envelope, now_s=statement.expires_s + late_s)


def test_an_expired_deployment_without_a_valid_signature_is_no_expired_one():
    forged = sign_deployment(make_deployment(expires_s=NOW_S), key("x"))
    with pytest.raises(SignatureError) as error:
        check_deployment(make_root(), forged, now_s=NOW_S)
    assert not isinstance(error.value, ExpiredError)


def test_a_deployment_from_the_future_is_refused():
    for lead_s, is_good in ((3600, True), (3601, False), (10 * DAY_S, False)):
        envelope = sign_deployment(make_deployment(issued_s=NOW_S + lead_s, expires_s=NOW_S + 99 * DAY_S), key("s1"))
        if is_good:
            assert check_deployment(make_root(), envelope, now_s=NOW_S)
        else:
            with pytest.raises(SignatureError, match="compare the clocks"):
                check_deployment(make_root(), envelope, now_s=NOW_S)


def test_a_deployment_of_another_registry_is_refused():
    envelope = sign_deployment(make_deployment(registry="prod"), key("s1"))
    with pytest.raises(SignatureError, match="expected a deployment of registry lab, got prod"):
        check_deployment(make_root(), envelope, now_s=NOW_S)


def test_a_deployment_has_one_signer_so_that_nobody_can_choose_its_key():
    root = make_root(registry="s1 s2")
    both = sign_deployment(make_deployment(), key("s1")).with_signatures(keys("s2"))
    with pytest.raises(SignatureError, match="expected the signature of one key of the registry, got 2"):
        check_deployment(root, both, now_s=NOW_S)
    other = sign_deployment(make_deployment(), key("s2")).with_signatures(keys("x"))
    assert check_deployment(root, other, now_s=NOW_S)[1] == key("s2").public.key_id


def test_a_time_that_no_document_can_hold_is_not_signed():
    for seconds in (-1, 253_402_300_800):
        with pytest.raises(SignatureError, match="expected 0 to 253402300799 s"):
            sign_deployment(make_deployment(expires_s=seconds), key("s1"))
