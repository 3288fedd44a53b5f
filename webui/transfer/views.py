"""`/transfer`: the page, and the submission by its form, for browsers without scripts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from endpoints import registry
from endpoints.gridftp.facts import Entry
from endpoints.permissions import Permission
from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.submission import TransferItem, TransferRequest, submit_transfer
from webui import states
from webui.forms import submission_id
from webui.page import show, signed_in, user_of

from . import options, panes
from .panes import SIDES, Pane

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
    shown = panes.of(request, user)
    plain = bool(request.GET.get("plain"))
    if plain:
        panes.fill(user, shown)
    return show(request, "transfer.html", _context(user, shown, plain=plain))


def _context(user: User, shown: Sequence[Pane], *, plain: bool) -> dict[str, Any]:
    return {
        "title": _("Transfer"),
        "panes": shown,
        "plain": plain,
        "plain_address": panes.address(shown, plain="1"),
        "full_address": panes.address(shown),
        "submission_id": str(uuid.uuid4()),
        "switches": options.SWITCHES,
        "sync": options.levels(),
        "confirm": options.confirm(),
        "deadlines": options.DEADLINES,
        "typed": TYPED,
        "data": None if plain else _data(user, shown),
    }


def _data(user: User, shown: Sequence[Pane]) -> dict[str, Any]:
    """The data with which the scripts of the page begin; they ask the REST API for all else."""
    return {
        "panes": [_side(pane) for pane in shown],
        "sample": _sample(user),
        "upload": settings.LIMITS.upload,
        "summary": {one.name: _(one.short) for one in options.SWITCHES},
        "choices": {one.value: str(one.short) for one in options.levels() if one.short},
        "deadlines": {one.value: str(one.short) for one in options.DEADLINES},
        "states": {one.key: {"icon": one.icon, "word": str(one.word)} for one in states.SHOWN.values()},
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
    shown = panes.of(request, user)
    paths = {pane.side: pane.path for pane in shown}
    try:
        items = _items(form.getlist(f"{source}_item"), paths[source], paths[target])
        given = options.of_form({name: form.get(name, "") for name in form})
        if given["delete_destination_extra"] and form.get("typed") != TYPED:
            raise ValueError(_("A mirror can delete files. Type “%(word)s” to confirm.") % {"word": TYPED})
        asked = TransferRequest(
            submission_id=submission_id(request),
            source_endpoint=form.get(f"{source}_id", ""),
            destination_endpoint=form.get(f"{target}_id", ""),
            items=items,
            label=form.get("label") or None,
            deadline=options.deadline({name: form.get(name, "") for name in form}),
            options=given,
        )
        task, made = submit_transfer(user, asked)
    except (CategorizedError, ValueError) as error:
        messages.error(request, error.message if isinstance(error, CategorizedError) else str(error), "bad")
        panes.fill(user, shown)
        # The page again with all that was chosen: also with the id, so that no second task can come of it.
        chosen = {"given": form, "submission_id": form.get("submission_id", "")}
        return show(request, "transfer.html", {**_context(user, shown, plain=True), **chosen}, 400)
    words = ngettext(
        "%(n)d item is on its way: task %(task)s", "%(n)d items are on their way: task %(task)s", len(items)
    )
    messages.success(request, words % {"n": len(items), "task": task.label or task.pk}, "good")
    if made:
        _warn(request, user, task)
    return HttpResponseRedirect(panes.address(shown, plain="1"))


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
