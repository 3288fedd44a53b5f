"""Sign-in by an institution (SAML 2.0): choosing it, the request, its answer, and our own metadata.

The answer comes as a form that another site sends, so the browser leaves our session cookie out. The answer is checked
then, and kept for a moment under a random name; a redirect to that name has the cookie again. The session must have the
request that the answer repeats: an answer for another browser, or for no request, signs nobody in.
"""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST
from redis.exceptions import RedisError

from identity import password_sign_in
from identity.federation import pending, saml, saml_directory, saml_sources
from identity.federation.errors import FederationError, ProofRefusedError, ServiceBusyError, SignInNotBegunError
from identity.federation.freshness import Fresh
from identity.federation.saml import ServiceProvider
from identity.password_sign_in import SignInError
from identity.proven_identities import LinkedIdentityError, Proven
from transferapi.rest.http.trusted_proxies import address_of
from webui import cookies
from webui.page import own_path, problem, show

from .password import form
from .providers import MOST_BEGUN, demanded, failed, lead, purpose_of, record_refusal, use
from .session_start import refused, status_of

P = ParamSpec("P")
#: Seconds for which a checked answer waits for the redirect; answers that one network may send in five minutes.
ANSWER_SECONDS, MOST_ANSWERS = 120, 100
#: The institutions that a browser remembers.
COOKIE, REMEMBERED, COOKIE_SECONDS = "waybill-institutions", 3, 365 * 24 * 3600
MAX_SEARCH = 200


def _where_offered(view: Callable[Concatenate[HttpRequest, P], HttpResponse]) -> Callable[..., HttpResponse]:
    """Not found where the operator names no metadata: then no institution signs anybody in, whatever was begun."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not settings.SAML_METADATA:
            return problem(request, 404, _("Sign in"), _("No institution signs people in here."))
        return view(request, *args, **kwargs)

    return wrapped


@require_GET
@_where_offered
def choose(request: HttpRequest) -> HttpResponse:
    """The page on which a person finds the institution. It works without scripts."""
    text = request.GET.get("q", "")[:MAX_SEARCH]
    found = saml_directory.search(text) if text.strip() else []
    context = {
        "title": _("Choose your institution"),
        "q": text,
        "after": own_path(request.GET.get("next")),
        "link": "link" in request.GET,
        "fresh": Fresh.read(request.GET.get("fresh")).value,
        "found": found,
        "is_cut": len(found) == saml_directory.MAX_FOUND,
        "remembered": saml_directory.by_ids(_remembered(request)),
    }
    return show(request, "signin_institution.html", context)


@require_POST
@_where_offered
def begin(request: HttpRequest, institution: int) -> HttpResponse:
    """Lead to the institution, or with `link` prove another identity of the user."""
    after = own_path(request.POST.get("next"))
    try:
        purpose = purpose_of(request)
        password_sign_in.count_request("provider", address_of(request), MOST_BEGUN)
        row = saml_directory.get(institution)
        key = saml_sources.key_of(settings.SAML_KEY) if settings.SAML_KEY and settings.SAML_SIGN_REQUESTS else None
        begun = saml.begin(row, _us(), key, anew=bool(purpose.get("fresh")))
    except SignInError as error:
        return refused(form(request, after, reason=error.message, status=status_of(error)), error)
    except (FederationError, LinkedIdentityError) as error:
        return failed(request, after, error, demanded(request))
    answer = lead(request, begun.request_id, {"entity": row.entity_id, **purpose, "next": after}, begun.url, row.name)
    kept = [row.pk, *(one for one in _remembered(request) if one != row.pk)][:REMEMBERED]
    cookies.keep(answer, COOKIE, ".".join(map(str, kept)), COOKIE_SECONDS, "/signin")
    return answer


@csrf_exempt
@sensitive_post_parameters("SAMLResponse")
@require_POST
@_where_offered
def take_answer(request: HttpRequest) -> HttpResponse:
    """The assertion consumer service. RelayState is not read: our session knows the way back."""
    after = own_path(None)
    try:
        password_sign_in.count_request("answer", address_of(request), MOST_ANSWERS)
        key = saml_sources.key_of(settings.SAML_KEY) if settings.SAML_KEY else None
        checked = saml.check(request.POST.get("SAMLResponse", ""), _us(), key)
        name = secrets.token_urlsafe(32)
        _keep_answer(name, {"proven": checked.proven.as_document(), "request": checked.request_id})
    except SignInError as error:
        return refused(form(request, after, reason=error.message, status=status_of(error)), error)
    except (FederationError, LinkedIdentityError) as error:
        record_refusal(request, error, "saml")
        return failed(request, after, error, {})
    answer = HttpResponseRedirect(f"/signin/institution/done?answer={name}")
    answer.status_code = 303
    return answer


@require_GET
@_where_offered
def done(request: HttpRequest) -> HttpResponse:
    """The way back to the browser that began."""
    kept: dict[str, Any] = {}
    try:
        checked = _taken_answer(request.GET.get("answer", ""))
        kept = pending.take(request.session, checked["request"])
        proven = Proven.of_document(checked["proven"])
        if proven.provider != f"saml:{kept.get('entity')}":
            raise ProofRefusedError("The answer comes from another institution.")
        saml_directory.by_entity_id(kept["entity"])  # It may have left the metadata since its answer was checked.
        return use(request, proven, kept)
    except (FederationError, LinkedIdentityError) as error:
        record_refusal(request, error, f"saml:{kept['entity']}" if "entity" in kept else "saml")
        return failed(request, own_path(kept.get("next")), error, kept)


@require_GET
def metadata(request: HttpRequest) -> HttpResponse:
    """Our own metadata, which federations register."""
    key = saml_sources.key_of(settings.SAML_KEY) if settings.SAML_KEY else None
    text = saml.metadata(_us(), key, signs=key is not None and settings.SAML_SIGN_REQUESTS)
    return HttpResponse(text, content_type="application/samlmetadata+xml")


def _us() -> ServiceProvider:
    return ServiceProvider(f"{settings.PUBLIC_URL}/saml/metadata", f"{settings.PUBLIC_URL}/signin/institution/answer")


def _remembered(request: HttpRequest) -> list[int]:
    text = request.COOKIES.get(COOKIE, "")
    return [int(one) for one in text.split(".")] if re.fullmatch(r"\d{1,15}(\.\d{1,15}){0,2}", text) else []


def _keep_answer(name: str, checked: dict[str, Any]) -> None:
    try:
        cache.set(f"saml-answer:{name}", checked, ANSWER_SECONDS)
    except RedisError:
        raise ServiceBusyError from None


def _taken_answer(name: str) -> dict[str, Any]:
    """Raises SignInNotBegunError for a name that is none, or too old; `pending.take` lets one request use it."""
    try:
        found: dict[str, Any] | None = cache.get(f"saml-answer:{name}") if len(name) < 100 else None
        cache.delete(f"saml-answer:{name}"[:200])
    except RedisError:
        raise ServiceBusyError from None
    if found is None:
        raise SignInNotBegunError
    return found
