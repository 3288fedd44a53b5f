"""The pages of agents: what one is and how to get it, a setup key, and the agent of one endpoint.

A setup key is shown once, in the answer to the form that made it.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from endpoints.connect import setup, setup_keys
from endpoints.connect.program import NAME, program
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.error_meanings import meaning
from identity.error_categories import CategorizedError

from . import endpoints
from .forms import change_of
from .page import show, signed_in, user_of


@require_safe
def about(request: HttpRequest) -> HttpResponse:
    """For everybody: the program, and the way to an endpoint in three steps."""
    return show(request, "connect/about.html", {"title": _("Your own computer"), **_offered()})


@require_safe
def download(request: HttpRequest) -> HttpResponseBase:
    """The program. A client that has it already gets 304."""
    found = program()
    answer = HttpResponse(found.octets, content_type="application/octet-stream")
    answer["Content-Disposition"] = f'attachment; filename="{NAME}"'
    answer["ETag"] = f'"{found.digest}"'
    answer["Cache-Control"] = "no-cache"
    return get_conditional_response(request, etag=answer["ETag"], response=answer) or answer


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables()
def new(request: HttpRequest) -> HttpResponse:
    """The form for a personal endpoint, and its setup key."""
    context = {"title": _("Add this computer"), "given": request.POST}
    if request.method != "POST":
        return show(request, "connect/new.html", context)
    texts = {name: request.POST.get(name, "").strip() for name in ("name", "display_name")}
    fields: dict[str, object] = {name: text for name, text in texts.items() if text}
    try:
        _made, key = setup_keys.create_endpoint(user_of(request), {**fields, "is_globus_connect": True})
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return show(request, "connect/new.html", {**context, "refusal": ("connect", message)}, status)
    assert key is not None
    return _key_page(request, key)


@signed_in
@require_POST
@sensitive_variables()
def new_key(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    """A new setup key for an endpoint that exists."""
    try:
        key = setup_keys.new_key(user_of(request), str(ref))
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return endpoints.page(request, str(ref), refusal=("agent", message), status=status)
    return _key_page(request, key)


@change_of(endpoints.page, "/endpoints", "agent")
def revoke(request: HttpRequest, endpoint: str) -> str:
    setup.revoke(user_of(request), endpoint)
    return _("The computer is refused from now on.")


def _key_page(request: HttpRequest, key: IssuedSetupKey) -> HttpResponse:
    context = {"title": _("Your setup key"), "endpoint": key.endpoint, "key": key.text.value, "until": key.expires_at}
    return show(request, "connect/key.html", {**context, **_offered()}, 201)


def _offered() -> dict[str, object]:
    found = program()
    address = f"{settings.PUBLIC_URL}/connect/{NAME}"
    return {"program": found, "program_name": NAME, "address": address, "service": settings.PUBLIC_URL}


urlpatterns: list[URLPattern] = [
    path("connect", about),
    path(f"connect/{NAME}", download),
    path("endpoints/connect", new),
    path("endpoints/<uuid:ref>/setup-key", new_key),
    path("endpoints/<uuid:ref>/revoke-agent", revoke),
]
