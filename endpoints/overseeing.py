"""What those who run endpoints see of them: which these are, what is shared of them, and to whom.

-> what `registry.resolve` says, NotSharedError
"""

from __future__ import annotations

from identity.models import User

from . import registry
from .errors import NotSharedError
from .models import AccessRule, Endpoint
from .permissions import Verb, running

#: Of one list.
MAX_LISTED = 1000


def monitored(user: User) -> list[Endpoint]:
    """The endpoints whose tasks this user may see, by name, as far as a list goes."""
    found = registry.living().filter(running(user, Verb.OVERSEE))
    return list(found.order_by("display_name", "name", "id")[:MAX_LISTED])


def get(user: User, ref: str) -> Endpoint:
    """One of them."""
    return registry.resolve(user, ref, Verb.OVERSEE)


def hosted(user: User, ref: str) -> list[Endpoint]:
    """What is shared of one of them, by whomever."""
    found = registry.living().filter(host=get(user, ref))
    return list(found.order_by("display_name", "name", "id")[:MAX_LISTED])


def access(user: User, ref: str) -> tuple[Endpoint, list[AccessRule]]:
    """The access rules of a shared one, which are bounded in number."""
    share = get(user, ref)
    if share.host_id is None:
        raise NotSharedError(share)
    return share, list(AccessRule.objects.filter(endpoint=share).order_by("created_at", "id"))
