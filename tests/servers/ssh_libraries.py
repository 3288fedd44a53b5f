"""The libraries libssh and libssh2, as programs that use them: by ctypes, in a process of their own.

    python -m tests.servers.ssh_libraries libssh2 HOST PORT USER KEY_FILE exec 'help help'
    python -m tests.servers.ssh_libraries libssh HOST PORT USER KEY_FILE sftp

`exec` prints what the command prints, and ends with its exit status; `sftp` asks for the subsystem. Either ends with
status 3 and the words of the library where it fails. KEY_FILE.pub has the public key. Host keys are not compared.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import socket
import sys
from ctypes import byref, c_char_p, c_int, c_long, c_size_t, c_ssize_t, c_uint, c_void_p, create_string_buffer
from typing import NoReturn

FAILED = 3
#: The numbers of `enum ssh_options_e` of libssh.
_HOST, _PORT, _USER, _IDENTITY = 0, 2, 4, 6


def library(name: str) -> str | None:
    """The file of the library; None if it is not installed."""
    return ctypes.util.find_library({"libssh": "ssh", "libssh2": "ssh2"}[name])


def main() -> None:
    name, host, port, user, key, what, *command = sys.argv[1:]
    run = {"libssh": _libssh, "libssh2": _libssh2}[name]
    run(host, int(port), user.encode(), key.encode(), command[0].encode() if what == "exec" else None)


def _fail(words: str) -> NoReturn:
    sys.stderr.write(f"{words}\n")
    raise SystemExit(FAILED)


def _libssh(host: str, port: int, user: bytes, key: bytes, command: bytes | None) -> NoReturn:
    found = library("libssh")
    assert found is not None
    lib = ctypes.CDLL(found)
    for name in ("ssh_new", "ssh_channel_new", "sftp_new"):
        getattr(lib, name).restype = c_void_p
    lib.ssh_get_error.restype = c_char_p
    session = c_void_p(lib.ssh_new())

    def check(passed: bool) -> None:
        if not passed:
            _fail(lib.ssh_get_error(session).decode())

    for option, value in ((_HOST, host.encode()), (_PORT, str(port).encode()), (_USER, user), (_IDENTITY, key)):
        check(lib.ssh_options_set(session, c_int(option), c_char_p(value)) == 0)
    check(lib.ssh_connect(session) == 0)
    check(lib.ssh_userauth_publickey_auto(session, None, None) == 0)
    if command is None:
        sftp = c_void_p(lib.sftp_new(session))
        check(bool(sftp))
        check(lib.sftp_init(sftp) == 0)
        raise SystemExit(0)
    channel = c_void_p(lib.ssh_channel_new(session))
    check(lib.ssh_channel_open_session(channel) == 0)
    check(lib.ssh_channel_request_exec(channel, c_char_p(command)) == 0)
    buffer = create_string_buffer(4096)
    while (count := lib.ssh_channel_read(channel, buffer, c_uint(len(buffer)), c_int(0))) > 0:
        sys.stdout.buffer.write(buffer.raw[:count])
    sys.stdout.flush()
    raise SystemExit(lib.ssh_channel_get_exit_status(channel))


def _libssh2(host: str, port: int, user: bytes, key: bytes, command: bytes | None) -> NoReturn:
    found = library("libssh2")
    assert found is not None
    lib = ctypes.CDLL(found)
    for name in ("libssh2_session_init_ex", "libssh2_channel_open_ex", "libssh2_sftp_init"):
        getattr(lib, name).restype = c_void_p
    lib.libssh2_channel_read_ex.restype = c_ssize_t
    lib.libssh2_session_set_timeout.argtypes = (c_void_p, c_long)
    lib.libssh2_init(c_int(0))
    session = c_void_p(lib.libssh2_session_init_ex(None, None, None, None))

    def check(passed: bool) -> None:
        if not passed:
            words = c_char_p()
            lib.libssh2_session_last_error(session, byref(words), None, c_int(0))
            _fail((words.value or b"").decode())

    connection = socket.create_connection((host, port))
    check(lib.libssh2_session_handshake(session, c_int(connection.fileno())) == 0)
    names = (c_char_p(user), c_uint(len(user)), c_char_p(key + b".pub"), c_char_p(key), None)
    check(lib.libssh2_userauth_publickey_fromfile_ex(session, *names) == 0)
    if command is None:
        check(bool(lib.libssh2_sftp_init(session)))
        raise SystemExit(0)
    sizes = (c_uint(7), c_uint(1 << 21), c_uint(1 << 15))
    channel = c_void_p(lib.libssh2_channel_open_ex(session, c_char_p(b"session"), *sizes, None, c_uint(0)))
    check(bool(channel))
    request = (c_char_p(b"exec"), c_uint(4), c_char_p(command), c_uint(len(command)))
    check(lib.libssh2_channel_process_startup(channel, *request) == 0)
    buffer = create_string_buffer(4096)
    while (count := lib.libssh2_channel_read_ex(channel, c_int(0), buffer, c_size_t(len(buffer)))) > 0:
        sys.stdout.buffer.write(buffer.raw[:count])
    check(count == 0)
    lib.libssh2_channel_close(channel)
    sys.stdout.flush()
    raise SystemExit(lib.libssh2_channel_get_exit_status(channel))


if __name__ == "__main__":
    main()
