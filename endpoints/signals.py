"""Signals of this package for packages above it."""

from __future__ import annotations

from django.dispatch import Signal

#: A user was given access and asked to be informed by mail; sent in the transaction that saves the rule, with `rule`
#: (AccessRule, with its endpoint and owner), `recipient` (User, or None if no user has this address) and `grantor`.
access_given = Signal()
#: Pause rules were created, changed or deleted, and that is committed.
pause_rules_changed = Signal()
#: The owner of `endpoint` has confirmed or replaced the host key of a server that had shown another one.
host_key_settled = Signal()
