"""STOR, RETR and their variants: one file between the disk and the data channel."""

from __future__ import annotations

import os

from endpoints.gridftp.ranges import MAX_OFFSET, RangeSet
from endpoints.gridftp.server.data.connection import DataConnection
from endpoints.gridftp.server.data.disk_sync import DiskSync
from endpoints.gridftp.server.data.progress import MarkerIntervals, MarkerWriter
from endpoints.gridftp.server.data.receive import Receiver, Sink
from endpoints.gridftp.server.data.send import Sender, Source
from endpoints.gridftp.server.errors import CommandRefusedError, DataError, ServerError
from endpoints.gridftp.server.session import ServerSession

from .table import command


@command("RETR", sends=True)
def retrieve(session: ServerSession, argument: bytes) -> None:
    _send_file(session, session.path(argument))


@command("ERET", sends=True, feature="ERET")
def extended_retrieve(session: ServerSession, argument: bytes) -> None:
    """`ERET P offset length path` (GFD.20): a part of a file, sent like a whole file."""
    words = argument.split(b" ", 3)
    if len(words) != 4 or words[0].upper() != b"P":
        raise CommandRefusedError(501, "ERET: expected P, offset, length and path.")
    offset, length = _offset(words[1]), _offset(words[2])
    _send_file(session, session.path(words[3]), offset, length)


@command("STOR", receives=True, makes_name=True)
def store(session: ServerSession, argument: bytes) -> None:
    _receive_file(session, session.path(argument))


@command("ESTO", receives=True, makes_name=True, feature="ESTO")
def extended_store(session: ServerSession, argument: bytes) -> None:
    """`ESTO A offset path` (GFD.20): received offsets are relative to this one; the file is not truncated."""
    words = argument.split(b" ", 2)
    if len(words) != 3 or words[0].upper() != b"A":
        raise CommandRefusedError(501, "ESTO: expected A, offset and path.")
    _receive_file(session, session.path(words[2]), shift=_offset(words[1]))


@command("APPE", receives=True, makes_name=True)
def append(session: ServerSession, argument: bytes) -> None:
    _receive_file(session, session.path(argument), at_end=True)


def _send_file(session: ServerSession, path: bytes, offset: int = 0, length: int | None = None) -> None:
    restart = session.take_restart()
    session.channel.require()
    with session.service.root.opened_file(path, os.O_RDONLY) as (fd, status):
        rest = max(0, status.st_size - offset)
        size = rest if length is None else min(rest, length)
        source = Source(fd, restart.gaps(size), offset, session.tell_octets)
        sender = Sender(session.channel, session.limits)
        if session.blocks:
            sender.blocks(outgoing(session), source)
        else:
            _require_stream_restart(restart)
            sender.stream(outgoing(session)[0], source)
    complete(session)


def _receive_file(session: ServerSession, path: bytes, *, shift: int | None = None, at_end: bool = False) -> None:
    session.require_writable()
    session.service.root.require_writable(path)
    restart = session.take_restart()
    session.channel.require()
    _require_receivable(session, restart)
    with session.service.root.opened_file(path, os.O_WRONLY | os.O_CREAT) as (fd, status):
        replaces = shift is None and not at_end
        if replaces and not restart and status.st_size:
            os.ftruncate(fd, 0)
        progress = _progress(session, fd, part=shift is not None)
        sink = Sink(fd, status.st_size if at_end else shift or 0, progress)
        receiver = Receiver(session.channel, sink, session.limits, session.buffer)
        try:
            _receive(session, receiver, restart)
            if replaces and not session.blocks:
                # MODE S ends with the end of the file: an older, longer file is truncated there.
                os.ftruncate(fd, sink.end)
            progress.finish()
        except (ServerError, OSError):
            progress.give_up()
            raise
        finally:
            progress.close()
            sink.close()
    complete(session)


def _require_receivable(session: ServerSession, restart: RangeSet) -> None:
    if not session.blocks:
        _require_stream_restart(restart)
    elif not session.channel.takes_blocks:
        raise DataError(425, "In MODE E the sender connects: the receiver needs PASV.")


def _progress(session: ServerSession, fd: int, *, part: bool) -> MarkerWriter:
    # In MODE S clients expect no reply between 150 and 226 (RFC 959), and the toolkit's server sends none: markers
    # are for a client that has asked for them by TREV.
    has_markers = session.blocks or session.intervals.asked
    intervals = session.intervals if has_markers else MarkerIntervals(0, 0)
    return MarkerWriter(session.say, intervals, DiskSync(fd), session.tell_octets, part=part)


def _receive(session: ServerSession, receiver: Receiver, restart: RangeSet) -> None:
    _begin(session, reused=session.blocks and session.channel.reused)
    if session.blocks:
        receiver.blocks()
    else:
        receiver.stream(restart.total)


def _require_stream_restart(restart: RangeSet) -> None:
    """Raise CommandRefusedError unless the ranges are the beginning of the file.

    MODE S can leave out nothing else (RFC 3659 section 5).
    """
    if restart and not restart.covers(restart.total):
        raise CommandRefusedError(501, "In MODE S a restart is at one offset.")


def _offset(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19 or int(text) > MAX_OFFSET:
        raise CommandRefusedError(501, "An offset is a whole number.")
    return int(text)


# ---- shared by all commands that move data


def outgoing(session: ServerSession) -> list[DataConnection]:
    """The connections to send on, all in MODE E, one in MODE S; replies 150 or 125."""
    if not session.blocks:
        _begin(session)
        return [session.channel.single(sending=True)]
    if session.channel.passive:
        raise DataError(425, "In MODE E the sender connects: it needs PORT.")
    reused = session.channel.reused
    connections = session.channel.outgoing(session.parallelism)
    _begin(session, reused=reused)
    return connections


def complete(session: ServerSession) -> None:
    """Reply 226; a MODE S channel serves one transfer only."""
    if not session.blocks:
        session.channel.close()
    session.say(b"226 Transfer Complete.\r\n")


def _begin(session: ServerSession, *, reused: bool = False) -> None:
    if reused:
        session.say(b"125 Beginning transfer; reusing existing data connection.\r\n")
    else:
        session.say(b"150 Beginning transfer.\r\n")
