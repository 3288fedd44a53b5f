"""bookmark-add, bookmark-list, bookmark-remove, bookmark-rename."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from endpoints import bookmarks
from endpoints.errors import BookmarkNotFoundError
from endpoints.models import Bookmark
from identity.models import User
from transferapi.rest.transfer import bookmark_documents
from transferapi.shell import names
from transferapi.shell.command import Heading, answer, command, operands, show
from transferapi.shell.context import Context
from transferapi.shell.options import Arguments
from transferapi.shell.output import FIELDS, FORM, Column, Table


@dataclass(frozen=True, slots=True)
class _Shown:
    """endpoint: its name; None where the user can no longer see it."""

    row: Bookmark
    endpoint: str | None


_TABLE = Table[_Shown](
    Column("Name", lambda shown: shown.row.name),
    Column("ID", lambda shown: shown.row.pk),
    Column("Endpoint ID", lambda shown: shown.row.endpoint_id),
    Column("Endpoint", lambda shown: shown.endpoint),
    Column("Path", lambda shown: shown.row.path),
    Column("Pinned", lambda shown: "yes" if shown.row.pinned else "no"),
    document=lambda shown: bookmark_documents.BOOKMARK.document(shown.row),
)


@command("bookmark-add", "[OPTIONS] ENDPOINT/PATH/ NAME", Heading.OTHER, FORM, summary="Save a folder under a name")
def bookmark_add(context: Context, arguments: Arguments) -> None:
    """Makes a bookmark of a folder. In all commands, `^NAME` then stands for the endpoint with this folder, and
    `^NAME/x` for x in it. In a name, `%XX` stands for an octet: `%2F` for a slash. Prints the id of the bookmark.
    """
    first, second = operands(arguments, 2)
    place, name = (second, first) if _is_name(first) and not _is_name(second) else (first, second)
    row = context.call(_add, context.user, place, name)
    if arguments["form"] == "json":
        show(context, bookmark_documents.BOOKMARK.document(row))
        return
    context.out(f"Bookmark ID: {row.pk}\n")


def _is_name(text: str) -> bool:
    return not names.parted(text)[1]


def _add(user: User, text: str, name: str) -> Bookmark:
    place = names.location(user, text, bare=True)
    return bookmarks.create(user, name=unquote(name), endpoint=place.endpoint, path=place.path)


@command("bookmark-list", "[OPTIONS]", Heading.OTHER, FORM, FIELDS, summary="List your bookmarks")
def bookmark_list(context: Context, arguments: Arguments) -> None:
    """Shows each bookmark as a record, in the order of the names. Endpoint is n/a where you can no longer see it."""
    operands(arguments, 0)
    _TABLE.select(arguments)
    _TABLE.show(context, arguments, context.call(_listed, context.user))


def _listed(user: User) -> list[_Shown]:
    rows = bookmarks.all_of(user)
    seen = bookmarks.names_of_endpoints(user, rows)
    return [_Shown(row, seen.get(row.endpoint_id)) for row in rows]


def _found(user: User, text: str) -> Bookmark:
    """By its name, with or without ^, or by its id. Raises BookmarkNotFoundError."""
    wanted = {unquote(text), unquote(text.removeprefix("^"))}
    for row in bookmarks.all_of(user):
        if row.name in wanted or str(row.pk) == text.lower():
            return row
    raise BookmarkNotFoundError(text)


@command("bookmark-remove", "[OPTIONS] NAME", Heading.OTHER, FORM, summary="Delete a bookmark")
def bookmark_remove(context: Context, arguments: Arguments) -> None:
    """Deletes a bookmark by its name or its id. Nothing is printed."""
    [text] = operands(arguments, 1)
    context.call(_remove, context.user, text)
    answer(context, arguments, "result", "Deleted", "Bookmark deleted successfully")


def _remove(user: User, text: str) -> None:
    bookmarks.delete(user, _found(user, text).pk)


@command("bookmark-rename", "[OPTIONS] OLD NEW", Heading.OTHER, FORM, summary="Give a bookmark another name")
def bookmark_rename(context: Context, arguments: Arguments) -> None:
    """Changes the name of a bookmark. Nothing is printed."""
    old, new = operands(arguments, 2)
    row = context.call(_rename, context.user, old, new)
    if arguments["form"] == "json":
        show(context, bookmark_documents.BOOKMARK.document(row))


def _rename(user: User, old: str, new: str) -> Bookmark:
    return bookmarks.update(user, _found(user, old).pk, name=unquote(new.removeprefix("^")))
