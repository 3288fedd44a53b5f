"""The forms of the section "Ssh keys"."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from endpoints import registry
from endpoints.errors import EndpointNotFoundError, NotPermittedError
from endpoints.permissions import Permission
from identity import ssh_keys
from identity.error_categories import CategorizedError
from identity.models import User
from identity.ssh_public_keys import (
    MAX_ENDPOINTS,
    KeyFieldInvalidError,
    KeyInvalidError,
    KeyNotFoundError,
    KeyRestrictions,
    checked,
)
from webui.page import signed_in, user_of
from webui.reasons import said

from .confirmations import asking, recently_signed_in
from .page import LIFETIMES, done, refusal

SECTION = "ssh-keys"
#: The fields of the form by their names in `KeyFieldInvalidError`.
_FIELDS = {"label": "label", "expires": "days", "commands": "commands", "endpoints": "endpoints"}


# The field may hold a private key that was pasted by mistake.
@sensitive_post_parameters("public_key")
@signed_in
@require_POST
@recently_signed_in(SECTION)
def add(request: HttpRequest) -> HttpResponse:
    user, given = user_of(request), request.POST
    days = given.get("days", "")
    if days not in {str(known) for known, _words in LIFETIMES}:
        return refusal(request, SECTION, _("That is none of the times that a key may last."), "days")
    expires_at = datetime.now(UTC) + timedelta(days=int(days)) if days != "0" else None
    try:
        restrictions = _restrictions(user, given.get("commands", ""), given.get("endpoints", ""))
        ssh_keys.add(user, given.get("public_key", ""), given.get("label", ""), restrictions, expires_at)
    except KeyInvalidError as error:
        return refusal(request, SECTION, said(error.reason), "public_key")
    except KeyFieldInvalidError as error:
        return refusal(request, SECTION, said(error.reason), _FIELDS.get(error.field, ""))
    except (EndpointNotFoundError, NotPermittedError) as error:
        return refusal(request, SECTION, f"{error.message}.", "endpoints")
    except CategorizedError as error:
        return refusal(request, SECTION, f"{error.message}.", "public_key")
    return done(request, _("The key is added. It signs you in from now on."), SECTION)


@signed_in
@require_POST
@asking("ssh_key")
def remove(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    try:
        ssh_keys.remove(user_of(request), key)
    except KeyNotFoundError:
        return refusal(request, SECTION, _("This key is gone already."), status=404)
    return done(request, _("The key is removed."), SECTION)


def _restrictions(user: User, commands: str, endpoints: str) -> KeyRestrictions:
    """The restrictions in two lists with blanks or commas; an empty one does not restrict.

    Raises KeyFieldInvalidError, EndpointNotFoundError.
    """
    refs = [str(registry.resolve(user, ref, Permission.VIEW).pk) for ref in _words(endpoints)[: MAX_ENDPOINTS + 1]]
    return checked(_words(commands) or None, refs or None)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
