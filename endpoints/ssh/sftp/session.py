"""A session with an SFTP server (draft-ietf-secsh-filexfer-02, as OpenSSH speaks it): facts, changes, files.

It has the methods of `GridFTPSession` that the engine and the registry use. Every method raises FaultError; after a
fault of scope SESSION the session cannot be used any more.

Entries of listings are made of the attributes of SFTP version 3.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Self, TypeVar

import asyncssh
from asyncssh.sftp import start_sftp_client
from asyncssh.stream import SSHClientStreamSession

from endpoints.gridftp.facts import Entry, FactsError
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.listing import Allowance, check_name
from endpoints.gridftp.requests import naming
from endpoints.gridftp.requests.confirmed_removals import LATER, remove_in_windows
from endpoints.gridftp.requests.list_lines import read_list_line
from endpoints.gridftp.restriction import AllowedPath, not_restricted
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.digest import ALGORITHMS, Digest
from endpoints.gridftp.streams.file_streams import OctetBudget, OctetShare
from endpoints.gridftp.wire.fence import Fence
from endpoints.ssh.bounded_connection import BoundedConnection
from endpoints.ssh.connection import wire_of
from identity.gsi.printable import quoted

from .files import WINDOW, Answers, SftpReader, SftpWriter
from .renaming import has_size, look, rename

#: Octets of one packet of ssh, as OpenSSH sends them.
PACKET = 32768


class _ChannelStream(SSHClientStreamSession[bytes]):
    """A channel that reports the arrival of each packet."""

    def __init__(self, moved: Callable[[], None]) -> None:
        super().__init__()
        self._moved = moved

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._moved()
        super().data_received(data, datatype)


async def open_channel(
    connection: asyncssh.SSHClientConnection, moved: Callable[[], None], window: int
) -> tuple[asyncssh.SSHWriter[bytes], asyncssh.SFTPClient]:
    """Open a channel, and speak SFTP version 3 on it. window: octets that the server may send before we take them.

    moved: called for each packet that arrives. Raises the errors of asyncssh.
    """
    channel, session = await connection.create_session(
        lambda: _ChannelStream(moved), subsystem="sftp", encoding=None, window=window, max_pktsize=PACKET
    )
    assert isinstance(session, _ChannelStream)
    writer, reader = asyncssh.SSHWriter(session, channel), asyncssh.SSHReader(session, channel)
    loop = asyncio.get_running_loop()
    return writer, await start_sftp_client(connection, loop, "replace", reader, writer, None, "strict", 3)


_MAX_SIZE = 2**63 - 1


def has_link(attrs: asyncssh.SFTPAttrs) -> bool:
    """Whether these are the attributes of a symlink."""
    return attrs.permissions is not None and stat.S_ISLNK(attrs.permissions)


def entry_of(
    name: str, attrs: asyncssh.SFTPAttrs, longname: bytes | str | None = None, *, target: str | None = None
) -> Entry:
    """An entry. longname: the line of `ls -l` in a listing, which has the names of owner and group."""
    mode = attrs.permissions or 0
    owner, group = _names(longname) if longname else ("", "")
    return Entry(
        name,
        _kind(mode),
        size=min(attrs.size or 0, _MAX_SIZE),
        modified=datetime.fromtimestamp(attrs.mtime, UTC) if attrs.mtime is not None else None,
        mode=f"{stat.S_IMODE(mode):04o}" if attrs.permissions is not None else "",
        owner=owner or _number(attrs.uid),
        group=group or _number(attrs.gid),
        link_target=target,
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "dir"
    special = mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)
    return "OS.unix=special" if special and not stat.S_ISLNK(mode) else "link" if special else "file"


def _names(longname: bytes | str) -> tuple[str, str]:
    text = longname if isinstance(longname, str) else longname.decode("utf-8", "replace")
    words = text.split(None, 4)
    return (words[2], words[3]) if len(words) == 5 else ("", "")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


_T = TypeVar("_T")
#: Octets that the server may send before we have taken them: the window of a channel.
CHANNEL_WINDOW = WINDOW
#: The flag of a read-only file system in an answer to statvfs@openssh.com (SSH_FXE_STATVFS_ST_RDONLY).
READ_ONLY = 1
#: Channels of one connection that write a large file: OpenSSH's server has a window of 2 MB for each, and allows ten.
CHANNELS, MANY_CHANNELS_ABOVE = 4, 4 * 2**20
#: Small requests in flight.
AT_ONCE = 64
#: Octets that the checksums of one session hold in memory.
CHECKSUM_OCTETS = 4 * 2**20
NO_SUCH_TIME = "SFTP has modification times from 1970 to 2106 only."
NOT_CONFINED = "An SFTP server cannot confine a session to folders, so only its whole tree can be shared for writing."


class SftpSession:
    """One ssh connection with one SFTP channel or several. Its methods may run side by side."""

    protocol = "SFTP"
    multiplexed = True
    appears_whole = False
    tells_links = True
    #: A symlink is reported with its text.
    resolves_links = False
    #: An ssh connection is always encrypted.
    demands_encryption = False
    protected = True
    algorithms: Sequence[str] = ALGORITHMS
    #: Why an `ssh` endpoint is used by SFTP, a sentence for an event.
    offer = ""

    def __init__(self, connection: BoundedConnection) -> None:
        self.home = "/"
        self.places: Mapping[str, str] = {}
        self.round_trip: float | None = None
        self._connection = connection
        self._channels: list[asyncssh.SFTPClient] = []
        self._writers: list[asyncssh.SSHWriter[bytes]] = []
        self._answers = Answers(lambda: sum(writer.channel.get_write_buffer_size() for writer in self._writers))
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._checksums = OctetBudget(CHECKSUM_OCTETS)
        self._under_way = 0
        self._lost = False
        #: Seconds of silence that each listing under way allows: what is asked meanwhile waits behind it.
        self._patience: list[float] = []

    @classmethod
    async def begin(cls, connection: BoundedConnection) -> Self:
        """Open the SFTP channel of a connection that is logged in, and learn the account's home."""
        session = cls(connection)
        try:
            channels = await session._opened(1)
            session.home = await session._home_of(channels[0])
        except BaseException:
            connection.abort()
            raise
        return session

    async def _home_of(self, client: asyncssh.SFTPClient) -> str:
        """The account's home; "/" where the server does not say it."""
        try:
            return _text(await self._ask(lambda: client.realpath(b"."))) or "/"
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return "/"

    # ---- its state

    @property
    def server_address(self) -> tuple[str, int]:
        """Its server in `put_off`."""
        return self._connection.server_address

    @property
    def usable(self) -> bool:
        return not (self._lost or self._connection.is_closed() or wire_of(self._connection).fenced_off)

    @property
    def idle(self) -> bool:
        """Whether no request is unanswered."""
        return self._under_way == 0

    def abort(self) -> None:
        """Close the connection at once."""
        self._lost = True
        self._connection.abort()

    def set_fence(self, fence: Fence | None) -> None:
        """Nothing leaves after this fence is closed: the connection breaks. None: no slice uses it now."""
        wire_of(self._connection).set_fence(self, fence)

    async def close(self) -> None:
        """Close the connection."""
        self.abort()

    def encode_path(self, path: str) -> bytes:
        """A path for the server: absolute, `/~/` taken from the home. Raises FaultError.

        It has no slash at its end: behind the name of a symlink one means the target (POSIX.1-2017 section 4.13).
        """
        if path == "/~" or path.startswith("/~/"):
            path = self.home.rstrip("/") + "/" + path[3:]
        path = path.rstrip("/") or path[:1]
        if not path.startswith("/") or "\0" in path:
            raise FaultError(make_fault(Kind.INVALID_PATH_NAME, f"not a path: {quoted(path)}", retryable=False))
        return path.encode("utf-8", "surrogateescape")

    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None:
        """An SFTP server cannot be restricted: accepts nothing less than the whole tree, for writing."""
        if not any(path.write and not path.path.strip("/") for path in allowed_paths):
            raise not_restricted(Kind.UNSUPPORTED, NOT_CONFINED)

    # ---- facts

    async def free_space(self, path: str) -> int | None:
        """Octets that may still be written in a folder; None where the server does not say it (statvfs@openssh.com)."""
        encoded = self.encode_path(path)
        try:
            space = await self._ask(lambda: self._client.statvfs(encoded))
        except FaultError:
            return None
        return space.bavail * space.frsize

    async def stat(self, path: str) -> Entry:
        """The facts of one path; of a symlink, those of its target, and the text of the link."""
        encoded = self.encode_path(path)
        name = path.rstrip("/").rpartition("/")[2] or "/"
        attrs = await self._ask(lambda: self._client.lstat(encoded))
        if has_link(attrs):
            return await self._resolved(encoded, entry_of(name, attrs))
        return entry_of(name, await self._with_type(encoded, attrs))

    async def _with_type(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> asyncssh.SFTPAttrs:
        """The attributes with a type, which servers may leave out: what can be opened as a folder is one.

        Raises FaultError for a file without a size.
        """
        if attrs.permissions is None:
            handler = self._client._handler
            try:
                await handler.close(await self._ask(lambda: handler.opendir(path)))
                attrs.permissions = stat.S_IFDIR
            except FaultError as error:
                # A folder that may not be opened is no file.
                if error.fault.scope is not FaultScope.FILE or error.fault.kind is Kind.PERMISSION_DENIED:
                    raise
                attrs.permissions = stat.S_IFREG
        if attrs.size is None and stat.S_ISREG(attrs.permissions):
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"no size of {quoted(_text(path))}", retryable=False))
        return attrs

    async def listing(self, path: str, allowance: Allowance | None = None) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder in batches, without "." and "..", which count as all lines do.

        Raises FaultError at the end where a name can be none: the entry that it stands for is not known.
        """
        encoded, allowance = self.encode_path(path), allowance or Allowance()
        self._patience.append(allowance.seconds)
        try:
            async with aclosing(self._batches(encoded)) as batches:
                async for batch in batches:
                    allowance.take([_octets(name.longname or b"") + _octets(name.filename) for name in batch])
                    with allowance.turn():
                        found = _named(encoded, batch, allowance)
                    entries = await asyncio.gather(*(self._shown(encoded, name, entry) for name, entry in found))
                    if entries:
                        allowance.keep(entries)
                        yield entries
            allowance.end()
        finally:
            self._patience.remove(allowance.seconds)

    async def _batches(self, folder: bytes) -> AsyncGenerator[Sequence[asyncssh.SFTPName], None]:
        """The names of each answer; of some answers none. asyncssh's own `scandir` asks on where answers have no names,
        without an end."""
        handler = self._client._handler

        async def read() -> tuple[Sequence[asyncssh.SFTPName], bool]:
            try:
                return await handler.readdir(handle)
            except asyncssh.SFTPEOFError:
                return (), True

        handle = await self._ask(lambda: handler.opendir(folder))
        try:
            is_at_end = False
            while not is_at_end:
                names, is_at_end = await self._ask(read)
                if names or not is_at_end:
                    yield names
        finally:
            with suppress(asyncssh.Error, asyncssh.SFTPError):
                await handler.close(handle)

    async def _shown(self, folder: bytes, name: asyncssh.SFTPName, entry: Entry) -> Entry:
        if not (has_link(name.attrs) or entry.kind == "link"):
            return entry
        return await self._resolved(folder.rstrip(b"/") + b"/" + _octets(name.filename), entry)

    async def _resolved(self, path: bytes, link: Entry) -> Entry:
        """A symlink, with the facts of what it leads to; without its text where the server does not show it."""
        text = await self._text_of_link(path)
        target = None if text is None else _text(text)
        try:
            attrs = await self._with_type(path, await self._ask(lambda: self._client.stat(path)))
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return Entry(link.name, "link", link_target=target)
        return entry_of(link.name, attrs, target=target or "")

    # ---- changes

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """Create these folders, parents first; False for one that existed already."""
        made = []
        for path in paths:
            try:
                await self.make_directory(path)
                made.append(True)
            except FaultError as error:
                if error.fault.scope is not FaultScope.FILE or not await self._is_folder(path, error.fault):
                    raise
                made.append(False)
        return made

    async def _is_folder(self, path: str, fault: Fault) -> bool:
        try:
            there = await self.stat(path)
        except FaultError:
            return False
        if not there.is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, f"{path}: {fault.raw}"))
        return True

    async def make_directory(self, path: str) -> None:
        """Create a folder; an existing path raises FaultError(PATH_EXISTS)."""
        encoded = self.encode_path(path)
        try:
            await self._ask(lambda: self._client.mkdir(encoded))
        except FaultError as error:
            fault = await self._known(error.fault, path, Kind.PATH_EXISTS)
            raise FaultError(await self._why_not_written(fault, encoded)) from None

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """Remove each (path, is_directory), pipelined, in this order; None for success."""
        return await remove_in_windows(entries, AT_ONCE, self._remove, self._is_there)

    async def _is_there(self, path: str, _folder: bool) -> bool:
        encoded = self.encode_path(path)
        return await self._fault(lambda: self._client.lstat(encoded)) is None

    async def _remove(self, path: str, folder: bool) -> Fault | None:
        encoded = self.encode_path(path)
        fault = await self._fault(lambda: self._client.rmdir(encoded) if folder else self._client.remove(encoded))
        return fault and await self._known(fault, path, Kind.DIRECTORY_NOT_EMPTY if folder else Kind.IS_A_DIRECTORY)

    async def remove_unlisted(self, path: str) -> None:
        """SFTP lists everything: a folder that appears empty is empty."""
        encoded = self.encode_path(path)
        await self._ask(lambda: self._client.rmdir(encoded))

    async def rename(self, old: str, new: str) -> None:
        """Rename, and replace what is there, as rename(2) does."""
        await self._rename(old, new)

    async def give_name(self, written: str, name: str, size: int) -> None:
        """Give a file of this size that is whole its real name, over what is there. Raises FaultError."""
        await self._rename(written, name, size)

    async def _rename(self, old: str, new: str, size: int | None = None) -> None:
        """size: octets that are under the new name then; None if it is not known."""
        target = self.encode_path(new)
        seen = await rename(self._client, self._ask, self.encode_path(old), target)
        if not has_size(seen, size):
            await asyncio.sleep(LATER)
            seen = await look(self._client, self._ask, target)
        if not has_size(seen, size):
            raise naming.not_as_named(seen.size if seen else None, size)

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set modification times, in whole seconds, pipelined; None for success."""
        return await _in_windows(self._set_modified, files)

    async def _set_modified(self, path: str, modified: datetime) -> Fault | None:
        encoded, seconds = self.encode_path(path), int(modified.timestamp())
        if not 0 <= seconds < 2**32:
            return Fault(Kind.UNSUPPORTED, retryable=False, advice=NO_SUCH_TIME)
        attrs = asyncssh.SFTPAttrs(atime=seconds, mtime=seconds)
        return await self._fault(lambda: self._client.setstat(encoded, attrs))

    async def make_symlink(self, target: str, path: str) -> None:
        """Create a symlink with this text; an equal one may exist already. Raises FaultError(PATH_EXISTS)."""
        encoded, text = self.encode_path(path), target.encode("utf-8", "surrogateescape")
        fault = await self._fault(lambda: self._client.symlink(text, encoded))
        if fault and await self._text_of_link(encoded) != text:
            raise FaultError(await self._known(fault, path, Kind.PATH_EXISTS))

    async def _text_of_link(self, path: bytes) -> bytes | None:
        try:
            return _octets(await self._ask(lambda: self._client.readlink(path)))
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return None

    # ---- files

    async def open_reader(self, path: str, offset: int, share: OctetShare, *, expected: int = 0) -> SftpReader:
        """Read a file from this offset on. expected: its size."""
        encoded = self.encode_path(path)
        try:
            file = await self._ask(lambda: self._client.open(encoded, "rb", block_size=0))
        except FaultError as error:
            raise FaultError(await self._known(error.fault, path, Kind.IS_A_DIRECTORY)) from None
        return SftpReader(file, self._answers, share, offset, expected, self._client.limits.max_read_len)

    async def open_writer(
        self, path: str, offset: int, share: OctetShare, *, expected: int = 0, partial: str = ""
    ) -> SftpWriter:
        """Write a file from this offset on; from 0 on, what was there is removed. expected: octets that will come."""
        encoded = self.encode_path(path)
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | (0 if offset else asyncssh.FXF_TRUNC)
        several = expected > MANY_CHANNELS_ABOVE and self._writes_in_any_order
        channels = await self._opened(CHANNELS if several else 1)
        try:
            files = [await self._ask(lambda: channels[0].open(encoded, flags, encoding=None, block_size=0))]
        except FaultError as error:
            fault = await self._known(error.fault, path, Kind.IS_A_DIRECTORY)
            raise FaultError(await self._why_not_written(fault, encoded)) from None
        if offset:
            await self._check_continued(files[0], offset)

        def again(channel: asyncssh.SFTPClient) -> Awaitable[asyncssh.SFTPClientFile]:
            return self._ask(lambda: channel.open(encoded, asyncssh.FXF_WRITE, encoding=None, block_size=0))

        files += await asyncio.gather(*map(again, channels[1:]))

        async def explain(fault: Fault) -> Fault:
            return await self._why_not_written(fault, encoded)

        async def size() -> int | None:
            return (await self._ask(lambda: self._client.stat(encoded))).size

        return SftpWriter(files, self._answers, share, offset, self._client.limits.max_write_len, explain, size)

    async def _check_continued(self, file: asyncssh.SFTPClientFile, offset: int) -> None:
        """Raises RestartRefusedError where the handle does not show what is to be continued.

        At gateways to object stores each handle is a new file, which would have zeros in the place of what was there.
        """
        found: list[int | None] = []

        async def look() -> None:
            found.append((await file.stat()).size)

        fault = await self._fault(look)
        if fault or (found[0] or 0) < offset:
            await self._fault(file.close)
            raw = f"the open file has {found[0] if found else 'no'} octets, and is to be continued behind {offset}"
            raise RestartRefusedError(make_fault(Kind.UNSUPPORTED, raw))

    @property
    def _writes_in_any_order(self) -> bool:
        """Whether a file may be open several times at once: at gateways to object stores each is a file of its own."""
        return "OpenSSH" in str(self._connection.get_extra_info("server_version") or "")

    async def check_readable(self, path: str) -> None:
        """Open the file, and close it."""
        encoded = self.encode_path(path)
        file = await self._ask(lambda: self._client.open(encoded, "rb", block_size=0))
        await self._ask(file.close)

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file, hexadecimal, lower case: the file is read."""
        counted = Digest(algorithm)
        share = self._checksums.share()
        reader = await self.open_reader(path, 0, share, expected=CHECKSUM_OCTETS)
        try:
            while data := await reader.read():
                counted.update(data)
                share.give(len(data))
        finally:
            await reader.close()
            share.close()
        return counted.hexdigest()

    # ---- inside

    @property
    def _client(self) -> asyncssh.SFTPClient:
        return self._channels[0]

    async def _opened(self, count: int) -> list[asyncssh.SFTPClient]:
        """So many channels, or as many as the server allows, at least one."""
        async with self._opening:
            while len(self._channels) < count:
                try:
                    self._channels.append(await self._answers.wait(self._open_channel()))
                except FaultError:
                    if not self._channels:
                        raise
                    return self._channels
        return self._channels[:count]

    async def _open_channel(self) -> asyncssh.SFTPClient:
        writer, client = await open_channel(self._connection, self._answers.moved, CHANNEL_WINDOW)
        self._writers.append(writer)
        return client

    async def _ask(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Send a request, and wait for its answer. A silent server loses the connection."""
        async with self._slots:
            self._under_way += 1
            try:
                return await self._answers.wait(ask(), max(self._patience, default=0.0))
            except FaultError as error:
                if error.fault.scope is not FaultScope.FILE:
                    self.abort()
                raise
            finally:
                self._under_way -= 1

    async def _fault(self, ask: Callable[[], Awaitable[object]]) -> Fault | None:
        """The fault of a request that concerns its file only; None for success. Raises FaultError for all others."""
        try:
            await self._ask(ask)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return error.fault
        return None

    async def _known(self, fault: Fault, path: str, kind: Kind) -> Fault:
        """A plain "Failure" about a path that exists means `kind`; about a folder in place of a file as well."""
        if fault.kind is not Kind.UNKNOWN:
            return fault
        try:
            there = await self.stat(path)
        except FaultError:
            return fault
        fits = there.is_directory if kind in (Kind.IS_A_DIRECTORY, Kind.DIRECTORY_NOT_EMPTY) else True
        return make_fault(kind, fault.raw) if fits else fault

    async def _why_not_written(self, fault: Fault, path: bytes) -> Fault:
        """A plain "Failure" of a write often means a full disk, or a read-only one (statvfs@openssh.com)."""
        if fault.kind is not Kind.UNKNOWN:
            return fault
        try:
            space = await self._ask(lambda: self._client.statvfs(path.rpartition(b"/")[0] or b"/"))
        except FaultError:
            return fault
        if space.flags & READ_ONLY:
            return make_fault(Kind.PERMISSION_DENIED, f"{fault.raw} (Read-only file system)")
        return make_fault(Kind.NO_SPACE_LEFT, fault.raw) if space.bavail == 0 or space.favail == 0 else fault


