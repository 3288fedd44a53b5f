"""The page that activates an endpoint, in every form that the endpoint accepts; tasks that wait then go on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from endpoints.activation import services
from endpoints.activation.forms import Form, GivenField, Requirement
from endpoints.activation.services import Requirements
from endpoints.error_meanings import meaning
from endpoints.errors import EndpointNotFoundError, RequirementError
from endpoints.registry import canonical_name
from identity.error_categories import CategorizedError
from identity.hidden import Secret
from transferapi.rest.http import rate_limit
from transferapi.rest.http.trusted_proxies import address_of
from transferapi.tasks import queries

from .page import own_path, problem, show, signed_in, user_of

#: Form -> its title, and a sentence.
FORMS: dict[Form, tuple[str | Promise, str | Promise]] = {
    Form.MYPROXY: (
        gettext_lazy("Name and passphrase"),
        gettext_lazy("Your account at the MyProxy server of the endpoint. The passphrase is used once and not kept."),
    ),
    Form.OAUTH: (
        gettext_lazy("Sign in at the site"),
        gettext_lazy("Open the page of the site, sign in there, and bring back the line that it shows."),
    ),
    Form.DELEGATE_PROXY: (
        gettext_lazy("Sign a request with your certificate"),
        gettext_lazy("Your private key stays on your machine: sign the request there, and paste the chain."),
    ),
    Form.PROXY: (
        gettext_lazy("A proxy credential"),
        gettext_lazy("A short-lived proxy that you have made yourself, for example by grid-proxy-init."),
    ),
    Form.PASSWORD: (
        gettext_lazy("A name and a password"),
        gettext_lazy(
            "The password is kept encrypted. It travels in clear to a server without TLS: others may read it there."
        ),
    ),
    Form.SSH_KEY: (
        gettext_lazy("An ssh key"),
        gettext_lazy("The key is kept encrypted, and used for the servers of this endpoint only."),
    ),
    Form.ACCESS_KEY: (
        gettext_lazy("An access key"),
        gettext_lazy("The key is kept encrypted, and signs requests to this object store only."),
    ),
}
_HOURS = gettext_lazy("Valid for (hours)")
#: The labels of the rows.
LABELS: dict[str, str | Promise] = {
    "hostname": gettext_lazy("MyProxy server"),
    "username": gettext_lazy("Your name there"),
    "passphrase": gettext_lazy("Passphrase"),
    "server_dn": gettext_lazy("Subject of the server's certificate, if it is not its host name"),
    "lifetime_in_hours": _HOURS,
    "code": gettext_lazy("The line that the page showed"),
    "public_key": gettext_lazy("Public key"),
    "certificate_request": gettext_lazy("Signing request (PKCS#10)"),
    "proxy_chain": gettext_lazy("Proxy certificate and its issuers (PEM)"),
    "proxy": gettext_lazy("Proxy file (PEM): certificate, key, issuers"),
    "private_key": gettext_lazy("Private key, as ssh-keygen makes it"),
    "password": gettext_lazy("Password"),
    "access_key_id": gettext_lazy("Access key ID"),
    "secret_access_key": gettext_lazy("Secret access key"),
    "session_token": gettext_lazy("Session token, if the key is a temporary one"),
}
#: Rows that are seldom needed.
_SELDOM = frozenset({"server_dn", "lifetime_in_hours", "public_key"})


@dataclass(frozen=True)
class FieldShown:
    """A row. written: the service wrote its value, which is shown and not asked for."""

    row: Requirement
    id: str
    label: str | Promise
    value: str
    written: bool
    wrong: str

    @property
    def seldom(self) -> bool:
        return self.row.name in _SELDOM


@dataclass(frozen=True)
class FormShown:
    """A form. address: the sign-in page of a site, if this form has one."""

    key: str
    title: str | Promise
    text: str | Promise
    fields: list[FieldShown]
    address: str
    is_open: bool


@sensitive_post_parameters()
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def activate(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    try:
        if request.method == "POST":
            return _try(request, str(ref))
        return _page(request, str(ref))
    except EndpointNotFoundError as error:
        return problem(request, 404, _("No such endpoint"), error.message)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("This endpoint cannot be activated"), message)


@sensitive_variables()
def _try(request: HttpRequest, ref: str) -> HttpResponse:
    user = user_of(request)
    taken = rate_limit.take(user.pk, address_of(request))
    if taken and taken.wait:
        answer = _page(request, ref, refusal=_("You ask too often; wait a little."), status=429)
        answer["Retry-After"] = str(taken.wait)
        return answer
    waiting = {place.pk: tasks for place, tasks in queries.waiting_for(user)}
    try:
        done = services.activate(user, ref, list(_given(request)))
    except EndpointNotFoundError:
        raise
    except RequirementError as error:
        return _page(request, ref, wrong=error, status=400)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return _page(request, ref, refusal=message, status=status)
    messages.success(request, _said(canonical_name(done.endpoint), waiting.get(done.endpoint.pk, 0)))
    return HttpResponseRedirect(own_path(request.POST.get("next") or f"/endpoints/{done.endpoint.pk}"))


def _said(name: str, tasks: int) -> str:
    said = _("%(endpoint)s is activated.") % {"endpoint": name}
    if not tasks:
        return said
    more = ngettext("%(tasks)d task goes on by itself.", "%(tasks)d tasks go on by themselves.", tasks)
    return f"{said} {more % {'tasks': tasks}}"


@sensitive_variables()
def _given(request: HttpRequest) -> Iterator[GivenField]:
    """The rows of the form that was sent; lines of pasted files end as they do in files."""
    form = request.POST.get("form", "")
    for name in request.POST:
        kind, _dot, row = name.partition(".")
        if kind == form and row:
            yield GivenField(kind, row, Secret(str(request.POST[name]).replace("\r\n", "\n")))


def _page(
    request: HttpRequest, ref: str, *, refusal: str = "", wrong: RequirementError | None = None, status: int = 200
) -> HttpResponse:
    """wrong: the row whose value was refused, and the reason."""
    found = services.requirements(user_of(request), ref)
    name = canonical_name(found.endpoint)
    shown = _forms(request, found, wrong)
    at_a_row = wrong is not None and any(one.wrong for form in shown for one in form.fields)
    text = refusal or (wrong.reason if wrong and not at_a_row else "")
    context = {
        "title": _("Activate %(endpoint)s") % {"endpoint": name},
        "endpoint": found.endpoint,
        "name": name,
        "status": found.activation_status,
        "forms": shown,
        "refusal": ("activate", text) if text else None,
        "next": request.POST.get("next") or request.GET.get("next", ""),
    }
    return show(request, "endpoints/activate.html", context, status)


def _forms(request: HttpRequest, found: Requirements, wrong: RequirementError | None) -> list[FormShown]:
    rows: dict[Form, list[Requirement]] = {}
    for row in found.rows:
        rows.setdefault(row.form, []).append(row)
    chosen = request.POST.get("form") or next((form.value for form in rows), "")
    return [_form(request, form, rows[form], wrong, is_open=form.value == chosen) for form in rows]


def _form(
    request: HttpRequest, form: Form, rows: list[Requirement], wrong: RequirementError | None, *, is_open: bool
) -> FormShown:
    title, text = FORMS[form]
    values = {row.name: row.value or "" for row in rows}
    shown = [_field(request, row, wrong) for row in rows if row.name not in ("state", "authorization_url")]
    return FormShown(form.value, title, text, shown, values.get("authorization_url", ""), is_open)


def _field(request: HttpRequest, row: Requirement, wrong: RequirementError | None) -> FieldShown:
    """A private value is never shown again."""
    key = f"{row.form}.{row.name}"
    written = row.value is not None and row.file is False and row.name in ("public_key", "certificate_request")
    given: Any = "" if row.private or row.file else request.POST.get(key, "")
    reason = wrong.reason if wrong is not None and wrong.field == key else ""
    return FieldShown(row, key.replace(".", "-"), LABELS[row.name], given or row.value or "", written, reason)
