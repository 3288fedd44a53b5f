"""Check the items of a submission, one after the other: a list of a million items is never held in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from django.conf import settings

from endpoints.activation import status as activation
from endpoints.addresses import gate
from endpoints.models import Endpoint
from endpoints.sharing.access import Access
from transferapi.tasks import request_rules
from transferapi.tasks.errors import RequestError

NO_ITEMS = "ClientError.BadRequest.NoTransferItems"
NO_LINKS = "No symbolic links are made on a shared endpoint: they could lead out of what is shared."

T_co = TypeVar("T_co", covariant=True)


class ItemList(Protocol[T_co]):
    """A sequence, or a list that is too long for memory (`spool.Spool`): each iteration begins anew."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


@dataclass(frozen=True, slots=True)
class TransferItem:
    """An item of a transfer. recursive None: the scan finds out whether the source is a folder."""

    source_path: str
    destination_path: str
    recursive: bool | None = None
    #: Hexadecimal; for files only.
    external_checksum: str | None = None
    #: MD5 where only the checksum is given; without a checksum, the algorithm that verifies the files.
    checksum_algorithm: str | None = None
    #: The source is a symlink, to be created anew at the destination and not followed.
    symlink: bool = False


class CheckedItem(NamedTuple):
    """A checked item."""

    source: str
    destination: str | None
    recursive: bool | None
    #: `models.Item.extra`.
    extra: Mapping[str, object] = {}


class TransferRows:
    """The rows of a transfer. The first whole iteration checks all items; later ones make the same rows faster.

    Iterating raises RequestError, PathNotPermittedError.
    """

    def __init__(self, items: ItemList[TransferItem], source: Access, destination: Access) -> None:
        """Raises RequestError where there are too many items, or none."""
        check_number(items)
        self._items = items
        self._source, self._destination = source, destination
        self._checked = False
        #: Whether one path is one file on both sides; None: not known yet.
        self._one_server: bool | None = None

    def __iter__(self) -> Iterator[CheckedItem]:
        if self._checked:
            yield from (_transfer_row(number, item) for number, item in enumerate(self._items))
            return
        yield from self._check()
        self._checked = True

    def _check(self) -> Iterator[CheckedItem]:
        seen = SeenTexts(len(self._items))
        for number, item in enumerate(self._items):
            row = _transfer_row(number, item)
            if self._destination.shared and item.symlink:
                raise RequestError(f"DATA[{number}].DATA_TYPE", NO_LINKS)
            from_ = real(self._source, row.source, write=False)
            to = real(self._destination, str(row.destination), write=True)
            if seen.add(to) and self._is_destination_before(number, to):
                raise RequestError(f"DATA[{number}].destination_path", "Another item has the same destination.")
            if (why := _why_not_apart(from_, to, item.recursive)) and self._is_one_server():
                raise RequestError(f"DATA[{number}].destination_path", why)
            yield row

    def _is_one_server(self) -> bool:
        if self._one_server is None:
            self._one_server = is_one_server(self._source.host, self._destination.host)
        return self._one_server

    def _is_destination_before(self, end: int, destination: str) -> bool:
        """Whether one of the first `end` items has this destination. Two texts may have the same hash."""
        rows = (_transfer_row(number, item) for number, item in zip(range(end), self._items, strict=False))
        return any(real(self._destination, str(row.destination), write=True) == destination for row in rows)


class DeleteRows:
    """The rows of a delete. Each iteration checks all paths. Iterating raises RequestError, PathNotPermittedError."""

    def __init__(self, paths: ItemList[str], source: Access, *, recursive: bool) -> None:
        """Raises RequestError where there are too many paths, or none."""
        check_number(paths)
        self._paths = paths
        self._source = source
        self._recursive = recursive

    def __iter__(self) -> Iterator[CheckedItem]:
        for number, text in enumerate(self._paths):
            path = request_rules.path(text, f"DATA[{number}].path")
            if path in ("/", "/~/"):
                raise RequestError(f"DATA[{number}].path", "The root of an endpoint or of a home cannot be deleted.")
            real(self._source, path, write=True)
            yield CheckedItem(path, None, self._recursive)


