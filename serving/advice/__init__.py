# SPDX-License-Identifier: MIT
"""Advice for a channel: which algorithm, with which settings, suits the links that its flows showed.

`ccatune advise` makes it where the captures and logs are. The registry keeps the newest one of each channel, and shows
it on the channel's page.
"""
