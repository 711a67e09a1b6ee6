# SPDX-License-Identifier: MIT
"""Signatures over ensembles, deployments and root documents (docs/signatures.md).

    keys        Ed25519 keys and their files
    envelope    DSSE envelopes: a payload with the signatures of one or more keys
    root        the root document names the keys of each role; chains of its versions
    statements  what is signed: an ensemble's digest, a deployment

The registry, the agent and the commands of a publisher share this package. It imports kmod and the standard library,
and `cryptography` only when a key is used.
"""

from serving.signatures.envelope import Envelope, pae
from serving.signatures.errors import ExpiredError, PassphraseRequiredError, SignatureError
from serving.signatures.keys import PrivateKey, PublicKey, has_cryptography
from serving.signatures.root import ROLES, Role, RoleName, Root, SignedRoot
from serving.signatures.statements import (
    DeploymentStatement,
    EnsembleStatement,
    check_deployment,
    check_ensemble,
    sign_deployment,
    sign_ensemble,
)

__all__ = [
    "ROLES",
    "DeploymentStatement",
    "EnsembleStatement",
    "Envelope",
    "ExpiredError",
    "PassphraseRequiredError",
    "PrivateKey",
    "PublicKey",
    "Role",
    "RoleName",
    "Root",
    "SignatureError",
    "SignedRoot",
    "check_deployment",
    "check_ensemble",
    "has_cryptography",
    "pae",
    "sign_deployment",
    "sign_ensemble",
]
