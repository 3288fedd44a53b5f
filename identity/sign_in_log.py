"""Log lines for sign-ins, refused sign-ins and sign-outs (ASVS 16.3.1)."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from .models import User

log = logging.getLogger(__name__)


def listen() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="sign-ins are logged")
    user_login_failed.connect(_refused, dispatch_uid="refused sign-ins are logged")
    user_logged_out.connect(_signed_out, dispatch_uid="sign-outs are logged")


def _signed_in(user: User, **_: Any) -> None:
    log.info("signed in by %s: %s", getattr(user, "signed_in_by", "password"), quote(user.username))


def _refused(credentials: dict[str, Any], **_: Any) -> None:
    """An unknown name is not logged: users sometimes type their password into the name field."""
    name = str(credentials.get("username", ""))
    known = "\0" not in name and User.objects.filter(username=name).exists()
    log.warning("a password was refused: %s", quote(name) if known else "no such user")


def _signed_out(user: User | None, **_: Any) -> None:
    if user is not None:
        log.info("signed out: %s", quote(user.username))
