"""The Transfer page: two panes, each with a folder of an endpoint, and what is copied from one to the other.

For browsers without scripts the folders are listed here, and the form of the page submits the transfer.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

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
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.submission import TransferItem, TransferRequest, submit_transfer

from . import transfer_options
from .forms import submission_id
from .page import show, signed_in, user_of
from .sign_in import step_up

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


def panes_of(request: HttpRequest, user: User) -> list[Pane]:
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


def pane_address(panes: Sequence[Pane], **changed: str) -> str:
    """The address of the page with these panes. changed: such as origin_path."""
    query = {f"{pane.side}_id": str(pane.endpoint.pk) for pane in panes if pane.endpoint}
    query |= {f"{pane.side}_path": pane.path for pane in panes if pane.endpoint}
    return "/transfer?" + urlencode({**query, **changed}, errors="surrogateescape")


def fill_panes(user: User, panes: Sequence[Pane]) -> None:
    """List the folders, and offer endpoints where none is chosen: for a page without scripts."""
    for pane in panes:
        if pane.endpoint is None:
            pane.offered = _offered(user, pane.search)
        elif not pane.problem:
            _list(user, pane, pane.endpoint)
        pane.steps = [
            (name, pane_address(panes, plain="1", **{f"{pane.side}_path": path})) for name, path in _steps(pane.path)
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


#: The endpoints that a first visit is offered, and the folders that the sample transfer goes from and to.
SAMPLES = (("go#ep1", "/share/"), ("go#ep2", "/~/"))
SAMPLE_FOLDER = "godata"
#: The word that has to be typed where a transfer may delete.
TYPED = "delete"


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def transfer(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _submit(request)
    user = user_of(request)
    shown = panes_of(request, user)
    plain = bool(request.GET.get("plain"))
    if plain:
        fill_panes(user, shown)
    return show(request, "transfer.html", _context(user, shown, plain=plain))


def _context(user: User, shown: Sequence[Pane], *, plain: bool) -> dict[str, Any]:
    return {
        "title": _("Transfer"),
        "panes": shown,
        "plain": plain,
        "plain_address": pane_address(shown, plain="1"),
        "full_address": pane_address(shown),
        "submission_id": str(uuid.uuid4()),
        **transfer_options.choices(),
        "typed": TYPED,
        "data": None if plain else _data(user, shown),
    }


def _data(user: User, shown: Sequence[Pane]) -> dict[str, Any]:
    """The data with which the scripts of the page begin; they ask the REST API for all else."""
    return {
        "panes": [_side(pane) for pane in shown],
        "sample": _sample(user),
        "upload": settings.LIMITS.upload,
        "summary": {one.name: _(one.short) for one in transfer_options.SWITCHES},
        "choices": {one.value: str(one.short) for one in transfer_options.levels() if one.short},
        "deadlines": {one.value: str(one.short) for one in transfer_options.DEADLINES},
        "typed": TYPED,
    }


def _side(pane: Pane) -> dict[str, Any]:
    endpoint = pane.endpoint
    known = endpoint and {"id": str(endpoint.pk), "name": pane.name, "canonical_name": pane.canonical_name}
    return {"side": pane.side, "endpoint": known or None, "path": pane.path, "problem": pane.problem}


def _sample(user: User) -> dict[str, Any] | None:
    """The sample endpoints, where this installation has them."""
    found = []
    for reference, path in SAMPLES:
        try:
            endpoint = registry.resolve(user, reference, Permission.TRANSFER_FROM)
        except CategorizedError:
            return None
        name = endpoint.display_name or reference
        known = {"id": str(endpoint.pk), "name": name, "canonical_name": reference}
        found.append({"endpoint": known, "path": path})
    return {"from": found[0], "to": found[1], "folder": SAMPLE_FOLDER}


def _submit(request: HttpRequest) -> HttpResponse:
    """Submit what is marked; a second press of the button finds the same task."""
    form = request.POST
    target = form.get("copy", SIDES[1])
    source = SIDES[0] if target == SIDES[1] else SIDES[1]
    user = user_of(request)
    shown = panes_of(request, user)
    paths = {pane.side: pane.path for pane in shown}
    try:
        items = _items(form.getlist(f"{source}_item"), paths[source], paths[target])
        given = transfer_options.of_form({name: form.get(name, "") for name in form})
        if given["delete_destination_extra"] and form.get("typed") != TYPED:
            raise ValueError(_("A mirror can delete files. Type “%(word)s” to confirm.") % {"word": TYPED})
        asked = TransferRequest(
            submission_id=submission_id(request),
            source_endpoint=form.get(f"{source}_id", ""),
            destination_endpoint=form.get(f"{target}_id", ""),
            items=items,
            label=form.get("label") or None,
            deadline=transfer_options.deadline({name: form.get(name, "") for name in form}),
            options=given,
        )
        task, made = submit_transfer(user, asked)
    except (CategorizedError, ValueError) as error:
        messages.error(request, error.message if isinstance(error, CategorizedError) else str(error), "bad")
        fill_panes(user, shown)
        # The page again with all that was chosen: also with the id, so that no second task can come of it.
        chosen = {"given": form, "submission_id": form.get("submission_id", "")}
        return show(request, "transfer.html", {**_context(user, shown, plain=True), **chosen}, 400)
    words = ngettext(
        "%(n)d item is on its way: task %(task)s", "%(n)d items are on their way: task %(task)s", len(items)
    )
    messages.success(request, words % {"n": len(items), "task": task.label or task.pk}, "good")
    if made:
        _warn(request, user, task)
    return HttpResponseRedirect(pane_address(shown, plain="1"))


def _warn(request: HttpRequest, user: User, task: Task) -> None:
    """Show that another task writes to the same place, if one does."""
    if warning := overlaps.warning(user, task):
        messages.warning(request, warning, "bad")


def _items(values: Sequence[str], source: str, destination: str) -> list[TransferItem]:
    """Raises ValueError where nothing is marked."""
    if not values:
        raise ValueError(_("Nothing is marked. Mark what is to be copied first."))
    found = []
    for value in values:
        name = unquote(value[1:], errors="surrogateescape")
        found.append(TransferItem(f"{source}{name}", f"{destination}{name}", recursive=value.startswith("d")))
    return found


def item_value(entry: Entry) -> str:
    """An entry as the form sends it: also a name that is not UTF-8."""
    return ("d" if entry.is_directory else "f") + quote(entry.name, errors="surrogateescape")
