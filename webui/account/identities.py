"""The section "Identities": linked identities of other providers; `webui.sign_in.providers` links a new one."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from identity import linked_identities
from identity.models import User

from .confirmations import asking
from .recent_sign_in import recently_signed_in

SECTION = "identities"


def context(user: User) -> dict[str, Any]:
    linked = linked_identities.of(user)
    return {
        "linked": linked,
        "own_is_primary": not any(one.primary for one in linked),
        "providers": list(settings.PROVIDERS.values()),
        "myproxy": list(settings.MYPROXY_SIGN_IN.values()),
        "institutions": bool(settings.SAML_METADATA),
    }


@asking("identity")
@recently_signed_in(SECTION)
def unlink(request: HttpRequest, user: User, identity: uuid.UUID) -> str:
    """Only just after a sign-in: a stolen session must not take the ways to sign in from its owner."""
    linked_identities.unlink(user, identity, request.session.session_key or "")
    return _("The identity is no longer linked.")


def make_primary(request: HttpRequest, user: User, identity: uuid.UUID) -> str:
    linked_identities.set_primary(user, identity)
    return _("This identity is shown for you from now on.")
