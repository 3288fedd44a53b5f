"""A session: one logged-in control connection for listings, facts, checksums and small changes, pipelined.

Errors: every method raises FaultError; after a fault of scope SESSION the connection cannot be used any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Self, TypeVar

from identity.gsi.printable import quoted

from .commands import MAX_ARGUMENT
from .connection import (
    CONNECT_TIMEOUT,
    MAX_PIPELINE,
    ControlConnection,
    EndedLoginError,
    LateLoginError,
    UnfinishedLoginError,
    ends_explained,
    session_fault,
    within,
)
from .facts import Entry
from .faults import Fault, FaultError, FaultScope, Kind, classify, make_fault
from .features import Features
from .listing import Allowance, EntryReader, ListingRefusedError, blocks_on_control, blocks_on_data, read_ahead
from .login import ANONYMOUS, Login, accepted, answered
from .replies import Reply
from .requests import naming, plain_ftp, removal
from .requests.confirmed_removals import LATER, remove_in_windows
from .requests.path_facts import PathFacts, entry_of
from .requests.plain_ftp import PlainListings
from .requests.symlinks import make_symlink
from .restriction import FRONT_END, NO_STARS, NOT_CONFINED, TOO_MANY_FOLDERS, AllowedPath, not_restricted, restriction
from .session_settings import SessionSettings, apply
from .streams.digest import normal_checksum
from .wire import pipelining
from .wire.fence import Fence
from .wire.pipelining import Pipelining
from .wire.server_memory import Server

#: Facts to select for a scan (by Unique, one file with two names is not two files), and for a listing that a person
#: reads.
SCAN_FACTS = "Type;Size;Modify;Unique;UNIX.slink;"
LIST_FACTS = "Type;Size;Modify;UNIX.mode;UNIX.owner;UNIX.group;UNIX.slink;"
#: Seconds between two markers of a server that makes a checksum.
CHECKSUM_MARKERS = 5
#: Seconds for a server that sends no markers to make a checksum: some TB, read from memory.
UNMARKED_TIMEOUT = 3600.0

#: Codes that the commands before USER, FEAT, PWD and TYPE are answered with, and these commands are not.
_OF_EARLIER_COMMANDS = ((220,), (220, 230, 331, 332), (211,), (211, 257))

_T = TypeVar("_T")


class GridFTPSession:
    """One logged-in control connection. Its methods may run side by side."""

    protocol = "GridFTP"
    #: One file at a time goes through this service: a data connection and the control channel are busy with it.
    multiplexed = False
    appears_whole = False

    def __init__(self, connection: ControlConnection, login: Login = ANONYMOUS) -> None:
        self.connection = connection
        self.login = login
        #: Whether data connections can be made to this server. A computer behind a NAT connects itself.
        self.listens = bool(getattr(login, "listens", True))
        self.features = Features()
        self.home = "/"
        #: The settings of its data connections that the server has accepted.
        self.data_security = SessionSettings()
        #: The settings that the server has refused, such as "DCSC P", each with its fault.
        self.refused: dict[str, Fault] = {}
        #: Nothing of the user's may travel in clear: a listing that needs a data connection is refused.
        self.demands_encryption = False
        self._marks_checksums = False
        #: The server does not know MLSD: folders are listed by LIST.
        self.lists_plainly = False
        self._plain_listings = PlainListings(connection)
        self._facts = PathFacts(connection, self.listing)
        self._moves_blocks: bool | None = None
        #: The folders that it was restricted to: the path that the client uses, and the path on the server.
        self.places: Mapping[str, str] = {}
        #: Held from EPSV to the end of the listing: a second EPSV would invalidate the address of the first.
        self.one_data_connection = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        login: Login = ANONYMOUS,
        facts: str = SCAN_FACTS,
        timeout: float = CONNECT_TIMEOUT,
    ) -> Self:
        """Connect and log in, in three tries at most (`wire.pipelining`). Raises FaultError.

        timeout: seconds for the greeting and the login, in each try.
        """
        server, facts_of_login = (host, port), (login, facts, timeout)
        try:
            try:
                session = await cls._opened(server, *facts_of_login)
            except EndedLoginError as error:
                if not error.unanswered:
                    raise
                session = await cls._opened(server, *facts_of_login)  # any connection may end once
        except UnfinishedLoginError as error:
            if not error.unanswered:
                raise
            if pipelining.of(server) is None:
                pipelining.note(server, Pipelining.SUSPECTED)
            try:
                session = await cls._opened(server, *facts_of_login)
            except UnfinishedLoginError:
                pipelining.forget(server)  # it is slow, or down
                raise
        if pipelining.of(server) is Pipelining.SUSPECTED:
            return await session._tested(server, facts_of_login)
        return session

    async def _tested(self, server: Server, facts_of_login: tuple[Login, str, float]) -> Self:
        """A session to this server, after a test for whether it loses commands after the login, too.

        A connection that ends meanwhile proves nothing, and neither does a server that answers none of them: it must
        happen on two connections, each after a login by single commands. Raises FaultError.
        """
        session, doubts = self, 0
        while (answers := await session._answers_together()) < pipelining.TEST_COMMANDS:
            doubts += 1
            lost_some = answers > 0 and session.usable
            session.abort()
            if lost_some or doubts == 2:
                pipelining.note(server, Pipelining.NEVER)
            session = await self._opened(server, *facts_of_login)
            if pipelining.of(server) is Pipelining.NEVER:
                return session
        pipelining.note(server, Pipelining.AFTER_LOGIN)
        return session

    @classmethod
    async def _opened(cls, server: Server, login: Login, facts: str, timeout: float) -> Self:
        connection = await login.connect(*server, timeout=timeout)
        session = cls(connection, login)
        until = asyncio.get_running_loop().time() + timeout
        async with within(connection, until, f"no login within {timeout:g} s"):
            with ends_explained(connection):
                await session._login(facts)
        connection.channel.one_at_a_time = pipelining.of(connection.server_address) is Pipelining.NEVER
        return session

    async def _answers_together(self) -> int:
        """How many of the commands that the server gets together it answers."""
        channel = self.connection.channel
        before = channel.answered
        tests = asyncio.gather(*(self.connection.request("NOOP") for _ in range(pipelining.TEST_COMMANDS)))
        try:
            async with asyncio.timeout(pipelining.TEST_SECONDS):
                await tests
        except (TimeoutError, FaultError):
            pass
        except BaseException:
            self.abort()
            raise
        return channel.answered - before

    async def _login(self, facts: str) -> None:
        """All in one go, and without waiting for the greeting: a login costs one round trip.

        A greeting that refuses breaks the connection, and so fails all of them with its fault.
        """
        request = self.connection.request
        asking = asyncio.gather(
            request("USER", self.login.user),
            request("PASS", self.login.password),
            request("FEAT"),
            request("PWD"),
            request("TYPE", b"I"),
            request("OPTS", b"MLST " + facts.encode()),
            request("OPTS", b"CKSM Markers=%d;" % CHECKSUM_MARKERS),
            return_exceptions=True,
        )
        answers = await self._unless_lost(asking)
        # In their order: a server that refuses one and hangs up has said why, and answers the others no more.
        user = accepted(answers[0])
        if user.code != 230:
            accepted(answers[1])
        _, _, features, home, binary, _, markers = map(answered, answers)
        accepted(binary)
        _check_order((user, features, home, binary))
        if not features.is_error:
            self.features = Features.parse(features.lines[1:-1])
            if self.features.lacks_facts:
                self.lists_plainly, self._facts.by_mlst = True, False
        self.home = _quoted_path(home) or "/"
        self._marks_checksums = not markers.is_error

    async def _unless_lost(self, asking: asyncio.Future[list[_T]]) -> list[_T]:
        """The answers. Raises LateLoginError where the server has greeted, and does not answer what it got before."""
        connection = self.connection
        loop = asyncio.get_running_loop()
        while not asking.done():
            await asyncio.wait((asking,), timeout=pipelining.LOGIN_SILENCE / 2)
            silent = loop.time() - connection.last_activity
            channel = connection.channel
            usual = channel.greeted and not (channel.one_at_a_time or channel.protected)
            if not asking.done() and usual and silent >= pipelining.LOGIN_SILENCE:
                asking.cancel()
                raise LateLoginError(f"no answer for {silent:.0f} s after the greeting", unanswered=True)
        return asking.result()

    @property
    def usable(self) -> bool:
        return self.connection.usable

    @property
    def idle(self) -> bool:
        """Whether no command is unanswered."""
        return not self.connection.channel.unanswered

    @property
    def protected(self) -> bool:
        """Whether the control channel is encrypted and authenticated."""
        return self.login.protected

    def abort(self) -> None:
        """Close the connection at once."""
        self.connection.abort()

    def set_fence(self, fence: Fence | None) -> None:
        """`ControlConnection.set_fence`."""
        self.connection.set_fence(fence)

    async def moves_blocks(self) -> bool:
        """Whether the server knows MODE E (GFD.20), so that third-party transfers are usual; asked once."""
        if self._moves_blocks is None:
            known = "PARALLEL" in self.features or self.features.toolkit
            self._moves_blocks = known or not (await self.connection.request("MODE", b"E")).is_error
        return self._moves_blocks

    @property
    def is_plain_ftp(self) -> bool:
        """Whether `moves_blocks` has found, or FEAT suggests, that this is no GridFTP server."""
        return not ("PARALLEL" in self.features or self.features.toolkit or self._moves_blocks)

    @property
    def round_trip(self) -> float | None:
        """`ControlConnection.round_trip`, in seconds."""
        return self.connection.round_trip

    @property
    def algorithms(self) -> Sequence[str]:
        """`Features.algorithms`."""
        return self.features.algorithms

    @property
    def tells_links(self) -> bool:
        """`Features.reports_links`."""
        return self.features.reports_links

    @property
    def resolves_links(self) -> bool:
        """`Features.resolves_links`."""
        return self.features.resolves_links

    @property
    def eight_bit_clean(self) -> bool:
        """`Features.eight_bit_clean`, on this control channel."""
        return self.features.eight_bit_clean(protected=self.connection.channel.protected)

    def encode_path(self, path: str) -> bytes:
        """A path as it goes over the wire: absolute, `/~/` taken from the home. Raises FaultError."""
        if path == "/~" or path.startswith("/~/"):
            path = self.home.rstrip("/") + "/" + path[3:]
        if not path.startswith("/"):
            text = f"not an absolute path: {quoted(path)}"
            raise FaultError(make_fault(Kind.INVALID_PATH_NAME, text, retryable=False))
        return self._encoded(path)

    def _encoded(self, name: str) -> bytes:
        octets = name.encode("utf-8", "surrogateescape")
        if not (octets.isascii() or self.eight_bit_clean or self.is_plain_ftp):
            advice = "This endpoint cannot take names beyond ASCII over an unprotected control channel."
            raise FaultError(Fault(Kind.INVALID_PATH_NAME, retryable=False, advice=advice, raw=quoted(name)))
        return octets

    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None:
        """SITE RESTRICT: from now on the server lets this session see these folders only, wherever symlinks lead.

        It cannot be undone. No symlink is followed on the way to a folder: the paths are resolved ones, and must stay
        as they are. Raises FaultError: UNSUPPORTED where the server cannot do it, LIMIT_EXCEEDED where there are too
        many folders for one command.
        """
        paths = [(allowed_path.write, self.encode_path(allowed_path.path)) for allowed_path in allowed_paths]
        if self.features.restricts_whole_only and any(path.strip(b"/") for _, path in paths):
            raise not_restricted(Kind.UNSUPPORTED, FRONT_END)
        line = restriction(paths, patterns=self.features.restricts_by_patterns)
        if not line:
            raise not_restricted(Kind.UNSUPPORTED, NO_STARS)
        if len(line) > MAX_ARGUMENT:
            raise not_restricted(Kind.LIMIT_EXCEEDED, TOO_MANY_FOLDERS)
        reply = await self.connection.request("SITE", line)
        if reply.is_error:
            raise not_restricted(Kind.UNSUPPORTED, NOT_CONFINED, str(reply))

    async def select_facts(self, facts: str) -> None:
        """The facts of the answers from now on, as in `SCAN_FACTS` (OPTS MLST). Raises FaultError."""
        await self.connection.ask("OPTS", b"MLST " + facts.encode())

    async def free_space(self, path: str) -> int | None:
        """Octets that may still be written in a folder (AVBL); None where the server does not say it."""
        if "AVBL" not in self.features:
            return None
        reply = await self.connection.request("AVBL", self.encode_path(path))
        words = b" ".join(reply.lines).split()
        found = [int(word) for word in words if word.isdigit() and len(word) < 20]
        return None if reply.is_error or not found else found[-1]

    async def stat(self, path: str) -> Entry:
        """The facts of one path (MLST, RFC 3659 section 7.2); the entry's name is the last component of the path."""
        return await self._facts.stat(path, self.encode_path(path), plain=self.is_plain_ftp)

    async def listing(self, path: str, allowance: Allowance | None = None) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder in batches, without "." and "..".

        Raises FaultError, also half-way, and at the end for a listing that is not complete, unless `Allowance.partial`.
        A server that sends more than is allowed loses the connection.
        """
        batches = self._listing(path, allowance or Allowance())
        if self.is_plain_ftp and "MLSC" not in self.features:
            batches = read_ahead(self.connection, batches)
        async with aclosing(batches) as found:
            async for batch in found:
                yield batch

    async def _listing(self, path: str, allowance: Allowance) -> AsyncGenerator[Sequence[Entry], None]:
        encoded = self.encode_path(path)
        if not (self.features.lists_facts or self.lists_plainly):
            self.lists_plainly = not await self._facts.knows_mlst(encoded)
        if not self.lists_plainly:
            begun = False
            try:
                async with aclosing(self._by_facts(encoded, allowance)) as batches:
                    async for batch in batches:
                        begun = True
                        yield batch
                return
            except ListingRefusedError as error:
                if begun or not self.is_plain_ftp or not plain_ftp.may_list_instead(error.reply):
                    raise
                self.lists_plainly = plain_ftp.is_unknown(error.reply)
        async with self.one_data_connection, aclosing(self._plain_listings.listing(encoded, allowance)) as batches:
            async for batch in batches:
                yield batch

    async def _by_facts(self, path: bytes, allowance: Allowance) -> AsyncGenerator[Sequence[Entry], None]:
        blocks = blocks_on_control if "MLSC" in self.features else self._blocks_on_data
        reader = EntryReader(path, allowance)
        async with aclosing(blocks(self.connection, path, allowance)) as found:
            async for lines in found:
                for entries in reader.read(lines):
                    yield entries
        if last := reader.end():
            yield last
        allowance.end()

    async def _blocks_on_data(
        self, connection: ControlConnection, path: bytes, allowance: Allowance
    ) -> AsyncGenerator[Sequence[bytes], None]:
        async with self.one_data_connection:
            if self.login.protected and self.connection.data_tls is None:
                await self._bare_data_connection()
            # Some servers list the current folder, whatever path is named.
            enter = path if self.is_plain_ftp else None
            async with aclosing(blocks_on_data(connection, path, allowance, enter=enter)) as found:
                async for lines in found:
                    yield lines

    async def _bare_data_connection(self) -> None:
        """Let the server accept our data connection, for which we have no key. A lane sends its own settings again."""
        if self.demands_encryption:
            advice = "This server lists folders on data connections only, and the task requires their encryption."
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, scope=FaultScope.ENDPOINT, advice=advice))
        if "DCAU" in self.features:
            await apply(self, self.data_security.bare())

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """MKD for each, pipelined, in this order; False for a folder that existed already, which is no fault."""
        made: list[bool] = []
        # A single folder often exists, and its caller often waits: MLST goes in the same round trip.
        look_at_once = len(paths) == 1
        for window in _windows(paths, MAX_PIPELINE // 2):
            encoded = [self.encode_path(path) for path in window]
            one_by_one = (self._make_directory(*pair, look_at_once) for pair in zip(window, encoded, strict=True))
            made += await asyncio.gather(*one_by_one)
        return made

    async def _make_directory(self, path: str, encoded: bytes, look_at_once: bool) -> bool:
        """Servers report an existing folder in many ways: MLST is more certain than their texts."""
        verbs = ("MKD", "MLST") if look_at_once and self.features.lists_facts else ("MKD",)
        reply, *seen = await asyncio.gather(*(self.connection.request(verb, encoded) for verb in verbs))
        if not reply.is_error:
            return True
        try:
            there = entry_of(seen[0]) if seen and not seen[0].is_error else await self.stat(path)
        except FaultError:
            raise FaultError(classify(reply)) from None
        if not there.is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, f"{path}: {classify(reply).raw}"))
        return False

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """DELE or RMD each (path, is_directory), pipelined, in this order; None for success."""
        looks = None if self.features.removes_surely else self._is_there
        outcome = await remove_in_windows(entries, MAX_PIPELINE, self._remove, looks)
        if not self._is_vague or any(folder for _, folder in entries):
            return outcome
        refused = [(self.encode_path(path), fault) for (path, _), fault in zip(entries, outcome, strict=True)]
        return await removal.find_folders(refused, self.connection, self.one_data_connection)

    async def _remove(self, path: str, folder: bool) -> Fault | None:
        try:
            await self.connection.ask("RMD" if folder else "DELE", self.encode_path(path))
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return await removal.explained(self.stat, error.fault, path, named=not self._is_vague)
        return None

    async def _is_there(self, path: str, folder: bool) -> bool:
        """Whether one command shows this entry; False also where the server does not know the command."""
        return not (await self.connection.request(self._look(folder=folder), self.encode_path(path))).is_error

    def _look(self, *, folder: bool) -> str:
        """The command that shows whether an entry is there."""
        if self._facts.by_mlst and self.features.lists_facts:
            return "MLST"
        return "CWD" if folder else "SIZE"

    @property
    def _is_vague(self) -> bool:
        """Whether this is one of the servers without facts, which name no cause of a refusal.

        One that has not been asked yet counts by its FEAT: a deletion that another worker began lists nothing.
        """
        return self.lists_plainly or not (self._facts.by_mlst and self.features.lists_facts)

    async def remove_unlisted(self, path: str) -> None:
        """Remove a folder with the links in it that no listing shows. SITE RDEL of the toolkit follows no symlink."""
        if self.is_plain_ftp:
            await removal.remove_with_links(self.encode_path(path), self.connection, self.one_data_connection)
        else:
            await self.connection.ask("SITE", b"RDEL " + self.encode_path(path))

    async def make_directory(self, path: str) -> None:
        """MKD; an existing path raises FaultError(PATH_EXISTS)."""
        await self.connection.ask("MKD", self.encode_path(path))

    async def rename(self, old: str, new: str) -> None:
        """RNFR and RNTO in one go."""
        await naming.give_name(self.connection, self.encode_path(old), self.encode_path(new), replaces=False)

    async def give_name(self, written: str, name: str, size: int) -> None:
        """Give a file of this size that is whole its real name; at a server of ours what it replaces keeps its
        attributes.

        Raises FaultError, also where it cannot be replaced without a loss (504): then it is to be written in place.
        """
        paths = self.encode_path(written), self.encode_path(name)
        look = "" if self.features.removes_surely else self._look(folder=False)
        seen = await naming.give_name(self.connection, *paths, replaces=self.features.replaces, look=look)
        if seen is None or plain_ftp.is_refused(seen):
            return
        if seen.is_error or naming.shown_size(seen) not in (None, size):
            await self._check_named(name, size)

    async def _check_named(self, name: str, size: int) -> None:
        """Raises FaultError where a file of this size is not there whose name the server has confirmed."""
        await asyncio.sleep(LATER)
        try:
            found = (await self.stat(name)).size
        except FaultError as error:
            if error.fault.kind is Kind.FILE_NOT_FOUND:
                raise naming.not_as_named(None, size) from None
            raise
        if found != size:
            raise naming.not_as_named(found, size)

    async def check_readable(self, path: str) -> None:
        """Ask for the checksum of the first octet (CKSM, GFD.47): without CKSM nothing shows it but a transfer."""
        if self.algorithms:
            line = b"%s 0 1 %s" % (self.algorithms[0].encode("ascii"), self.encode_path(path))
            await self.connection.ask("CKSM", line)

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file (CKSM, GFD.47), as `normal_checksum` writes it.

        With markers there is no limit of time for a large file, and a hung server is noticed all the same.
        """
        encoded = self.encode_path(path)
        if not self._marks_checksums:
            self.connection.stall_timeout = UNMARKED_TIMEOUT
        reply = await self.connection.ask("CKSM", b"%s 0 -1 %s" % (algorithm.encode("ascii"), encoded))
        value = normal_checksum(reply.text, algorithm)
        if value is None:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"CKSM: {reply}"))
        return value

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set modification times (MFMT, draft-somers-ftp-mfxx), pipelined; None for success."""
        outcome: list[Fault | None] = []
        for window in _windows(files, MAX_PIPELINE):
            outcome += await asyncio.gather(*(self._set_modified(path, modified) for path, modified in window))
        return outcome

    async def _set_modified(self, path: str, modified: datetime) -> Fault | None:
        try:
            await plain_ftp.set_time(self.connection, self.encode_path(path), modified, self.features)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return error.fault
        return None

    async def make_symlink(self, target: str, path: str) -> None:
        """SITE SYMLINKFROM and SYMLINKTO in one go; a symlink that leads to the target already is success.

        The target is any text; but the toolkit's server makes links to existing targets only, and makes them absolute.
        Raises FaultError: PATH_EXISTS where anything else is at `path`.
        """
        await make_symlink(self.connection, self.features, self.stat, (self._encoded(target), self.encode_path(path)))

    async def close(self) -> None:
        """QUIT, and wait at most a second for the answer."""
        try:
            async with asyncio.timeout(1.0):
                await self.connection.request("QUIT")
        except (TimeoutError, FaultError):
            pass
        finally:
            # Also where the program ends and cancels this.
            self.connection.abort()


def _windows(things: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def _check_order(answers: Sequence[Reply]) -> None:
    """Raises FaultError where the answers of a login, to USER, FEAT, PWD and TYPE, are those to earlier commands.

    A text of several lines that has its end in the middle (RFC 959 section 4.2) makes one reply too many: from then on
    each answer would be taken for that to the next command.
    """
    for answer, wrong in zip(answers, _OF_EARLIER_COMMANDS, strict=True):
        if answer.code in wrong:
            text = f"the server's answers do not belong to their commands: {answer}"
            raise FaultError(session_fault(Kind.ENDPOINT_ERROR, text))


def _quoted_path(reply: Reply) -> str | None:
    """The path in `257 "/home/x" ...` (RFC 959 appendix II: a quote in it is doubled)."""
    text = reply.text
    start, end = text.find('"'), text.rfind('"')
    if reply.code != 257 or start == end:
        return None
    return text[start + 1 : end].replace('""', '"')