def _named(
    folder: bytes, names: Sequence[asyncssh.SFTPName], allowance: Allowance
) -> list[tuple[asyncssh.SFTPName, Entry]]:
    """The entries of these names, without those of the folder itself and the one above. Raises FaultError."""
    found = []
    for name in names:
        text = _text(name.filename)
        if text in (".", ".."):
            continue
        try:
            check_name(text)
        except FactsError as error:
            allowance.miss(folder, str(error))
            continue
        entry = _listed(text, name)
        if entry is None:
            allowance.miss(folder, f"neither the type nor the size of {quoted(text)} is known")
        else:
            found.append((name, entry))
    return found


def _listed(text: str, name: asyncssh.SFTPName) -> Entry | None:
    """An entry of a listing; None where nothing shows its type, or the size of a file.

    Some servers send them in the line of `ls -l` alone (draft-ietf-secsh-filexfer-02 section 7).
    """
    attrs = name.attrs
    if attrs.permissions is not None and (attrs.size is not None or not stat.S_ISREG(attrs.permissions)):
        return entry_of(text, attrs, name.longname)
    line = read_list_line(_octets(name.longname or b""))
    if line is None:
        return None
    kind = _kind(attrs.permissions) if attrs.permissions is not None else line.kind
    shown = entry_of(text, attrs, name.longname)
    return shown._replace(kind=kind, size=line.size if attrs.size is None else shown.size)


async def _in_windows(
    change: Callable[[str, _T], Awaitable[Fault | None]], items: Sequence[tuple[str, _T]]
) -> Sequence[Fault | None]:
    """The outcome of each change, with at most AT_ONCE of them in flight."""
    outcome: list[Fault | None] = []
    for start in range(0, len(items), AT_ONCE):
        outcome += await asyncio.gather(*(change(*item) for item in items[start : start + AT_ONCE]))
    return outcome


def _text(octets: bytes | str) -> str:
    return octets if isinstance(octets, str) else octets.decode("utf-8", "surrogateescape")


def _octets(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
