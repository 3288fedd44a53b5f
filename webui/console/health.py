"""The health of the endpoints that the reader manages."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from endpoints.registry import canonical_name
from identity.error_categories import CategorizedError
from transferapi.tasks.managers import endpoint_health
from webui.forms import refused
from webui.page import signed_in, user_of

from .page import HEALTH, show_section


@signed_in
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    try:
        rows = [(seen, canonical_name(seen.endpoint)) for seen in endpoint_health.of_managed(user_of(request))]
    except CategorizedError as error:
        refusal, status = refused("list", error)
        return show_section(request, HEALTH, "health.html", {"rows": [], "refusal": refusal}, status)
    return show_section(request, HEALTH, "health.html", {"rows": rows})
