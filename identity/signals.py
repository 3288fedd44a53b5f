"""What others may listen to."""

from __future__ import annotations

from django.dispatch import Signal

#: A credential is in the vault, and committed; sent with `user_id` (UUID) and `bound_to` (str).
credential_stored = Signal()
