"""Tasks with folders whose listings are incomplete or cannot be read: nothing is lost without a word, nor deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from endpoints import registry
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.slices import run
from tests.conformance.tasks.test_shares import _instance  # noqa: F401 (the fixture of the gate)
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.odd_ftp import OddFtp
from tests.gridftp.streamed_tasks import StreamedTask, tree
from tests.integration.cast import submit_delete
from transferapi.tasks.models import Event

NAMES = ("a", "b", "c", "d")
MIRROR = {"delete_destination_extra": True, "sync_level": 1}
FACTS = (*(OddFtp.features or ()), "MLST type*;size*;modify*;")


class Liar(OddFtp):
    """Lists the folders "in" and "to" badly, and others well."""

    features: tuple[str, ...] | None = FACTS
    last_words = OddFtp.end_of_listing

    def listing(self, folder: bytes, verb: str) -> bytes:
        honest = super().listing(folder, verb)
        lies = os.path.basename(folder) in (b"in", b"to")
        self.end_of_listing = self.last_words if lies else OddFtp.end_of_listing
        return self.lie(honest) if lies else honest

    def lie(self, data: bytes) -> bytes:
        """The listing, without the entry "b"."""
        return b"".join(line for line in data.splitlines(keepends=True) if not line.rstrip().endswith(b" b"))


class FirstLine(Liar):
    def lie(self, data: bytes) -> bytes:
        return b"Type=file;Size=99999999999999999999; b\r\n" + super().lie(data)


class NoEnd(Liar):
    def lie(self, data: bytes) -> bytes:
        return super().lie(data) + b"Type=file;Size=1; b"


class Truncated(Liar):
    last_words = "226 Output truncated to 3 matches"


class Aborted(Liar):
    last_words = "226 Transfer aborted"


class Unreadable(Liar):
    """A line of LIST."""

    features = OddFtp.features

    def lie(self, data: bytes) -> bytes:
        return super().lie(data) + b"-rw-r--r-- in another form: b\r\n"


class Miscounted(Liar):
    features = OddFtp.features
    last_words = "226 9 matches total"


LIARS = [Unreadable, FirstLine, NoEnd, Truncated, Aborted, Miscounted]


def fill(folder: Path, names: tuple[str, ...] = NAMES) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(name)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("kind", LIARS)
async def test_a_transfer_fails_and_names_the_listing_while_all_else_arrives(
    tmp_path: Path, kind: type[OddFtp], skip: bool
) -> None:
    fill(tmp_path / "from" / "in")
    fill(tmp_path / "from" / "other" / "deep")

    with kind(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        items = [("/in/", "/to/", True), ("/other/", "/too/", True)]
        task = StreamedTask(End(source.port), End(destination.port), items, {"skip_source_errors": skip})
        await task.run()
    assert task.store.status == "FAILED"
    assert set(task.faults()) == {"ENDPOINT_ERROR"}
    assert set(tree(tmp_path / "too")) == {f"deep/{name}" for name in NAMES}, "other items go on"
    assert set(tree(tmp_path / "to")) == {"a", "c", "d"}
    assert sum(verb in ("LIST", "MLSD") and argument.endswith(b"/in") for verb, argument in source.log) <= 3


@pytest.mark.parametrize("kind", LIARS)
async def test_a_mirror_of_it_deletes_nothing(tmp_path: Path, kind: type[OddFtp]) -> None:
    fill(tmp_path / "from" / "in")
    fill(tmp_path / "to", (*NAMES, "extra"))
    with kind(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], MIRROR)
        await task.run()
    assert task.store.status == "FAILED"
    assert set(tree(tmp_path / "to")) == {*NAMES, "extra"}


@pytest.mark.parametrize("kind", LIARS)
async def test_a_mirror_to_it_deletes_nothing(tmp_path: Path, kind: type[OddFtp]) -> None:
    fill(tmp_path / "in", ("a", "b"))
    fill(tmp_path / "there" / "to")
    with GridFtpServer(tmp_path) as source, kind(tmp_path / "there") as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], MIRROR)
        await task.run()
    assert set(tree(tmp_path / "there" / "to")) == set(NAMES)
    assert task.store.status == "FAILED"


async def test_a_mirror_whose_source_becomes_unreadable_after_the_scan_deletes_nothing(tmp_path: Path) -> None:
    class Later(OddFtp):
        features = FACTS
        listings = 0

        def listing(self, folder: bytes, verb: str) -> bytes:
            self.listings += 1
            found = super().listing(folder, verb)
            return found if self.listings == 1 else found[:-1]

    fill(tmp_path / "from" / "in")
    fill(tmp_path / "to", (*NAMES, "extra"))
    with Later(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], MIRROR)
        await task.run()
    assert set(tree(tmp_path / "to")) == {*NAMES, "extra"}
    assert "DELETE_DESTINATION_EXTRA_SKIPPED" in task.store.codes()


@NEEDS_FTP_SERVERS
@pytest.mark.parametrize("options", [{}, MIRROR], ids=["transfer", "mirror"])
async def test_pure_ftpd_truncates_long_listings(tmp_path: Path, options: dict[str, object]) -> None:
    names = tuple(f"f{number:05}" for number in range(700))
    fill(tmp_path / "to", names if options else ())
    with FtpServer("pure-ftpd", tmp_path / "pure", "-L", "500:8") as source, GridFtpServer(tmp_path) as destination:
        fill(source.data / "big", names)
        source.give()
        items = [(source.path(source.data / "big") + "/", "/to/", True)]
        task = StreamedTask(source.end, End(destination.port), items, options)
        await task.run()
    assert task.store.status == "FAILED"
    assert set(task.faults()) == {"ENDPOINT_ERROR"}
    assert len(tree(tmp_path / "to")) == (700 if options else 498)


async def test_files_are_items_and_destinations_on_a_server_with_the_least_of_commands(tmp_path: Path) -> None:
    """Without FEAT, SIZE, MDTM, MLST and REST."""

    class Bare(OddFtp):
        features = None
        unknown = frozenset({"SIZE", "MDTM", "MLST", "MLSD", "FEAT", "REST"})

    fill(tmp_path / "from" / "in")
    with Bare(tmp_path / "from") as server, GridFtpServer(tmp_path) as gridftp:
        odd, other = End(server.port), End(gridftp.port)
        task = StreamedTask(odd, other, [("/in/a", "/one", False), ("/in/b", "/two", False)], {"verify_checksum": True})
        await task.run()
        assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
        back = StreamedTask(other, odd, [("/one", "/in/a2", False), ("/two", "/new/b2", False)], {"sync_level": 1})
        await back.run()
        assert (back.store.status, back.faults()) == ("SUCCEEDED", [])
    assert (tmp_path / "from" / "in" / "a2").read_text() == "a"
    assert (tmp_path / "from" / "new" / "b2").read_text() == "b"


# ---- DELETE, with the real tables


@pytest.fixture
def serve_odd() -> Iterator[Callable[[type[OddFtp], Path], Endpoint]]:
    servers: list[OddFtp] = []
    alice = User.objects.create(username="alice")

    def start(kind: type[OddFtp], root: Path) -> Endpoint:
        servers.append(kind(root))
        return registry.create(alice, {"name": "odd"}, [ServerSpec("127.0.0.1", servers[-1].port, "ftp")])

    yield start
    for server in servers:
        with server:
            pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", LIARS)
def test_a_deletion_of_it_does_not_succeed(
    serve_odd: Callable[[type[OddFtp], Path], Endpoint], tmp_path: Path, kind: type[OddFtp]
) -> None:
    assert django_settings.ALLOW_TARGETS
    fill(tmp_path / "in")
    task = submit_delete(User.objects.get(), serve_odd(kind, tmp_path), "/in/", options={"recursive": True})
    assert run(task) == "FAILED"
    assert (tmp_path / "in" / "b").exists()
    assert "ENDPOINT_ERROR" in set(Event.objects.filter(task=task).values_list("code", flat=True))
