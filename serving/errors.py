# SPDX-License-Identifier: MIT
"""The registry's exceptions, each with its HTTP status and problem type.

The message says what was expected, what was found, and, where possible, what to do. It becomes the `detail` of the
problem document (RFC 9457), or the error line of a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from kmod.errors import CcatuneError


class ServingError(CcatuneError):
    """Base class of the errors of the registry and its client."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    headers: Mapping[str, str] = MappingProxyType({})

    def __init_subclass__(cls, *, status: int = 500, slug: str = "internal", title: str = "Internal error") -> None:
        """Keep what the answer to a request has: its status, the end of the problem's type, and the title."""
        super().__init_subclass__()
        cls.status, cls.slug, cls.title = status, slug, title


class SettingsError(ServingError):
    """A setting is unknown or invalid, or would let other machines reach the registry."""


class DatabaseError(ServingError, status=503, slug="database-unavailable", title="Database unavailable"):
    """The database cannot be opened, does not answer, or has a schema that is not that of this version."""


class BusyError(ServingError, status=503, slug="busy", title="Busy"):
    """The registry has as much work as it can queue. The same request succeeds later."""


class WritesStalledError(ServingError, status=503, slug="writes-stalled", title="Writes stalled"):
    """No write has succeeded for some time, although the registry tried."""


class ContentTooLargeError(ServingError, status=413, slug="content-too-large", title="Content too large"):
    """The body of a request is larger than the operation permits."""

    # The rest of the body is not worth its transfer.
    headers = MappingProxyType({"Connection": "close"})


class EnsembleInvalidError(ServingError, status=422, slug="ensemble-invalid", title="Not a valid ensemble"):
    """A document is not a valid ensemble: its structure, a value or its digest is wrong."""


class EnsembleNotFoundError(ServingError, status=404, slug="ensemble-not-found", title="No such ensemble"):
    """The registry holds no ensemble with that digest."""


class ChannelNotFoundError(ServingError, status=404, slug="channel-not-found", title="No such channel"):
    """The channel has no deployment."""


class AgentNotFoundError(ServingError, status=404, slug="agent-not-found", title="No such agent"):
    """No agent has reported under that id, or its reports were deleted."""


class ObservationsInvalidError(
    ServingError, status=422, slug="observations-invalid", title="Not a file of observations"
):
    """A body is not a file of observations, or has another digest than the path says."""


class ObservationNotFoundError(
    ServingError, status=404, slug="observations-not-found", title="No such file of observations"
):
    """The registry holds no file of observations with that digest, or it was deleted."""


class NoStatesError(ServingError, status=422, slug="sums-without-states", title="Sums without states"):
    """The sums of single agents are requested by state, but they are kept without states."""


class WrongAlgorithmError(ServingError, status=409, slug="wrong-algorithm", title="Ensemble of another algorithm"):
    """The ensemble belongs to another algorithm than the channel."""


class NothingToRollBackError(ServingError, status=409, slug="nothing-to-roll-back", title="Nothing to roll back to"):
    """The channel has no earlier deployment with a different ensemble."""


class RolloutRunningError(ServingError, status=409, slug="rollout-running", title="A roll-out is under way"):
    """The channel has a roll-out that has not ended, which this change would disturb."""


class RolloutStateError(ServingError, status=409, slug="rollout-state", title="Not in this state of the roll-out"):
    """The roll-out has ended, or is not paused or running, as the request requires."""


class ShadowGateError(ServingError, status=409, slug="shadow-gate", title="The candidate did not pass the simulator"):
    """Baseline and candidate were not compared in the simulator, or the candidate is worse there."""


class RolloutImpossibleError(
    ServingError, status=409, slug="rollout-impossible", title="The channel's servers cannot follow the plan"
):
    """Too few servers follow the channel, or the registry lacks what the plan needs."""


class RolloutNotFoundError(ServingError, status=404, slug="rollout-not-found", title="No such roll-out"):
    """The channel has no roll-out with that number."""


class ShadowMismatchError(ServingError, status=409, slug="shadow-mismatch", title="A comparison of other ensembles"):
    """The end of a job that compares has no comparison of its ensemble with the baseline, and does not say why."""


class RetrainingPolicyNotFoundError(
    ServingError, status=404, slug="retraining-policy-not-found", title="No policy of retraining"
):
    """The channel has no policy that says how it is trained anew."""


class RetrainingNotFoundError(ServingError, status=404, slug="retraining-not-found", title="No such retraining"):
    """The channel has no retraining with that number."""


class RetrainingRunningError(ServingError, status=409, slug="retraining-running", title="A retraining is under way"):
    """The channel has a retraining that has not ended."""


class RetrainingStateError(ServingError, status=409, slug="retraining-state", title="Not in this state of retraining"):
    """The retraining has ended, or is at another step than the request requires."""


class IdempotencyKeyReusedError(
    ServingError, status=422, slug="idempotency-key-reused", title="Idempotency key of another request"
):
    """A request has the idempotency key of an earlier request with another content."""


class SerialMismatchError(ServingError, status=412, slug="serial-mismatch", title="The channel was moved meanwhile"):
    """The channel's current deployment violates the If-Match or If-None-Match header of a move."""


class SignatureInvalidError(ServingError, status=422, slug="signature-invalid", title="Invalid signature"):
    """A signed document is malformed or is about something else, or too few of its signatures hold."""


