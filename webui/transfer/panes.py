"""The two panes: which endpoint and folder each shows. The listing is made here only for pages without scripts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlencode

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from endpoints import bookmarks, operations, paths, registry
from endpoints.errors import StepUpRequiredError
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError
from endpoints.models import Endpoint
from endpoints.paths import BadPathError
from endpoints.permissions import Permission
from endpoints.registry import SearchScope
from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.tasks import queries
from webui.sign_in import step_up

#: The sides, by their names in addresses, which are those of Globus.
SIDES = ("origin", "destination")
#: Entries of a listing on a page without scripts, and endpoints that are offered.
MOST_SHOWN, MOST_OFFERED = 500, 20


@dataclass
class Pane:
    """One side. reference: as in the address; problem: why there is no listing; incomplete: why entries are missing.

    marked: items of a sent form.
    """

    side: str
    reference: str = ""
    path: str = ""
    search: str = ""
    endpoint: Endpoint | None = None
    problem: str = ""
    incomplete: str = ""
    activate: str = ""
    #: The demand, where another sign-in would help.
    step_up: StepUpRequiredError | None = None
    entries: Sequence[Entry] = ()
    more: int = 0
    offered: Sequence[Endpoint] = ()
    marked: Collection[str] = ()
    steps: list[tuple[str, str]] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The path as a form sends it."""
        return quote(self.path, errors="surrogateescape")

    @property
    def name(self) -> str:
        if self.endpoint is None:
            return ""
        return self.endpoint.display_name or registry.canonical_name(self.endpoint)

    @property
    def canonical_name(self) -> str:
        return registry.canonical_name(self.endpoint) if self.endpoint else ""

    @property
    def title(self) -> str:
        return _("Left side") if self.side == SIDES[0] else _("Right side")


def of(request: HttpRequest, user: User) -> list[Pane]:
    """Both panes as the address of the page, or its form, says."""
    given = request.POST if request.method == "POST" else request.GET
    return [_pane(given, user, side, _path(request, given, side)) for side in SIDES]


def _path(request: HttpRequest, given: QueryDict, side: str) -> str:
    """The folder, also one whose name is not UTF-8.

    `SIDE_path` has its octets in an address. A form sends text only: in `SIDE_place` they are percent-encoded.
    """
    if (place := given.get(f"{side}_place")) is not None:
        return unquote(place, errors="surrogateescape")
    if request.method == "POST":
        return given.get(f"{side}_path", "")
    octets = QueryDict(request.META.get("QUERY_STRING", ""), encoding="latin-1").get(f"{side}_path", "")
    return octets.encode("latin-1").decode("utf-8", "surrogateescape")


def _pane(given: QueryDict, user: User, side: str, path: str) -> Pane:
    pane = Pane(side, given.get(f"{side}_id", "")[:300], path, given.get(f"{side}_search", ""))
    pane.marked = frozenset(given.getlist(f"{side}_item"))
    if pane.reference:
        try:
            pane.endpoint = registry.resolve(user, pane.reference, Permission.VIEW)
        except CategorizedError as error:
            pane.problem = error.message
        else:
            _settle_path(pane, pane.endpoint)
    return pane


def _settle_path(pane: Pane, endpoint: Endpoint) -> None:
    try:
        pane.path = paths.normal(pane.path or endpoint.default_directory).rstrip("/") + "/"
    except BadPathError as error:
        pane.problem, pane.path = str(error), endpoint.default_directory


def address(panes: Sequence[Pane], **changed: str) -> str:
    """The address of the page with these panes. changed: such as origin_path."""
    query = {f"{pane.side}_id": str(pane.endpoint.pk) for pane in panes if pane.endpoint}
    query |= {f"{pane.side}_path": pane.path for pane in panes if pane.endpoint}
    return "/transfer?" + urlencode({**query, **changed}, errors="surrogateescape")


def fill(user: User, panes: Sequence[Pane]) -> None:
    """List the folders, and offer endpoints where none is chosen: for a page without scripts."""
    for pane in panes:
        if pane.endpoint is None:
            pane.offered = _offered(user, pane.search)
        elif not pane.problem:
            _list(user, pane, pane.endpoint)
        pane.steps = [
            (name, address(panes, plain="1", **{f"{pane.side}_path": path})) for name, path in _steps(pane.path)
        ]


def _list(user: User, pane: Pane, endpoint: Endpoint) -> None:
    try:
        listing = operations.list_directory(user, str(endpoint.pk), pane.path, partial=True)
    except FaultError as error:
        pane.problem = error.fault.advice or str(error.fault.kind)
    except StepUpRequiredError as error:
        pane.problem, pane.step_up = step_up.sentence(error), error
    except CategorizedError as error:
        pane.problem = error.message
        pane.activate = f"/endpoints/{endpoint.pk}/activate"
    else:
        pane.incomplete = listing.incomplete
        ordered = sorted(listing.entries, key=lambda entry: (not entry.is_directory, entry.name))
        pane.entries, pane.more = ordered[:MOST_SHOWN], max(0, len(ordered) - MOST_SHOWN)


def _offered(user: User, text: str) -> list[Endpoint]:
    """Endpoints that fit to the text, or those that the user has used, remembered or made."""
    if text.strip():
        return list(registry.search(user, scope=SearchScope.ALL, fulltext=text, limit=MOST_OFFERED)[0])
    recent = queries.endpoints_of(user, unfinished=False)
    found = list(registry.search(user, scope=SearchScope.RECENTLY_USED, among=recent, limit=MOST_OFFERED)[0])
    found += [one.endpoint for one in bookmarks.all_of(user)]
    found += registry.search(user, scope=SearchScope.MINE, limit=MOST_OFFERED)[0]
    return list({one.pk: one for one in found if one.deleted_at is None}.values())[:MOST_OFFERED]


def _steps(path: str) -> list[tuple[str, str]]:
    """The folders on the way to this one: name and path."""
    names = path.strip("/").split("/") if path.strip("/") else []
    found = [] if names[:1] == ["~"] else [("/", "/")]
    for at, name in enumerate(names):
        found.append((name, "/" + "/".join(names[: at + 1]) + "/"))
    return found
