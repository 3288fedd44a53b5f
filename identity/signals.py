"""Signals of this package for packages above it."""

from __future__ import annotations

from django.dispatch import Signal

#: A credential was stored, and that is committed; sent with `user_id` (UUID) and `bound_to` (str).
credential_stored = Signal()
#: A way to sign in was added, changed or removed; sent with `user` (User), `what` (str, a name such as
#: "passkey_added") and `name` (str, what the user calls it; no secret); `actor` (User) only where staff did it.
account_changed = Signal()
#: A linked identity was removed, or its provider has given it another name; sent with `user` (User), `username` (str,
#: `name@domain`), and for a new name with `before` (str). In its transaction.
identity_removed = Signal()
identity_renamed = Signal()
#: A user shall get a mail with a link for a new password; sent with `user` (User), `link_id` (UUID).
recovery_wanted = Signal()
#: A user wants another mail address, or has it now; sent with `user` (User), `change_id` (UUID). In its transaction.
address_wanted = Signal()
address_changed = Signal()
#: A person has made an account by sign-up; sent with `user` (User), `invitation` (UUID or None). In its transaction.
signed_up = Signal()
#: A user was deactivated, or is deleted; sent with `user` (User), in that transaction, so that receivers end all
#: that acts for the user.
user_deactivated = Signal()
user_deleted = Signal()
