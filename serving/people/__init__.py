# SPDX-License-Identifier: MIT
"""People who log in to the registry's pages: accounts, passwords, passkeys, a provider of OpenID Connect, sessions.

request to /ui/ -> gate.py       finds the session of its cookie, and makes the `Caller`; checks the token of forms
log-in page     -> login.py      limits attempts, and checks the password (passwords.py)
                   passkeys.py   checks the signature of a passkey (WebAuthn)
                   oidc.py       checks the ID token of a provider
                -> service.py    begins the session (sessions.py), in one transaction with its row in the audit log

A person is a principal of kind `human`. Its role permits a set of the scopes that tokens have (access/grants.py).
Bearer tokens do not log in to pages, and sessions are not accepted by /v1.
"""