class RootNotFoundError(ServingError, status=404, slug="root-not-found", title="No such root document"):
    """The registry has no root document, or none of that version."""


class RootConflictError(ServingError, status=409, slug="root-conflict", title="Not the next root document"):
    """A root document is not the version that follows the newest one."""


class RootMissingError(ServingError, status=409, slug="root-missing", title="No root document"):
    """A signature cannot be verified, because the registry has no root document yet."""


class RootExpiredError(ServingError, status=409, slug="root-expired", title="The root document has expired"):
    """The newest root document has expired, so agents apply no new deployment."""


class SigningKeyNotNamedError(
    ServingError,
    status=409,
    slug="signing-key-not-named",
    title="The registry's signing key is not in the root document",
):
    """A root document does not name the key with which this registry signs."""


class EnsembleUnsignedError(ServingError, status=409, slug="ensemble-unsigned", title="The ensemble is not signed"):
    """Too few publishers whom the newest root document names have signed the ensemble."""


class StudyNotFoundError(ServingError, status=404, slug="study-not-found", title="No such study"):
    """The registry has no registered study of that name, or its file is not usable."""


class AdviceNotFoundError(ServingError, status=404, slug="advice-not-found", title="No advice"):
    """Nobody has sent an advice for the channel."""


class DatasetNotFoundError(ServingError, status=404, slug="dataset-not-found", title="No such dataset"):
    """The registry's settings do not name that dataset."""


class DatasetMissingError(ServingError, status=422, slug="dataset-missing", title="No dataset to train on"):
    """A study whose training needs recordings comes without a dataset."""


class PathsNotFoundError(ServingError, status=404, slug="paths-not-found", title="No such path model"):
    """None of the runners that work for the registry has the path model of a comparison."""


class JobNotFoundError(ServingError, status=404, slug="job-not-found", title="No such job"):
    """There is no job with that id, or it was deleted some time after its end."""


class TooManyJobsError(ServingError, status=409, slug="too-many-jobs", title="Too many jobs"):
    """The principal has as many queued and running jobs as the settings permit."""


class JobEndedError(ServingError, status=409, slug="job-ended", title="The job has ended"):
    """A job that is done or has failed cannot be cancelled."""


class LeaseLostError(ServingError, status=409, slug="lease-lost", title="The lease is lost"):
    """A runner has no lease of this job any more: it ran out, or another runner has the job."""


class NotAuthenticatedError(ServingError, status=401, slug="not-authenticated", title="Not authenticated"):
    """A request has no token, or one that is not accepted. The message does not say why it is not."""

    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class NotPermittedError(ServingError, status=403, slug="not-permitted", title="Not permitted"):
    """The caller's token lacks a scope, or is limited to other algorithms, channels or agents."""


class ForeignFormError(ServingError, status=403, slug="foreign-form", title="Foreign form"):
    """A form does not come from a page that the session has loaded."""


class InvalidFormError(ServingError, status=422, slug="invalid-form", title="Invalid form"):
    """A field of a form is missing or invalid."""


class TooManyAttemptsError(ServingError, status=429, slug="too-many-attempts", title="Too many attempts"):
    """Too many tokens from one address were refused. Known tokens are still accepted from there."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(retry_after_s)}


class TokenNotFoundError(ServingError, status=404, slug="token-not-found", title="No such token"):
    """There is no token with that id."""


class PrincipalNotFoundError(ServingError, status=404, slug="principal-not-found", title="No such principal"):
    """There is no principal with that name."""


class PrincipalConflictError(ServingError, status=409, slug="principal-conflict", title="Not for this principal"):
    """The principal is of another kind, or is disabled, and so cannot have this token."""


class PersonNotFoundError(ServingError, status=404, slug="person-not-found", title="No such person"):
    """There is no account of that name, or the caller has none."""


class PersonExistsError(ServingError, status=409, slug="person-exists", title="The person has an account"):
    """A new account has the name of an existing one."""


class OneselfError(ServingError, status=409, slug="oneself", title="Not for the own account"):
    """A person changes the own role, or resets or disables the own account."""


class PasswordRefusedError(ServingError, status=422, slug="password-refused", title="Password refused"):
    """A new password is too short, too long, or easy to guess. The message does not repeat it."""


class PasskeyRefusedError(ServingError, status=400, slug="passkey-refused", title="Passkey refused"):
    """The answer of an authenticator is not valid, or not to a challenge that is open."""


class PasskeyNotFoundError(ServingError, status=404, slug="passkey-not-found", title="No such passkey"):
    """The person has no such passkey."""


class SetUpLinkError(ServingError, status=404, slug="set-up-link", title="The link is not accepted"):
    """A set-up link was used already, has expired, or was never made."""

    def __init__(self) -> None:
        super().__init__(
            "expected a set-up link that was not used and has not expired, got another; ask an administrator for one"
        )


class LogInRefusedError(ServingError, status=401, slug="log-in-refused", title="Not logged in"):
    """The proof of a person's identity is not valid. The message is the same for every reason."""

    def __init__(self, message: str = "expected the name and password of a person; check both, and try again") -> None:
        super().__init__(message)


class ProviderError(ServingError, status=502, slug="provider", title="The provider's answer is not usable"):
    """The provider of OpenID Connect does not answer, or its answer is not valid."""


class RegistryClientError(ServingError):
    """A registry is unreachable, refused a request or gave an invalid answer, or an argument is invalid."""
