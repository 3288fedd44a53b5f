"""The pause rules of all endpoints that the reader manages."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from endpoints import pause_rules
from endpoints.registry import canonical_name
from identity.provider import identities
from webui.endpoints.endpoint_page import PAUSES
from webui.page import signed_in, user_of

from .page import RULES, show_section


@signed_in
@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    found = pause_rules.listed(user_of(request))
    people = identities.by_id([row.identity_id for row in found if row.identity_id])
    names = {user.pk: user.username for user in people}
    rows = [
        {
            "rule": row,
            "endpoint": canonical_name(row.endpoint),
            "operations": [words for flag, words in PAUSES.items() if getattr(row, flag)],
            "whom": names.get(row.identity_id, "") if row.identity_id else "",
        }
        for row in found
    ]
    return show_section(request, RULES, "rules.html", {"rows": rows})
