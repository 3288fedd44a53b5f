"""A session: one control connection, logged in, for looking and for small changes, with commands pipelined.

Errors: every method raises FaultError; after a fault of scope SESSION the connection is of no more use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeVar

from .commands import MAX_ARGUMENT
from .connection import CONNECT_TIMEOUT, MAX_PIPELINE, ControlConnection, within
from .data_commands import Told, tell
from .facts import Entry, FactsError, format_time, parse_line
from .faults import Fault, FaultError, Kind, Scope, classify, make_fault
from .listing import Allowance, blocks_on_control, blocks_on_data, entries_of
from .login import ANONYMOUS, Login
from .replies import Reply
from .restriction import FRONT_END, NO_STARS, NOT_CONFINED, TOO_MANY_GROUNDS, Ground, not_restricted, restriction
from .words import quoted

#: Facts asked for: what a scan needs (Unique tells a file by two names from two files), and what a person wants to
#: see in a listing besides.
SCAN_FACTS = "Type;Size;Modify;Unique;UNIX.slink;"
LIST_FACTS = "Type;Size;Modify;UNIX.mode;UNIX.owner;UNIX.group;UNIX.slink;"
#: Seconds between two signs of life of a server that makes a checksum.
CHECKSUM_MARKERS = 5
#: What the data nodes of a striped toolkit server can do, and its front end does not say in FEAT.
FRONT_END_ALGORITHMS = ("MD5", "ADLER32", "SHA1", "SHA256", "SHA512")
#: Seconds for the answer of one that gives none: some TB, read from memory.
UNMARKED_TIMEOUT = 3600.0

_T = TypeVar("_T")


class GridFTPSession:
    """One logged-in control connection, for looking and for small changes. Its methods may run side by side."""

    def __init__(self, connection: ControlConnection, login: Login = ANONYMOUS) -> None:
        self.connection = connection
        self.login = login
        self.features: frozenset[str] = frozenset()
        #: Checksums that the server can make, the one it likes best first (FEAT CKSM).
        self.algorithms: Sequence[str] = ()
        self.home = "/"
        #: Its facts tell a symlink to a folder from a folder.
        self.tells_links = False
        #: The toolkit's server stands before data nodes of its own (GFD.20).
        self.striped = False
        #: None: nobody knows, for part of it may have been heard.
        self.data_security: Told | None = Told()
        #: What the server has refused of it, such as "DCSC P", with what it said.
        self.refused: dict[str, Fault] = {}
        #: Nothing of the user's may travel in clear: a listing that needs a data connection is refused.
        self.demands_encryption = False
        self._marks_checksums = False
        #: Where the folders lie that it was restricted to, by the names that others know them by.
        self.places: Mapping[str, str] = {}
        #: A second EPSV would take the address of the first away.
        self._listening = asyncio.Lock()

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
        """Connect and log in. Raises FaultError."""
        connection = await login.connect(host, port, timeout=timeout)
        session = cls(connection, login)
        async with within(connection, asyncio.get_running_loop().time() + timeout, f"no login within {timeout:g} s"):
            await session._login(facts)
        return session

    async def _login(self, facts: str) -> None:
        """All in one go, and without waiting for the greeting: a login costs one round trip.

        A greeting that refuses breaks the connection, and so fails all of them with its fault.
        """
        request = self.connection.request
        user, password, features, home, binary, _, markers = await asyncio.gather(
            request("USER", self.login.user),
            request("PASS", self.login.password),
            request("FEAT"),
            request("PWD"),
            request("TYPE", b"I"),
            request("OPTS", b"MLST " + facts.encode()),
            request("OPTS", b"CKSM Markers=%d;" % CHECKSUM_MARKERS),
        )
        if user.is_error or (user.code != 230 and password.is_error):
            raise FaultError(classify(user if user.is_error else password))
        if binary.is_error:
            raise FaultError(classify(binary))
        if not features.is_error:
            self._read_features(features.lines[1:-1])
        self.home = _quoted_path(home) or "/"
        self._marks_checksums = not markers.is_error

    def _read_features(self, lines: Sequence[bytes]) -> None:
        """The lines of FEAT (RFC 2389): a name, and what belongs to it."""
        features = [line.strip().decode("ascii", "replace") for line in lines]
        self.features = frozenset(feature.partition(" ")[0].upper() for feature in features)
        self.tells_links = any("unix.slink" in feature.lower() for feature in features)
        self.striped = any(feature.startswith("DSI remote") for feature in features)
        self.algorithms = _algorithms(features) or (FRONT_END_ALGORITHMS if self.striped else ())

    @property
    def usable(self) -> bool:
        return self.connection.usable

    @property
    def round_trip(self) -> float | None:
        """Seconds between a question and its answer, as seen when the connection was made."""
        return self.connection.round_trip

    @property
    def _is_toolkit(self) -> bool:
        """The toolkit's server names its storage interface in FEAT."""
        return "DSI" in self.features

    @property
    def eight_bit_clean(self) -> bool:
        """Whether names beyond ASCII survive the way to the server.

        The toolkit's server says UTF8 and yet strips octets above 127 from clear-text commands; over ssh, too.
        """
        return "UTF8" in self.features and (self.connection.channel.protected or not self._is_toolkit)

    @property
    def resolves_links(self) -> bool:
        """Whether the server tells of a symlink the full path of what it leads to in the end, rather than its text."""
        return self._is_toolkit

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
        if not self.eight_bit_clean and not octets.isascii():
            advice = "This endpoint cannot take names beyond ASCII over an unprotected control channel."
            raise FaultError(Fault(Kind.INVALID_PATH_NAME, retryable=False, advice=advice, raw=quoted(name)))
        return octets

    async def restrict(self, grounds: Iterable[Ground]) -> None:
        """SITE RESTRICT: from now on the server lets this session see these folders only, wherever symlinks lead.

        For good: it cannot be widened. No symlink is followed on the way to a folder: the paths are resolved ones, and
        must stay what they are. Raises FaultError: UNSUPPORTED where the server does not know how, LIMIT_EXCEEDED where
        there are too many for one command.
        """
        paths = [(ground.write, self.encode_path(ground.path)) for ground in grounds]
        if self.striped and any(path.strip(b"/") for _, path in paths):
            # It compares the words of a path, and its data nodes open what these lead to.
            raise not_restricted(Kind.UNSUPPORTED, FRONT_END)
        line = restriction(paths, patterns=self._is_toolkit)
        if not line:
            raise not_restricted(Kind.UNSUPPORTED, NO_STARS)
        if len(line) > MAX_ARGUMENT:
            raise not_restricted(Kind.LIMIT_EXCEEDED, TOO_MANY_GROUNDS)
        reply = await self.connection.request("SITE", line)
        if reply.is_error:
            raise not_restricted(Kind.UNSUPPORTED, NOT_CONFINED, str(reply))

    async def stat(self, path: str) -> Entry:
        """Facts of one thing (MLST, RFC 3659 section 7.2); its name is the last component of the path."""
        return _entry(await self.connection.ask("MLST", self.encode_path(path)))

    async def listing(self, path: str, allowance: Allowance | None = None) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder in batches, without "." and "..". Raises FaultError, also half-way.

        A server that sends more than is allowed loses the connection.
        """
        allowance = allowance or Allowance()
        blocks = blocks_on_control if "MLSC" in self.features else self._blocks_on_data
        async with aclosing(blocks(self.connection, self.encode_path(path), allowance)) as found:
            async for lines in found:
                for entries in entries_of(lines, allowance):
                    yield entries

    async def _blocks_on_data(
        self, connection: ControlConnection, path: bytes, allowance: Allowance
    ) -> AsyncGenerator[Sequence[bytes], None]:
        async with self._listening:
            if self.login.protected:
                await self._bare_data_connection()
            async with aclosing(blocks_on_data(connection, path, allowance)) as found:
                async for lines in found:
                    yield lines

    async def _bare_data_connection(self) -> None:
        """Let the server take a data connection from us, who have no key for it. What a lane needs it tells anew."""
        if self.demands_encryption:
            advice = "This server lists folders on data connections only, and the task wants those encrypted."
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, scope=Scope.ENDPOINT, advice=advice))
        if "DCAU" in self.features:
            held = self.data_security
            await tell(self, Told(held.dcsc if held else "?", b"N", b"C"))

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """MKD for each, pipelined, in this order; False for one that was there already, which is fine."""
        made: list[bool] = []
        # One alone is often waited for, and often there: it is looked at in the same round trip.
        look_at_once = len(paths) == 1
        for window in _windows(paths, MAX_PIPELINE // 2):
            encoded = [self.encode_path(path) for path in window]
            one_by_one = (self._make_directory(*pair, look_at_once) for pair in zip(window, encoded, strict=True))
            made += await asyncio.gather(*one_by_one)
        return made

    async def _make_directory(self, path: str, encoded: bytes, look_at_once: bool) -> bool:
        """Servers say "exists" in many ways: a look is surer than the words."""
        verbs = ("MKD", "MLST") if look_at_once else ("MKD",)
        reply, *seen = await asyncio.gather(*(self.connection.request(verb, encoded) for verb in verbs))
        if not reply.is_error:
            return True
        look = seen[0] if seen else await self.connection.request("MLST", encoded)
        if look.is_error:
            raise FaultError(classify(reply))
        if not _entry(look).is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, f"{path}: {classify(reply).raw}"))
        return False

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """DELE or RMD each (path, is_directory), pipelined, in this order; None where it went well."""
        outcome: list[Fault | None] = []
        for window in _windows(entries, MAX_PIPELINE):
            outcome += await asyncio.gather(*(self._remove(path, folder) for path, folder in window))
        return outcome

    async def _remove(self, path: str, folder: bool) -> Fault | None:
        try:
            await self.connection.ask("RMD" if folder else "DELE", self.encode_path(path))
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return error.fault
        return None

    async def remove_unlisted(self, path: str) -> None:
        """SITE RDEL: remove a folder with what is in it and in no listing.

        The toolkit's server lists no symlink that leads nowhere, and keeps the folder for its sake. It follows none.
        """
        await self.connection.ask("SITE", b"RDEL " + self.encode_path(path))

    async def make_directory(self, path: str) -> None:
        """MKD; an existing path raises FaultError(PATH_EXISTS)."""
        await self.connection.ask("MKD", self.encode_path(path))

    async def rename(self, old: str, new: str) -> None:
        """RNFR and RNTO in one go."""
        source, target = self.encode_path(old), self.encode_path(new)
        ask = self.connection.ask
        first, second = await asyncio.gather(ask("RNFR", source), ask("RNTO", target), return_exceptions=True)
        for outcome in (first, second):
            if isinstance(outcome, BaseException):
                raise outcome

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file (CKSM, GFD.47), hexadecimal, lower case.

        Markers are asked for, so that a large file takes as long as it takes and a hung server is still noticed.
        """
        encoded = self.encode_path(path)
        if not self._marks_checksums:
            self.connection.stall_timeout = UNMARKED_TIMEOUT
        reply = await self.connection.ask("CKSM", b"%s 0 -1 %s" % (algorithm.encode("ascii"), encoded))
        value = str(reply).split()[-1].lower()
        if not value or set(value) - set("0123456789abcdef"):
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"CKSM: {reply}"))
        return value

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set modification times (MFMT, draft-somers-ftp-mfxx), pipelined; None where it went well."""
        outcome: list[Fault | None] = []
        for window in _windows(files, MAX_PIPELINE):
            outcome += await asyncio.gather(*(self._set_modified(path, modified) for path, modified in window))
        return outcome

    async def _set_modified(self, path: str, modified: datetime) -> Fault | None:
        try:
            await self.connection.ask("MFMT", format_time(modified).encode() + b" " + self.encode_path(path))
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return error.fault
        return None

    async def make_symlink(self, target: str, path: str) -> None:
        """SITE SYMLINKFROM and SYMLINKTO in one go; a link that leads there already is fine.

        The target is any text; but the toolkit's server makes links only to what is there, and makes them absolute.
        What else stands at `path` raises FaultError(PATH_EXISTS).
        """
        new = self.encode_path(path)
        text = self._link_text(target, new)
        request = self.connection.request
        first, second = await asyncio.gather(
            request("SITE", b"SYMLINKFROM " + text), request("SITE", b"SYMLINKTO " + new)
        )
        if not second.is_error:
            return
        fault = classify(first if first.is_error else second)
        try:
            there = await self.stat(path)
        except FaultError:
            raise FaultError(fault) from None
        if not await self._leads_to(there, text):
            raise FaultError(make_fault(Kind.PATH_EXISTS, fault.raw))

    def _link_text(self, target: str, path: bytes) -> bytes:
        """What SYMLINKFROM takes. The toolkit's server takes a relative target from where the session stands."""
        octets = self._encoded(target)
        if not octets:
            raise FaultError(make_fault(Kind.INVALID_PATH_NAME, "a symlink to nothing", retryable=False))
        if self._is_toolkit and not octets.startswith(b"/"):
            return path.rpartition(b"/")[0] + b"/" + octets
        return octets

    async def _leads_to(self, link: Entry, text: bytes) -> bool:
        """Whether this is a symlink with this text, or one that ends where it does: servers tell either."""
        if link.link_target is None:
            return False
        target = text.decode("utf-8", "surrogateescape")
        if link.link_target == target:
            return True
        if not target.startswith("/") or not link.unique:
            return False
        try:
            return (await self.stat(target)).unique == link.unique
        except FaultError:
            return False

    async def close(self) -> None:
        """QUIT, and do not wait long for the answer."""
        try:
            async with asyncio.timeout(1.0):
                await self.connection.request("QUIT")
        except (TimeoutError, FaultError):
            pass
        self.connection.abort()


