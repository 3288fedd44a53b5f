"""The command that finds or starts a GridFTP server in an account's shell, and the lines by which it reports.

It is one line for any shell (sh, csh, fish): `exec /bin/sh -c '...'`, without single quotes, backslashes or "!" inside.
Each line that it writes begins with a mark, which is new for each session: what a shell prints at its start is skipped.

Standard input begins with a message of SFTP that the script throws away: where the account may use SFTP only
(`ForceCommand internal-sftp`), no script runs, and the SFTP server answers it. So nobody waits for a time limit.
"""

from __future__ import annotations

import base64
import functools
import re
import zlib
from pathlib import Path

from . import bootstrap
from .packed_server import MODULE, ServerBlob

#: SSH_FXP_INIT, version 3 (draft-ietf-secsh-filexfer-02, section 4), and how an answer to it begins (SSH_FXP_VERSION).
SFTP_INIT = b"\0\0\0\5\1\0\0\0\3"
_SFTP_VERSION = re.compile(rb"\x00\x00[\x00-\x7f].\x02", re.DOTALL)
#: Interpreters that are asked for their version, in this order. The last one is that of RHEL 8 and its like.
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 7, -1)), "/usr/libexec/platform-python")
#: The oldest version that runs our server.
OLDEST = (3, 8)

#: The address at which the ssh server was reached, where both servers listen (sshd(8), SSH_CONNECTION).
_ADDRESS = "set -- $SSH_CONNECTION; a=${3:--}; "
_TOOLKIT = (
    "for t in .globus/sshftp /etc/grid-security/sshftp; do "
    "[ -f $t ] && [ -x $t ] && echo {mark} toolkit $a $t && exec $t; done; "
)
_VERSION = (
    "import sys; v = sys.version_info[:3]; print((v >= {oldest} and chr(43) or chr(45)) + chr(46).join(map(str, v)))"
)
_PYTHON = (
    "for p in {pythons}; do command -v $p >/dev/null 2>&1 || continue; "
    'v=$($p -E -s -S -c "{version}" 2>/dev/null </dev/null | tail -n 1); '
    'case $v in +[0-9]*) echo {mark} python $a $p $v; exec $p -E -s -S -u -c "{start}" {words};; esac; '
    'f="$f $p=$v"; done; echo {mark} nothing $f'
)
#: The bootstrap is compressed, because the command line of an account may be limited to 128 KB, and to letters.
#: The current folder goes out of the path first: a module of the account could stand there.
_START = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    "import base64, zlib; exec(zlib.decompress(base64.b64decode(sys.argv[1])))"
)


def command(mark: str, program: ServerBlob, arguments: tuple[str, ...]) -> str:
    """The command for the account's shell. arguments: of our server, letters, digits, ".", ":", "/" and "-" only."""
    if not all(re.fullmatch(r"[A-Za-z0-9.:/_-]*", word) for word in (mark, program.digest, *arguments)):
        raise ValueError("an argument that a shell could misread")
    words = " ".join((_bootstrap(), mark, program.digest, str(len(program.blob)), MODULE, *arguments))
    script = (
        "dd bs=1 count=9 >/dev/null 2>&1; "
        + _ADDRESS
        + _TOOLKIT.format(mark=mark)
        + _PYTHON.format(
            mark=mark,
            pythons=" ".join(PYTHONS),
            version=_VERSION.format(oldest=OLDEST),
            start=_START,
            words=words,
        )
    )
    assert "'" not in script
    return f"exec /bin/sh -c '{script}'"


@functools.cache
def _bootstrap() -> str:
    """The source of `bootstrap` with a call of `start`, in base64."""
    source = Path(bootstrap.__file__).read_text("utf-8")
    call = "sys.exit(start(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6:]))\n"
    return base64.b64encode(zlib.compress(f"{source}\n\n{call}".encode(), 9)).decode()


#: Removes what `bootstrap` keeps, and nothing else: {mark} gone, or {mark} stays.
_CLEAN = (
    "dd bs=1 count=9 >/dev/null 2>&1; c=$XDG_CACHE_HOME; case $c in /*) ;; *) c=$HOME/.cache;; esac; "
    'rm -f "$c"/waybill/server-*.zlib* && {{ [ -d "$c/waybill" ] && rmdir "$c/waybill" 2>/dev/null; '
    '[ -d "$c/waybill" ] && echo {mark} stays || echo {mark} gone; }}'
)


def cleaning(mark: str) -> str:
    """The command that removes our program from the account's cache folder."""
    return f"exec /bin/sh -c '{_CLEAN.format(mark=mark)}'"


def is_sftp(head: bytes) -> bool:
    """Whether the first octets are those of an SFTP server that answers `SFTP_INIT`."""
    return _SFTP_VERSION.match(head) is not None