class SeenTexts:
    """Which texts were added, by their hashes: 16 to 32 octets of memory for each.

    The hash of a text depends on a secret of the process: nobody can choose texts that share one.
    """

    _MASK = (1 << 64) - 1

    def __init__(self, most: int) -> None:
        """most: the largest number of texts that will be added."""
        size = 1 << max(4, (2 * most).bit_length())
        self._table = array("Q", bytes(8 * size))
        self._last = size - 1

    def add(self, text: str) -> bool:
        """Whether the text was added before. It may be True, with a probability of 1 in 10**12, though it was not."""
        value = hash(text) & self._MASK or 1
        table, last = self._table, self._last
        at = value & last
        while known := table[at]:
            if known == value:
                return True
            at = (at + 1) & last
        table[at] = value
        return False


def check_number(items: ItemList[object]) -> None:
    """Raises RequestError where there are too many items, or none."""
    if not len(items):
        raise RequestError("DATA", "There is no item in this request.", NO_ITEMS)
    in_memory = isinstance(items, Sequence)
    if len(items) > (settings.LIMITS.items if in_memory else settings.LIMITS.listed_items):
        raise RequestError("DATA", request_rules.too_many_items() if in_memory else request_rules.too_many_lines())


def real(end: Access, path: str, *, write: bool) -> str:
    """The path on the servers, without a trailing slash. Raises PathNotPermittedError."""
    if end.shared:
        end.check(path, write=write)
        path = end.real(path)
    return path.rstrip("/")


def _transfer_row(number: int, item: TransferItem) -> CheckedItem:
    extra: dict[str, object] = {}
    if item.symlink:
        extra = {"symlink": True}
    elif item.external_checksum or item.checksum_algorithm:
        extra = _checksum(f"DATA[{number}]", item)
    return CheckedItem(
        request_rules.path(item.source_path, f"DATA[{number}].source_path"),
        request_rules.path(item.destination_path, f"DATA[{number}].destination_path"),
        item.recursive,
        extra,
    )


def _checksum(where: str, item: TransferItem) -> dict[str, object]:
    algorithm = request_rules.algorithm(item.checksum_algorithm or "MD5", f"{where}.checksum_algorithm")
    if not item.external_checksum:
        return {"checksum_algorithm": algorithm}
    field_ = f"{where}.external_checksum"
    if item.recursive:
        raise RequestError(field_, "Only a file has a checksum that can be given, and this is a folder.")
    value = request_rules.checksum(item.external_checksum, algorithm, field_)
    return {"checksum_algorithm": algorithm, "external_checksum": value}


def _why_not_apart(source: str, destination: str, recursive: bool | None) -> str | None:
    """Why this item cannot be copied on one server, by the paths alone: onto itself, or a folder into itself."""
    if source == destination:
        return "The destination is the source itself."
    if recursive is not False and destination.startswith(source + "/"):
        return "The destination lies inside the source."
    return None


#: Seconds for the look-up of one name, and the most servers whose names are looked up.
LOOKUP_SECONDS, MAX_SERVERS = 2.0, 4


def is_one_server(first: Endpoint, second: Endpoint) -> bool:
    """Whether they have a server in common that shows the same paths to everybody.

    Names are looked up: call it only where it matters. Endpoints with credentials are left out: one path may be in
    another home or root for another account.
    """
    if first.pk == second.pk:
        return True
    if any(one.personal or activation.need(one).required for one in (first, second)):
        return False
    pairs = [(one, two) for one in _servers(first) for two in _servers(second) if one[:2] == two[:2]]
    return any(one == two for one, two in pairs) or any(_have_one_address(one[2], two[2]) for one, two in pairs)


def _have_one_address(name: str, other: str) -> bool:
    return not _addresses(name).isdisjoint(_addresses(other))


def _servers(endpoint: Endpoint) -> list[tuple[str, int, str]]:
    """The scheme, port and host of each server."""
    return [(one.scheme, one.port, one.hostname.lower()) for one in endpoint.servers.all()[:MAX_SERVERS]]


def _addresses(host: str) -> frozenset[str]:
    try:
        return gate.addresses_of(host, timeout=LOOKUP_SECONDS)
    except gate.TargetRefusedError:
        return frozenset()
