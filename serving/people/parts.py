# SPDX-License-Identifier: MIT
"""What people's log-in adds to the application: its pages, and what it keeps in memory."""

from __future__ import annotations

from fastapi import APIRouter

from serving.context import Context
from serving.people import account_page, log_in_pages, people_page
from serving.people.gate import PageGate
from serving.people.login import LogIns
from serving.people.oidc import Provider
from serving.people.passwords import Passwords

PAGES: tuple[APIRouter, ...] = (log_in_pages.router, account_page.router, people_page.router)


def add_parts(context: Context) -> None:
    """Add what the log-in keeps in memory.

    Raises:
        SettingsError: a provider is set, and the packages for it are not installed.
        SecretError: the provider's secret cannot be read.
    """
    context.add(Passwords(context))
    context.add(LogIns(context))
    context.add(PageGate(context))
    if context.settings.oidc_issuer is not None:
        context.add(Provider(context))
