"""Faults of SFTP servers: the status of a reply (draft-ietf-secsh-filexfer-02 section 7), and lost connections."""

from __future__ import annotations

from dataclasses import replace

import asyncssh

from endpoints.gridftp.connection import session_fault
from endpoints.gridftp.faults import Fault, FaultScope, Kind, make_fault
from identity.gsi.printable import error_text

_KINDS: tuple[tuple[type[asyncssh.SFTPError], Kind], ...] = (
    (asyncssh.SFTPNoSuchFile, Kind.FILE_NOT_FOUND),
    (asyncssh.SFTPNoSuchPath, Kind.FILE_NOT_FOUND),
    (asyncssh.SFTPPermissionDenied, Kind.PERMISSION_DENIED),
    (asyncssh.SFTPWriteProtect, Kind.PERMISSION_DENIED),
    (asyncssh.SFTPOpUnsupported, Kind.UNSUPPORTED),
    (asyncssh.SFTPFileAlreadyExists, Kind.PATH_EXISTS),
    (asyncssh.SFTPNoSpaceOnFilesystem, Kind.NO_SPACE_LEFT),
    (asyncssh.SFTPQuotaExceeded, Kind.QUOTA_EXCEEDED),
    (asyncssh.SFTPDirNotEmpty, Kind.DIRECTORY_NOT_EMPTY),
    (asyncssh.SFTPNotADirectory, Kind.NOT_A_DIRECTORY),
    (asyncssh.SFTPFileIsADirectory, Kind.IS_A_DIRECTORY),
    (asyncssh.SFTPInvalidFilename, Kind.INVALID_PATH_NAME),
)
#: Errors after which the session cannot be used any more.
_LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.SFTPBadMessage)


def fault_of(error: Exception) -> Fault:
    """The fault of an error of asyncssh. A plain "Failure" of a server is UNKNOWN: its caller may know more."""
    if isinstance(error, asyncssh.SFTPError) and not isinstance(error, _LOST):
        kind = next((kind for status, kind in _KINDS if isinstance(error, status)), Kind.UNKNOWN)
        return make_fault(kind, f"SFTP: {error.reason or 'Failure'}", retryable=kind is not Kind.INVALID_PATH_NAME)
    if isinstance(error, TimeoutError):
        return session_fault(Kind.TIMEOUT, "the SFTP server was silent")
    if isinstance(error, asyncssh.ChannelOpenError):
        advice = "The server does not let this account use SFTP."
        refused = make_fault(Kind.ENDPOINT_ERROR, error_text(error))
        return replace(refused, scope=FaultScope.ENDPOINT, advice=advice)
    return session_fault(Kind.CONNECTION_BROKEN, error_text(error))
