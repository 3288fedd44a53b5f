"""Sign-ins, refused sign-ins and sign-outs as lines of the log (ASVS 16.3.1) and rows of the audit log.

Changes of ways to sign in are rows of the audit log, too.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any
from urllib.parse import quote

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from . import call_origin
from .audit import What, record, record_act, record_refusal
from .models import User
from .signals import account_changed, signed_up

log = logging.getLogger(__name__)


def listen() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="sign-ins are logged")
    user_login_failed.connect(_refused, dispatch_uid="refused sign-ins are logged")
    user_logged_out.connect(_signed_out, dispatch_uid="sign-outs are logged")
    account_changed.connect(_changed, dispatch_uid="changes of ways to sign in are logged")
    signed_up.connect(_signed_up, dispatch_uid="sign-ups are logged")


def _signed_in(user: User, **_: Any) -> None:
    way = getattr(user, "signed_in_by", "password")
    record(What.SIGNED_IN, user, getattr(user, "signed_in_with", None), way=way)
    log.info("signed in by %s: %s", way, quote(user.username))


def _refused(credentials: dict[str, Any], **_: Any) -> None:
    """An unknown name is not logged: users sometimes type their password into the name field."""
    name = str(credentials.get("username", ""))
    user = None if "\0" in name else User.objects.filter(username=name).first()
    record_refusal(user, "password")
    log.warning("a password was refused: %s", quote(user.username) if user else "no such user")


def _signed_out(user: User | None, **_: Any) -> None:
    if user is not None:
        record(What.SIGNED_OUT, user)
        log.info("signed out: %s", quote(user.username))


def _changed(user: User, what: str, name: str, actor: User | None = None, **_: Any) -> None:
    """actor: staff. The operator and directories act on behalf of no user: their present origin says who they are."""
    if actor is None and call_origin.present().actor:
        record(what, user, {"name": name})
    else:
        record_act(what, user, {"name": name}, actor=actor or user)


def _signed_up(user: User, invitation: uuid.UUID | None, **_: Any) -> None:
    record(What.SIGNED_UP, user, {"invitation": invitation})
