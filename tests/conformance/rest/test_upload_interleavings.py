"""Requests of one upload in any order of their steps: the file is whole, or it is not there.

A second page, a page that is loaded again, a retry that comes late, a proxy that repeats a request, a client that is
gone in the middle: all of them are two or three requests whose steps mix. The code of uploads and its database are the
real ones. The server is one in memory in most orders, and a real one of both kinds in some.

UPLOAD_ORDERS says how many orders are tried on the server in memory. The suite tries 120; 500 take some three minutes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from endpoints import concurrency_limits, registry
from endpoints.errors import TargetExistsError, UploadBusyError, UploadOffsetError
from endpoints.files import leftovers, upload_records
from endpoints.files.sessions import FileSession
from endpoints.files.uploads import Upload, UploadPart
from endpoints.gridftp.faults import FaultError
from endpoints.models import UploadRecord
from endpoints.registry import ServerSpec
from endpoints.sessions import opening
from identity.models import User
from tests.conformance.rest.memory_server import MemoryServer, MemoryServerSession
from tests.conformance.rest.test_operations import Place, alice, loopback, place, register
from tests.conformance.rest.turns import Turns

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["alice", "loopback", "place", "register"]

#: Blocks of equally many orders: each is a test of its own, so that processes of the suite share them.
BLOCKS = 10
ORDERS = int(os.environ.get("UPLOAD_ORDERS", "120"))
PART = 3000
CONTENT, OTHER = (random.Random(seed).randbytes(3 * PART) for seed in (7, 8))
OLD = b"what was there before"
#: A step begins with each of these, with each use of a session, and with each piece of a body.
RECORDS = (
    "begin", "claim", "move_on", "acknowledge", "release", "take_target", "complete", "give_up", "displace", "current",
)  # fmt: skip


class CutError(Exception):
    """The client's body has ended too early."""


@dataclass
class Try:
    """One order of steps. kinds: of the requests, in the order in which they are started."""

    user: User
    path: str
    read: Callable[[], bytes | None]
    write: Callable[[bytes], object]
    turns: Turns
    seed: int
    kinds: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.choices = random.Random(self.seed)
        self.replace = self.choices.random() < 0.6
        self.prior = self.choices.randrange(3)
        self.has_old = self.replace and self.choices.random() < 0.5

    def upload(self, upload_id: str = "one") -> Upload:
        return Upload(self.user, "place", self.path, upload_id)

    def body(self, part: UploadPart, content: bytes, *, cut: bool = False) -> Iterator[bytes]:
        half = part.start + part.length // 2
        self.turns.step()
        yield content[part.start : half]
        self.turns.step()
        if cut:
            raise CutError
        yield content[half : part.end]

    def part(self, number: int, *, cut: bool = False, upload_id: str = "one", content: bytes = CONTENT) -> bool:
        part = UploadPart(number * PART, PART, len(content))
        upload = self.upload(upload_id)
        upload.check(part)
        return upload.store(part, self.body(part, content, cut=cut), replace=self.replace)

    def whole(self, content: bytes) -> bool:
        part = UploadPart(0, len(content), len(content))
        return self.upload("whole").store(part, self.body(part, content), replace=self.replace)

    def request(self) -> Callable[[], object]:
        """One that a second page, a proxy or a late retry makes."""
        kind = self.choices.choice(["last", "last", "next", "next", "first", "cut", "discard", "other", "whole"])
        self.kinds.append(kind)
        if kind in ("last", "next", "first", "cut"):
            number = {"last": 2, "first": 0}.get(kind, self.prior)
            return partial(self.part, number, cut=kind == "cut")
        if kind == "discard":
            return lambda: self.upload().discard()
        return partial(self.whole, OTHER if kind == "other" else CONTENT)

    def run(self) -> None:
        if self.has_old:
            self.write(OLD)
        for number in range(self.prior):
            assert not self.part(number)
        found = self.turns.run([self.request() for _ in range(self.choices.choice([2, 2, 3]))], self.choices)
        for one in found:
            expected = UploadOffsetError | UploadBusyError | TargetExistsError | FaultError | CutError
            assert isinstance(one, bool | None | expected), (self, one)
        self.look(found)
        self.finish()
        self.clean()

    def look(self, found: list[Any]) -> None:
        """The file is whole: one of those whose requests were answered so, or the one that was there before."""
        content = self.read()
        allowed = {None if not self.has_old else OLD, CONTENT}
        if "other" in self.kinds:
            allowed.add(OTHER)
        assert content in allowed, (self, found, self.turns.order)
        ends = [one is True for one in found]
        if any(ends):
            assert content in (CONTENT, OTHER), (self, found, self.turns.order)
        if not self.replace:
            by = {self.kinds[number] in ("other", "whole") and number for number, end in enumerate(ends) if end}
            assert len(by) <= 1, (self, found, self.turns.order)

    def finish(self) -> None:
        """The client goes on as its program does, until the file is there."""
        for _ in range(10):
            try:
                if self.part(self.upload().received // PART):
                    break
            except UploadOffsetError:
                continue
            except TargetExistsError:
                assert not self.replace
                break
        assert self.read() in (CONTENT, OTHER), (self, self.turns.order)
        if self.replace:
            assert self.read() == CONTENT, (self, self.turns.order)

    def clean(self) -> None:
        """Temporary files that were given up are removed: at once, or by the periodic job."""
        self.upload().discard()
        self.upload("whole").discard()
        leftovers.remove_due()
        assert not UploadRecord.objects.filter(writer__isnull=False).exists(), self
        assert not UploadRecord.objects.exists(), self


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """A step before each use of a session and of the database. Nobody waits for the place of another."""
    made = Turns()
    monkeypatch.setattr(FileSession, "run", made.before(FileSession.run))
    for name in RECORDS:
        monkeypatch.setattr(upload_records, name, made.before(getattr(upload_records, name)))
    monkeypatch.setattr("endpoints.files.uploads.time.sleep", lambda seconds: made.step())
    monkeypatch.setattr(concurrency_limits, "_take", lambda *_: None)
    monkeypatch.setattr(concurrency_limits, "_release", lambda *_: None)
    return made


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_the_order_of_the_steps_the_file_is_whole_or_not_there(
    alice: User, loopback: None, turns: Turns, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    server = MemoryServer()

    async def open_session(servers: object, logins: object) -> MemoryServerSession:
        return MemoryServerSession(server)

    monkeypatch.setattr(opening, "open_session", open_session)
    registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", 1, "ftp")])
    for seed in range(block * ORDERS // BLOCKS, (block + 1) * ORDERS // BLOCKS):
        server.files, server.cuts = {}, seed % 2 == 0
        path = f"/file{seed}"

        def read(path: str = path) -> bytes | None:
            return bytes(server.files[path]) if path in server.files else None

        def write(data: bytes, path: str = path) -> None:
            server.files[path] = bytearray(data)

        Try(alice, path, read, write, turns, seed).run()
        assert server.names() == [path]


def test_so_it_is_on_real_servers(alice: User, place: Place, turns: Turns) -> None:
    for seed in range(1000, 1012):
        file = place.folder / f"file{seed}"

        def read(file: Any = file) -> bytes | None:
            return bytes(file.read_bytes()) if file.exists() else None

        Try(alice, place.path(file.name), read, file.write_bytes, turns, seed).run()
        assert [one.name for one in place.folder.iterdir() if one.name.startswith(".waybill")] == []
