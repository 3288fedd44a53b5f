"""The list of endpoints, and the form for a new one."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from endpoints import endpoint_view, registry
from endpoints.endpoint_view import EndpointView
from endpoints.models import Endpoint
from endpoints.registry import SearchScope, ServerSpec
from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.tasks import queries
from transferapi.tasks.errors import RequestError
from webui.forms import refused
from webui.page import show, signed_in, user_of

PAGE = 50
#: The longest text of a search.
MAX_TEXT = 200
SCOPES: dict[SearchScope, str | Promise] = {
    SearchScope.MINE: gettext_lazy("Yours"),
    SearchScope.SHARED_WITH_ME: gettext_lazy("Shared with you"),
    SearchScope.RECENTLY_USED: gettext_lazy("Recently used"),
    SearchScope.ADMINISTERED_BY_ME: gettext_lazy("Administered by you"),
    SearchScope.ALL: gettext_lazy("All"),
}


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint in the list."""

    endpoint: Endpoint
    seen: EndpointView

    @property
    def title(self) -> str:
        return self.endpoint.display_name or registry.canonical_name(self.endpoint)

    @property
    def canonical_name(self) -> str:
        return registry.canonical_name(self.endpoint)


@signed_in
@require_safe
def endpoint_list(request: HttpRequest) -> HttpResponse:
    user, text = user_of(request), request.GET.get("text", "")[:MAX_TEXT].strip()
    scope = _scope(request.GET.get("scope", ""))
    offset = _offset(request.GET.get("offset", ""))
    refusal, rows, more, hint, status = None, list[Endpoint](), False, False, 200
    try:
        rows, more = queries.search_endpoints(user, scope=scope, fulltext=text, limit=PAGE, offset=offset)
    except RequestError:
        # The service lists all endpoints by a text only; the page asks for one.
        hint = True
    except CategorizedError as error:
        refusal, status = refused("search", error)
    views = endpoint_view.views_for(user, rows)
    context = {
        "title": _("Endpoints"),
        "scopes": SCOPES.items(),
        "scope": scope,
        "text": text,
        "rows": [EndpointRow(row, views[row.pk]) for row in rows],
        "next_offset": offset + PAGE if more else None,
        "needs_text": hint,
        "refusal": refusal,
    }
    return show(request, "endpoints/list.html", context, status)


def _scope(name: str) -> SearchScope:
    found = SearchScope(name) if name in list(SearchScope) else SearchScope.MINE
    return found if found in SCOPES else SearchScope.MINE


def _offset(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form for a new endpoint, and what it sends."""
    if request.method != "POST":
        return show(request, "endpoints/new.html", {"title": _("Add an endpoint"), "given": {}})
    try:
        made = _create(user_of(request), {name: request.POST[name].strip() for name in request.POST})
    except CategorizedError as error:
        refusal, status = refused("new", error)
        context = {"title": _("Add an endpoint"), "given": request.POST, "refusal": refusal}
        return show(request, "endpoints/new.html", context, status)
    return HttpResponseRedirect(f"/endpoints/{made.pk}")


def _create(user: User, given: dict[str, str]) -> Endpoint:
    texts = ("name", "display_name", "description", "myproxy_server", "oauth_server", "default_directory")
    fields: dict[str, object] = {name: given[name] for name in texts if given.get(name)}
    fields["public"] = given.get("public") == "on"
    address = given.get("server", "")
    servers = [ServerSpec.parse(with_scheme(address), given.get("subject", ""))] if address else []
    return registry.create(user, fields, servers)


def with_scheme(address: str) -> str:
    """A host name alone is a GridFTP server."""
    return address if "://" in address else f"gsiftp://{address}"
