# SPDX-License-Identifier: MIT
"""The registry's database: its models, sessions and migrations."""

from serving.database.advice import AdviceRow
from serving.database.datasets import CONTENT_CHARS, DatasetRow
from serving.database.engine import Database, insert_for, insert_or_find, narrowed
from serving.database.jobs import LEASE_CHARS, RUNNER_CHARS, JobAttemptRow, JobRow
from serving.database.migrate import migrate, require_current_schema
from serving.database.models import (
    ADDRESS_CHARS,
    IDEMPOTENCY_KEY_CHARS,
    RUN_ID_CHARS,
    AgentRow,
    AuditRow,
    Base,
    ChannelRow,
    DeploymentRow,
    EnsembleRow,
    EnsembleSignatureRow,
    PrincipalRow,
    RegistryRow,
    RootRow,
    TokenRow,
)
from serving.database.observation_models import ObservationRow
from serving.database.people_models import (
    PASSKEY_NAME_CHARS,
    USER_AGENT_CHARS,
    OneTimeRow,
    PasskeyRow,
    PersonRow,
    SessionRow,
)
from serving.database.qos_models import MAX_SUM, NONE, AgentQosRow, QosRow
from serving.database.registry import open_database, registry_name
from serving.database.retraining_models import RetrainingPolicyRow, RetrainingRow
from serving.database.rollout_models import LeaseRow, RolloutBlockRow, RolloutEventRow, RolloutRow, RolloutServerRow

__all__ = [
    "ADDRESS_CHARS",
    "CONTENT_CHARS",
    "IDEMPOTENCY_KEY_CHARS",
    "LEASE_CHARS",
    "MAX_SUM",
    "NONE",
    "PASSKEY_NAME_CHARS",
    "RUNNER_CHARS",
    "RUN_ID_CHARS",
    "USER_AGENT_CHARS",
    "AdviceRow",
    "AgentQosRow",
    "AgentRow",
    "AuditRow",
    "Base",
    "ChannelRow",
    "Database",
    "DatasetRow",
    "DeploymentRow",
    "EnsembleRow",
    "EnsembleSignatureRow",
    "JobAttemptRow",
    "JobRow",
    "LeaseRow",
    "ObservationRow",
    "OneTimeRow",
    "PasskeyRow",
    "PersonRow",
    "PrincipalRow",
    "QosRow",
    "RegistryRow",
    "RetrainingPolicyRow",
    "RetrainingRow",
    "RolloutBlockRow",
    "RolloutEventRow",
    "RolloutRow",
    "RolloutServerRow",
    "RootRow",
    "SessionRow",
    "TokenRow",
    "insert_for",
    "insert_or_find",
    "migrate",
    "narrowed",
    "open_database",
    "registry_name",
    "require_current_schema",
]
