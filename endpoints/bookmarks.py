"""Bookmarks: folders that a user has saved under a name; private to the user."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models import QuerySet

from identity.database_rows import unless_taken
from identity.error_categories import InvalidFieldError, RefusedError
from identity.gsi.printable import FORBIDDEN
from identity.models import User

from . import registry
from .errors import BOOKMARK_EXISTS, ENDPOINT_DELETED, TOO_MANY_BOOKMARKS, BookmarkNotFoundError, EndpointNotFoundError
from .models import Bookmark, Endpoint
from .paths import MAX_PATH
from .permissions import Permission, reachable, visible

MAX_BOOKMARKS = 1000
MAX_NAME = 128


def all_of(user: User) -> list[Bookmark]:
    """All bookmarks by name, including those whose endpoint the user can no longer see."""
    return list(_of(user).order_by("name", "pk"))


def names_of_endpoints(user: User, rows: Sequence[Bookmark]) -> dict[uuid.UUID, str]:
    """The names of the endpoints of these bookmarks, by id, as far as the user may see them."""
    found = registry.existing().filter(visible(user), pk__in=[row.endpoint_id for row in rows])
    return {row.pk: registry.canonical_name(row) for row in found}


def get(user: User, bookmark_id: uuid.UUID) -> Bookmark:
    """A bookmark of the user. Raises BookmarkNotFoundError."""
    found = _of(user).filter(pk=bookmark_id).first()
    if found is None:
        raise BookmarkNotFoundError(str(bookmark_id))
    return found


def create(user: User, *, name: str, endpoint: str, path: str, pinned: bool = False) -> Bookmark:
    """Save a folder of an endpoint that the user may view.

    Raises EndpointNotFoundError, InvalidFieldError, BOOKMARK_EXISTS, TOO_MANY_BOOKMARKS.
    """
    found = registry.resolve(user, endpoint, Permission.VIEW)
    row = Bookmark(user=user, endpoint=found, name=_name(name), path=_path(path), pinned=pinned)
    with transaction.atomic():
        # Serialise per user: otherwise two concurrent requests could both pass the limit.
        list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))
        if Bookmark.objects.filter(user=user).count() >= MAX_BOOKMARKS:
            raise RefusedError(TOO_MANY_BOOKMARKS, limit=MAX_BOOKMARKS)
        _save(row)
    return row


def update(
    user: User, bookmark_id: uuid.UUID, *, name: str | None = None, path: str | None = None, pinned: bool | None = None
) -> Bookmark:
    """Change the fields that are not None. Raises BookmarkNotFoundError, InvalidFieldError, BOOKMARK_EXISTS."""
    row = get(user, bookmark_id)
    given: Mapping[str, object] = {
        "name": None if name is None else _name(name),
        "path": None if path is None else _path(path),
        "pinned": pinned,
    }
    changed = [field for field, value in given.items() if value is not None]
    for field in changed:
        setattr(row, field, given[field])
    if changed:
        _save(row, changed)
    return row


def delete(user: User, bookmark_id: uuid.UUID) -> None:
    """Delete a bookmark of the user. Raises BookmarkNotFoundError."""
    deleted, _ = _of(user).filter(pk=bookmark_id).delete()
    if not deleted:
        raise BookmarkNotFoundError(str(bookmark_id))


def show_endpoint(user: User, ref: str) -> Endpoint:
    """The endpoint, if the user may view it.

    Raises EndpointNotFoundError, or ENDPOINT_DELETED when the user has a bookmark of it: the user then knows that
    it existed, and clients that list bookmarks continue after this error only.
    """
    try:
        return registry.resolve(user, ref, Permission.VIEW)
    except EndpointNotFoundError:
        if _remembers(user, ref):
            raise RefusedError(ENDPOINT_DELETED, ref=ref) from None
        raise


def _of(user: User) -> QuerySet[Bookmark]:
    """The user's bookmarks, without those of endpoints that do not exist for this session."""
    return Bookmark.objects.filter(reachable("endpoint"), user=user)


def _remembers(user: User, ref: str) -> bool:
    try:
        endpoint_id = uuid.UUID(ref)
    except ValueError:
        return False
    return _of(user).filter(endpoint_id=endpoint_id).exists()


def _save(row: Bookmark, changed: list[str] | None = None) -> None:
    with unless_taken("bookmark_name_unique", RefusedError(BOOKMARK_EXISTS, name=row.name)):
        row.save(force_insert=changed is None, update_fields=changed)


def _name(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise InvalidFieldError("name", "A name must not be empty, or begin or end with a blank.")
    if len(text) > MAX_NAME or FORBIDDEN.search(text):
        raise InvalidFieldError("name", f"A name has at most {MAX_NAME} characters, and no control ones.")
    return text


def _path(text: str) -> str:
    """A folder path, with a slash at its end. `~/data` becomes `/~/data`."""
    path = "/" + text if text == "~" or text.startswith("~/") else text
    if not path.startswith("/") or ".." in path.split("/"):
        raise InvalidFieldError("path", 'A path begins with / or /~/, and has no ".." components.')
    if FORBIDDEN.search(path):
        raise InvalidFieldError("path", "The path of a bookmark must be UTF-8 without control characters.")
    path = path.rstrip("/") + "/"
    if len(path.encode()) > MAX_PATH:
        raise InvalidFieldError("path", f"A path has at most {MAX_PATH} octets.")
    return path
