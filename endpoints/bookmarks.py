"""Places that a user wants to find again: his alone, by a name of his choice."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.db import transaction

from identity.conflicts import unless_taken
from identity.models import User

from . import registry
from .errors import (
    BookmarkExistsError,
    BookmarkInvalidError,
    BookmarkNotFoundError,
    EndpointDeletedError,
    EndpointNotFoundError,
    TooManyBookmarksError,
)
from .fields import CONTROL
from .models import Bookmark, Endpoint
from .permissions import Verb

MAX_BOOKMARKS = 1000
MAX_NAME = 128
#: Octets, as of every path.
MAX_PATH = 4096


def all_of(user: User) -> list[Bookmark]:
    """By name. Those, too, whose endpoint is gone for him: he may want to know where it was."""
    return list(Bookmark.objects.filter(user=user).order_by("name", "pk"))


def get(user: User, bookmark_id: uuid.UUID) -> Bookmark:
    """-> BookmarkNotFoundError"""
    found = Bookmark.objects.filter(user=user, pk=bookmark_id).first()
    if found is None:
        raise BookmarkNotFoundError(str(bookmark_id))
    return found


def create(user: User, *, name: str, endpoint: str, path: str, pinned: bool = False) -> Bookmark:
    """Remember a folder of an endpoint that he may see.

    -> EndpointNotFoundError, BookmarkInvalidError, BookmarkExistsError, TooManyBookmarksError
    """
    found = registry.resolve(user, endpoint, Verb.VIEW)
    row = Bookmark(user=user, endpoint=found, name=_name(name), path=_path(path), pinned=pinned)
    with transaction.atomic():
        # One of a user at a time, or two could be the last one that there is room for.
        list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))
        if Bookmark.objects.filter(user=user).count() >= MAX_BOOKMARKS:
            raise TooManyBookmarksError(MAX_BOOKMARKS)
        _save(row)
    return row


def update(
    user: User, bookmark_id: uuid.UUID, *, name: str | None = None, path: str | None = None, pinned: bool | None = None
) -> Bookmark:
    """Change what is not None. -> BookmarkNotFoundError, BookmarkInvalidError, BookmarkExistsError"""
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
    """-> BookmarkNotFoundError"""
    deleted, _ = Bookmark.objects.filter(user=user, pk=bookmark_id).delete()
    if not deleted:
        raise BookmarkNotFoundError(str(bookmark_id))


def show_endpoint(user: User, ref: str) -> Endpoint:
    """The endpoint, for who may see it. -> EndpointNotFoundError; EndpointDeletedError, where he has a bookmark of it

    Whoever has a bookmark knows that there was something; clients that list bookmarks go on after this error alone.
    """
    try:
        return registry.resolve(user, ref, Verb.VIEW)
    except EndpointNotFoundError:
        if _remembers(user, ref):
            raise EndpointDeletedError(ref) from None
        raise


def _remembers(user: User, ref: str) -> bool:
    try:
        endpoint_id = uuid.UUID(ref)
    except ValueError:
        return False
    return Bookmark.objects.filter(user=user, endpoint_id=endpoint_id).exists()


def _save(row: Bookmark, changed: list[str] | None = None) -> None:
    with unless_taken("bookmark_name_unique", BookmarkExistsError(row.name)):
        row.save(force_insert=changed is None, update_fields=changed)


def _name(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise BookmarkInvalidError("name", "A name has no blanks at its ends, and something between them.")
    if len(text) > MAX_NAME or CONTROL.search(text):
        raise BookmarkInvalidError("name", f"A name has at most {MAX_NAME} characters, and no control ones.")
    return text


def _path(text: str) -> str:
    """A folder, with a slash at its end. `~/data` is `/~/data`, as everywhere."""
    path = "/" + text if text == "~" or text.startswith("~/") else text
    if not path.startswith("/") or ".." in path.split("/"):
        raise BookmarkInvalidError("path", 'A path begins with / or /~/, and has no ".." components.')
    if CONTROL.search(path):
        raise BookmarkInvalidError("path", "A path that is remembered has no control characters, and is UTF-8.")
    path = path.rstrip("/") + "/"
    if len(path.encode()) > MAX_PATH:
        raise BookmarkInvalidError("path", f"A path has at most {MAX_PATH} octets.")
    return path
