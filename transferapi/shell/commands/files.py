"""ls, mkdir, rename: operations on the files of an endpoint that are done at once.

`ls` writes names, or seven columns as `ls -l` of Unix has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice

from endpoints import concurrency_limits, operations, registry
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.operations import Listing
from endpoints.permissions import Permission
from identity.gsi.printable import ACTIVE, inert
from identity.models import User
from transferapi.rest.http import json_documents
from transferapi.rest.http.json_documents import Rows
from transferapi.rest.transfer import listings, operation_documents
from transferapi.shell import names
from transferapi.shell.command import Heading, answer, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError
from transferapi.shell.operation_errors import FailedOperation, operate
from transferapi.shell.options import Arguments, flag
from transferapi.shell.output import FIELDS, FORM, UNSET, Column, Table, value_text
from transferapi.tasks import request_rules

#: Lines that are written at one time. A listing that is longer keeps its slot until it is written.
PORTION = 1000
_ROW = Table[Entry](
    Column("Permissions", lambda entry: entry.mode),
    Column("User", lambda entry: entry.owner),
    Column("Group", lambda entry: entry.group),
    Column("Size", lambda entry: entry.size),
    Column("Last Modified", lambda entry: entry.modified),
    Column("Name", lambda entry: shown(entry.name)),
    Column("Type", operation_documents.file_type),
    Column("Link Target", lambda entry: entry.link_target),
    document=operation_documents.FILE.document,
)


@command("ls", "[OPTIONS] ENDPOINT/PATH", Heading.OTHER,
         flag("-l", key="long", about="seven columns: mode, owner, group, size, date, time, name"),
         flag("-a", "--all", about="show names that begin with a dot, too, and ./ and ../"),
         FORM, FIELDS, summary="List a folder, or show a file")  # fmt: skip
def ls(context: Context, arguments: Arguments) -> None:
    """Lists a folder of an endpoint in the order of the names, one name a line. The names of folders end in `/`. For a
    file, the path is printed as it was given. In the last component of the path, `*` stands for any text; the names
    that fit are listed. Without a path, the default directory of the endpoint is listed.

    With -l, each line has exactly seven columns, separated by blanks: mode, owner, group, size in octets, date, time
    (UTC) and name. A symbolic link is shown as `name -> target`. A name with control characters is shown as Bash reads
    it, `$'...'`.
    """
    [text] = operands(arguments, 1)
    place = context.call(names.location, context.user, text, bare=True)
    path = request_rules.path(place.path, "path")
    if "*" in path.rpartition("/")[2]:
        folder, _, pattern = path.rpartition("/")
        _list(context, arguments, FailedOperation(place.endpoint, f"{folder}/", "MLSD", "DirListingFailed"), pattern)
        return
    asked = FailedOperation(place.endpoint, path, "MLSD", "DirListingFailed")
    entry = _file(context, asked, arguments, bare=not names.parted(text)[1] and not text.startswith("^"))
    if entry is not None:
        _show_file(context, arguments, entry, text)


def _file(context: Context, asked: FailedOperation, arguments: Arguments, *, bare: bool) -> Entry | None:
    """List the folder; what is no folder is returned. bare: no path was given."""
    try:
        _list(context, arguments, asked, bare=bare)
        return None
    except _NoFolderError:
        _, entry = operate(context, asked, operations.stat, asked.path)
        if not entry.is_directory:
            return entry
        raise ShellError(f"{asked.endpoint}:{asked.path} cannot be listed", "ExternalError") from None


class _NoFolderError(Exception):
    """The path may be one of a file."""


def _list(
    context: Context, arguments: Arguments, asked: FailedOperation, pattern: str = "", *, bare: bool = False
) -> None:
    with ExitStack() as kept:
        around = arguments["all"] and arguments["long"]
        found = operate(context, asked, _opened, None if bare else asked.path, kept, pattern, around=around)
        entries = context.call(_selected, found.entries, pattern, hidden=arguments["all"])
        if pattern and not entries:
            missing = FailedOperation(asked.endpoint, asked.path + pattern, asked.command, asked.family)
            operate(context, missing, _nothing_fits)
        if arguments["all"] and not pattern and arguments["form"] == "text":
            entries = [*_around(found), *entries]
        _write(context, _lines(context, arguments, found, entries), kept)
        if found.incomplete:
            context.err(f"Warning: {found.incomplete}\n")


def _opened(user: User, endpoint: str, path: str | None, kept: ExitStack, pattern: str, *, around: bool) -> Listing:
    """The listing. The slot that counts its memory is left with `kept`."""
    slot = concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS)
    try:
        found = operations.list_directory(user, endpoint, path, slot=slot, around=around, partial=True)
    except BaseException as error:
        slot.leave()
        kinds = (Kind.NOT_A_DIRECTORY, Kind.FILE_NOT_FOUND)
        if isinstance(error, FaultError) and error.fault.kind in kinds and path and not pattern:
            raise _NoFolderError from None
        raise
    kept.callback(slot.leave)
    return found


def _nothing_fits(user: User, endpoint: str) -> None:
    raise FaultError(make_fault(Kind.FILE_NOT_FOUND, "no name in this folder fits the pattern"))


def _selected(entries: Sequence[Entry], pattern: str, *, hidden: bool) -> list[Entry]:
    """In the order of REST."""
    fits = matcher(pattern) if pattern else None
    hidden = hidden or pattern.startswith(".")
    kept = [one for one in entries if (hidden or not one.name.startswith(".")) and (fits is None or fits(one.name))]
    return listings.ordered(kept, [("name", False)])


def _around(found: Listing) -> list[Entry]:
    """The lines `./` and `../`; their facts are asked for with -l only."""
    own, above = found.around or [Entry(".", "dir")] * 2
    return [itself(own, "."), itself(above, "..")]


def _show_file(context: Context, arguments: Arguments, entry: Entry, text: str) -> None:
    """The path stands as it was given, without the endpoint."""
    path = names.parted(text)[1]
    given = path.removeprefix(":") if path else entry.name
    if arguments["form"] != "text" or arguments["fields"]:
        _ROW.show(context, arguments, [entry], single=True)
        return
    named = entry._replace(name=given)
    context.out("".join(long([named]) if arguments["long"] else short([named])))


def _lines(context: Context, arguments: Arguments, found: Listing, entries: list[Entry]) -> Iterator[str]:
    if arguments["fields"] is None and arguments["form"] == "json":
        place = {"limit": len(entries), "offset": 0, "total": len(entries), "length": len(entries)}
        whole = {
            **context.call(operation_documents.folder, found),
            **place,
            "DATA": Rows(entries, operation_documents.FILE.document),
        }
        return (part.decode("ascii") for part in chain(json_documents.parts(whole), [b"\n"]))
    if arguments["fields"] is None and arguments["form"] == "text":
        return long(entries) if arguments["long"] else short(entries)
    _ROW.show(context, arguments, entries)
    return iter(())


def _write(context: Context, lines: Iterator[str], kept: ExitStack) -> None:
    """Write in portions, each made in its turn. A short listing gives back its slot before it is written."""
    portion = _portion(lines)
    if len(portion) < PORTION:
        kept.close()
    while portion:
        context.out("".join(portion))
        portion = _portion(lines)


def _portion(lines: Iterator[str]) -> list[str]:
    with concurrency_limits.cpu_lock:
        return list(islice(lines, PORTION))


@command("mkdir", "[OPTIONS] ENDPOINT:PATH", Heading.OTHER,
         flag("-p", "--parents", about="make missing folders above it, too; a folder that exists is no error"),
         FORM, summary="Make a folder")  # fmt: skip
def mkdir(context: Context, arguments: Arguments) -> None:
    """Makes a folder on an endpoint, one level. With -p, the missing folders above it are made, too, and it is no error
    where the folder exists already. Prints nothing.

    Where it fails, the third line of the error is `Message: ` with the cause: No such file or directory, Permission
    denied, Path already exists, Could not connect to server, or Fatal FTP Response.
    """
    [text] = operands(arguments, 1)
    place = context.call(names.location, context.user, text)
    path = request_rules.path(place.path, "path")
    make = operations.make_directories if arguments["parents"] else operations.make_directory
    operate(context, FailedOperation(place.endpoint, path, "MKD", "MkdirFailed"), make, path)
    answer(context, arguments, "mkdir_result", "DirectoryCreated", "The directory was created successfully", path=path)


@command("rename", "[OPTIONS] ENDPOINT/OLD ENDPOINT/NEW", Heading.OTHER, FORM, summary="Rename a file or a folder")
def rename(context: Context, arguments: Arguments) -> None:
    """Gives a file or a folder another name or place on the same endpoint. Prints nothing. The cause of a failure is on
    the third line, as for `mkdir`.
    """
    texts = operands(arguments, 2)
    old, new = (context.call(names.location, context.user, text) for text in texts)
    if old.endpoint != new.endpoint and context.call(_differ, context.user, old.endpoint, new.endpoint):
        raise ShellError("Both paths must be on one endpoint; to move files to another one, use transfer and rm")
    paths = [request_rules.path(one.path, field) for one, field in ((old, "old_path"), (new, "new_path"))]
    asked = FailedOperation(old.endpoint, paths[0], "RNFR", "RenameFailed")
    operate(context, asked, operations.rename, *paths)
    answer(context, arguments, "result", "FileRenamed", "File or directory renamed successfully")


def _differ(user: User, *refs: str) -> bool:
    return len({registry.resolve(user, ref, Permission.VIEW).pk for ref in refs}) > 1


_BITS = "rwxrwxrwx"
_UNKNOWN = "?"


def itself(entry: Entry, name: str) -> Entry:
    """The line of a folder in its own listing: `.` or `..`."""
    return entry._replace(name=name, kind="dir", link_target=None)


def short(entries: Iterable[Entry]) -> Iterator[str]:
    """One name a line; folders end in `/`."""
    return (f"{_name(entry)}\n" for entry in entries)


def long(entries: Sequence[Entry]) -> Iterator[str]:
    """mode owner group size date time name: exactly seven columns, separated by blanks. A link is `name -> target`."""
    owner, group, size = (_width(entries, get) for get in (_owner, _group, _size))
    for entry in entries:
        facts = f"{_owner(entry):<{owner}} {_group(entry):<{group}} {_size(entry):>{size}} {_moment(entry)}"
        yield f"{_mode(entry)} {facts} {_long_name(entry)}\n"


def _width(entries: Sequence[Entry], get: Callable[[Entry], str]) -> int:
    return max(map(len, map(get, entries)), default=0)


def _name(entry: Entry) -> str:
    return shown(entry.name) + "/" * (entry.is_directory and not entry.is_link)


def _long_name(entry: Entry) -> str:
    return f"{shown(entry.name)} -> {shown(entry.link_target)}" if entry.link_target else _name(entry)


def shown(name: str) -> str:
    """A name on one line: one with active characters is written as Bash reads it, `$'...'`."""
    if not ACTIVE.search(name):
        return name
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{inert(quoted)}'"


def _word(text: str) -> str:
    """A fact as one column."""
    return "".join("_" if letter.isspace() else letter for letter in ACTIVE.sub("_", text)) or _UNKNOWN


def _fact(name: str, entry: Entry) -> str:
    return _word(getattr(entry, name))


_owner, _group = partial(_fact, "owner"), partial(_fact, "group")


def _size(entry: Entry) -> str:
    return str(entry.size)


def _moment(entry: Entry) -> str:
    """Date and time in UTC."""
    return f"{UNSET} {UNSET}" if entry.modified is None else value_text(entry.modified)


def _mode(entry: Entry) -> str:
    letter = "l" if entry.is_link else "d" if entry.is_directory else "-"
    try:
        bits = int(entry.mode, 8)
    except ValueError:
        return letter + _UNKNOWN * len(_BITS)
    return letter + "".join(bit if bits >> (8 - at) & 1 else "-" for at, bit in enumerate(_BITS))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name fits: `*` stands for any text, every other character for itself. It takes linear time."""
    first, *inner, last = pattern.split("*")

    def fits(name: str) -> bool:
        if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
            return False
        at, end = len(first), len(name) - len(last)
        for part in inner:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits
