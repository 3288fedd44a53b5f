"""Directories and their tokens: made and revoked by the operator on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django.db import transaction

from identity import audit
from identity.audit import What
from identity.database_rows import single_row
from identity.error_categories import InvalidFieldError
from identity.hidden import Secret, digest_of, new_text
from identity.models import ScimClient, ScimToken

#: By which readers of logs and secret scanners recognise a leaked token.
PREFIX = "wbscim_"
MAX_LENGTH = 256
#: Directories, tokens of one directory, and the usual and the greatest bound on users of one directory.
MAX_CLIENTS, MAX_TOKENS = 50, 5
USERS, MAX_USERS = 10_000, 1_000_000
#: `last_used_at` is shown to people: it need not be written at every request.
LAST_USED_PRECISION = timedelta(minutes=1)
_NAME = re.compile(r"[a-z][a-z0-9._-]{0,39}\Z")


def make_token(name: str, *, takes_over: bool | None = None, max_users: int | None = None) -> Secret:
    """A new token of the directory of this name, which is made if it is new. Other tokens stay valid.

    takes_over, max_users: None leaves a known directory as it is. Raises InvalidFieldError.
    """
    if not _NAME.match(name):
        raise InvalidFieldError("name", "1 to 40 small letters, digits, '.', '_' and '-', beginning with a letter")
    if max_users is not None and not 1 <= max_users <= MAX_USERS:
        raise InvalidFieldError("users", f"a number from 1 to {MAX_USERS}")
    token = new_text(PREFIX)
    with transaction.atomic():
        client, _ = ScimClient.objects.get_or_create(name=name, defaults={"max_users": USERS})
        client = ScimClient.objects.select_for_update(no_key=True).get(pk=client.pk)
        if ScimClient.objects.count() > MAX_CLIENTS:
            raise InvalidFieldError("name", f"there are {MAX_CLIENTS} directories already")
        if client.tokens.count() >= MAX_TOKENS:
            raise InvalidFieldError("name", f"it has {MAX_TOKENS} tokens already; revoke one (`waybill scim revoke`)")
        client.takes_over = client.takes_over if takes_over is None else takes_over
        client.max_users = client.max_users if max_users is None else max_users
        client.save()
        row = ScimToken.objects.create(client=client, digest=digest_of(token))
        audit.record(What.SCIM_TOKEN_MADE, None, {"directory": name, "token": row.pk})
    return Secret(token)


def listed() -> list[ScimToken]:
    """All tokens, by directory, the oldest first."""
    return list(ScimToken.objects.select_related("client").order_by("client__name", "created_at", "pk"))


def revoke(name: str, token_id: str | None = None) -> int:
    """End one token of a directory, or all of them; returns their number. Its users and groups stay as they are."""
    found = [row for row in listed() if row.client.name == name and token_id in (None, str(row.pk))]
    with transaction.atomic():
        for row in found:
            audit.record(What.SCIM_TOKEN_REVOKED, None, {"directory": name, "token": row.pk})
        ScimToken.objects.filter(pk__in=[row.pk for row in found]).delete()
    return len(found)


def authenticate(token: str) -> ScimClient | None:
    """The directory of a token. The look-up by digest takes the same time for each wrong token."""
    if not token.startswith(PREFIX) or len(token) > MAX_LENGTH:
        return None
    found = single_row(ScimToken.objects.select_related("client").filter(digest=digest_of(token)))
    if found is None:
        return None
    now = datetime.now(UTC)
    if found.last_used_at is None or now - found.last_used_at >= LAST_USED_PRECISION:
        ScimToken.objects.filter(pk=found.pk).update(last_used_at=now)
    return found.client
