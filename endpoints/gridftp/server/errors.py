"""The errors of a session, and their replies.

    ServerError
    ├── CommandRefusedError   a command that cannot be done as it was sent: its reply code and text
    │   └── WriteInPlaceError a file that cannot be replaced with all that it has (504)
    ├── DataError             the data channel: not opened (425), broken or stalled (426)
    └── AbortedError          ABOR, or the client is gone
    ClientGoneError           the client reads no replies any more: ends the session
    WireError                 the control channel is not what it must be: ends the session

Refusals of the operating system remain OSErrors; `os_error_reply` makes their replies.
"""

from __future__ import annotations

import errno
import os


class ServerError(Exception):
    """Ends one command. `code` and `text` make its reply."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class CommandRefusedError(ServerError):
    """A command that cannot be done as it was sent."""


class WriteInPlaceError(CommandRefusedError):
    """A file that can be written, and not replaced by another one without a loss. 504: not for this parameter."""

    def __init__(self, why: str) -> None:
        super().__init__(504, f"Not replaced, write it in place: {why}.")


class DataError(ServerError):
    """The data channel failed."""

    @classmethod
    def not_opened(cls, why: str) -> DataError:
        return cls(425, f"Can't open data connection: {why}.")

    @classmethod
    def broken(cls, error: OSError) -> DataError:
        return cls(426, f"Data connection lost: {_words(error)}.")


class AbortedError(ServerError):
    """The client or the server ends the transfer."""

    def __init__(self) -> None:
        super().__init__(426, "Transfer aborted.")


class ClientGoneError(Exception):
    """The client reads no replies any more."""


class WireError(Exception):
    """The octets of a control channel are no command lines. `args[0]`: the farewell, or ""."""


#: The codes in the errors of the toolkit's server, which its clients search.
_GLOBUS_NAMES = {
    errno.ENOENT: "PATH_NOT_FOUND",
    errno.EEXIST: "PATH_EXISTS",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED",
    errno.ENOTDIR: "NOT_A_DIRECTORY",
    errno.EISDIR: "IS_A_DIRECTORY",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRY_LATER = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EINTR)
#: Errors of sockets and never of files: sendfile raises both.
_OF_SOCKETS = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOTCONN, errno.EHOSTDOWN)


def is_of_socket(error: OSError) -> bool:
    return isinstance(error, ConnectionError) or error.errno in _OF_SOCKETS


def os_error_reply(error: OSError, verb: str, *, naming: bool = False) -> bytes:
    """The reply to an error of the operating system: a code of RFC 959 section 4.2, and the system's text."""
    number = error.errno or 0
    if number in _NO_ROOM:
        code = 552
    elif number in _TRY_LATER:
        code = 451
    else:
        code = 553 if naming and number != errno.ENOENT else 550
    lines = (
        f"GlobusError: v=1 c={_GLOBUS_NAMES.get(number, 'INTERNAL_ERROR')}",
        f"GridFTP-Errno: {number}",
        f"GridFTP-Reason: System error in {verb}",
        f"GridFTP-Error-String: {_words(error)}",
    )
    return "".join([*(f"{code}-{line}\r\n" for line in lines), f"{code} End.\r\n"]).encode()


def _words(error: OSError) -> str:
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error) or type(error).__name__)
