# SPDX-License-Identifier: MIT
"""Requests about jobs: those of the commands, and those of runners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import httpx
from pydantic import Field

from kmod.ensemble import Ensemble
from serving.client_requests import Answer, Json, RegistryRequests, read_answer, unless_none
from serving.errors import LeaseLostError, RegistryClientError
from serving.names import CcaName, ChannelName, DatasetName, DigestText

# Answers after which the same report may succeed: a token that is renewed, and too many requests.
_PASSING = {httpx.codes.UNAUTHORIZED, httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS}
_END_TIMEOUT_S = 60.0


class ReportRefusedError(RegistryClientError):
    """The registry refused a runner's report, and will refuse it again."""


class _Job(Answer):
    id: int
    state: str


class _Compare(Answer):
    baseline: DigestText
    document: Json
    datasets: list[DatasetName]
    paths: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] | None


class _Leased(Answer):
    # The names become parts of paths and of a command line.
    registry: ChannelName
    id: int
    attempt: int
    study: str
    study_text: str
    cca: CcaName
    datasets: list[DatasetName]
    seed: int | None
    lease_s: float
    # A registry of an earlier version does not send it.
    compare: _Compare | None = None


class _Beaten(Answer):
    is_cancelling: bool
    lease_s: float


class _Logs(Answer):
    attempts: list[Json]


class JobsClient(RegistryRequests):
    """A client of one registry, for jobs. Errors are those of RegistryRequests."""

    def submit(
        self, study: str, *, datasets: Sequence[str], seed: int | None = None, note: str = "",
        compare: Json | None = None,
    ) -> Json:  # fmt: skip
        """Queue a job, once even if the request is repeated."""
        body = {"study": study, "datasets": list(datasets), "note": note, **unless_none(seed=seed, compare=compare)}
        return read_answer(_Job, self._ask_twice("POST", "/v1/jobs", json=body))

    def jobs(self, *, state: str | None = None, study: str | None = None) -> Iterator[Json]:
        """Yield the jobs, newest first."""
        return self._pages("/v1/jobs", cca=None, state=state, study=study)

    def job(self, job_id: int) -> Json:
        """Return a job."""
        return read_answer(_Job, self._ask("GET", f"/v1/jobs/{job_id:d}"))

    def logs(self, job_id: int) -> list[Json]:
        """Return the latest attempts at a job, each with the end of its log."""
        attempts: list[Json] = read_answer(_Logs, self._ask("GET", f"/v1/jobs/{job_id:d}/logs"))["attempts"]
        return attempts

    def cancel(self, job_id: int) -> Json:
        """Cancel a job, and return it."""
        return read_answer(_Job, self._ask("POST", f"/v1/jobs/{job_id:d}/cancel"))

    def lease(
        self, *, runner: str, lease: str, datasets: Sequence[str], paths: Sequence[str] | None = None
    ) -> Json | None:
        """Lease a job for a runner, or None. A repeated request with the same lease gets the same job."""
        body = {"runner": runner, "lease": lease, "datasets": list(datasets), "compares": True, "paths": paths}
        answer = self._ask_twice("POST", "/v1/jobs/leases", json=body)
        return None if answer.status_code == httpx.codes.NO_CONTENT else read_answer(_Leased, answer)

    def beat(
        self, job_id: int, *, lease: str, timeout_s: float, progress: Json | None = None, log: str | None = None
    ) -> Json:
        """Renew the lease of a job. Raises also LeaseLostError."""
        body = {"lease": lease, **unless_none(progress=progress, log=log)}
        return read_answer(_Beaten, self._report(f"/v1/jobs/{job_id:d}/heartbeat", body, timeout_s=timeout_s))

    def end(
        self,
        job_id: int,
        *,
        lease: str,
        outcome: str,
        ensemble: Ensemble | None = None,
        error: str | None = None,
        log: str | None = None,
        shadow: Json | None = None,
    ) -> Json:
        """End an attempt at a job. Raises also LeaseLostError and ReportRefusedError."""
        document = None if ensemble is None else ensemble.to_json()
        said = unless_none(ensemble=document, error=error, log=log, shadow=shadow)
        body = {"lease": lease, "outcome": outcome, **said}
        return read_answer(_Job, self._report(f"/v1/jobs/{job_id:d}/end", body, timeout_s=_END_TIMEOUT_S))

    def _report(self, path: str, body: Json, *, timeout_s: float) -> httpx.Response:
        with self._errors_in_words():
            answer = self._http.request("POST", path, json=body, timeout=timeout_s)
        try:
            return self._accepted(answer)
        except RegistryClientError as error:
            said = answer.text if answer.status_code in {httpx.codes.CONFLICT, httpx.codes.NOT_FOUND} else ""
            # Not found: the job was deleted, as in a registry that was restored from a backup.
            if "problem:lease-lost" in said or "problem:job-not-found" in said:
                raise LeaseLostError(str(error)) from error
            if answer.is_client_error and answer.status_code not in _PASSING:
                raise ReportRefusedError(str(error)) from error
            raise