def _entry(reply: Reply) -> Entry:
    """The one line of facts that MLST answers with."""
    try:
        entry = parse_line(reply.lines[1].removeprefix(b" "))
    except (IndexError, FactsError) as error:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"MLST: {error}")) from None
    return replace(entry, name=entry.name.rstrip("/").rpartition("/")[2] or "/")


def _algorithms(features: Sequence[str]) -> Sequence[str]:
    """The line `CKSM MD5:10;SHA1:10;SHA256:11;` of FEAT: names with their preference, the lowest first."""
    for feature in features:
        word, _, rest = feature.partition(" ")
        if word.upper() == "CKSM":
            pairs = (part.strip().partition(":")[::2] for part in rest.split(";") if part.strip())
            known = [(int(rank) if rank.isdigit() else 99, name.strip().upper()) for name, rank in pairs]
            return [name for _, name in sorted(known, key=lambda pair: pair[0])]
    return ()


def _windows(things: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def _quoted_path(reply: Reply) -> str | None:
    """The path in `257 "/home/x" ...` (RFC 959 appendix II: a quote in it is doubled)."""
    text = reply.text
    start, end = text.find('"'), text.rfind('"')
    if reply.code != 257 or start == end:
        return None
    return text[start + 1 : end].replace('""', '"')
