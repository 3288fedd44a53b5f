"""What others may listen to."""

from __future__ import annotations

from django.dispatch import Signal

#: Somebody was given access and shall be told by mail; sent in the transaction that keeps the rule, with `rule`
#: (AccessRule, with its endpoint and its owner), `recipient` (User, or None: nobody has this address) and `grantor`.
access_given = Signal()
#: Pause rules were made, changed or taken back, and that is committed.
pause_rules_changed = Signal()
