"""Commands of a control channel (RFC 959 section 5.3): the only module that makes lines for the wire."""

from __future__ import annotations

import re

from identity.gsi.printable import shown

#: Octets that end or corrupt a line, or that servers refuse in a name: C0 controls and DEL (docs/architecture.md,
#: truth 9).
CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_VERB = re.compile(r"[A-Z]{3,8}\Z")
#: Commands that name a path.
WITH_PATH = frozenset(
    (
        *("RETR", "STOR", "APPE", "ERET", "ESTO", "LIST", "NLST", "MLSD", "MLST", "MLSC", "MLSR", "STAT", "CWD"),
        *("SIZE", "MDTM", "MFMT", "CKSM", "MKD", "RMD", "DELE", "RNFR", "RNTO", "AVBL", "SITE"),
    )
)
#: The renaming of our own server, with the octets of the first path.
_TWO_PATHS = re.compile(rb"WAYBILL REPLACE (\d{1,5}) ")
#: Exactly six numbers.
_SIX = re.compile(rb"(?<![\d,])" + rb",".join([rb"(\d{1,3})"] * 6) + rb"(?![\d,])")
#: The toolkit's server reads lines of any length, others up to 4 KiB; a Linux path has at most 4096 octets.
MAX_ARGUMENT = 8192
#: Octets of two paths that fit into one line of `replacement`.
MOST_REPLACE = MAX_ARGUMENT - len(b"WAYBILL REPLACE 9999  ")


class CommandError(ValueError):
    """An `argument` that must not be sent, or a reply (`argument`) without the address that it should have."""

    def __init__(self, reason: str, argument: bytes) -> None:
        super().__init__(f"{reason}: {shown(argument)}")


def encode(verb: str, argument: bytes = b"") -> bytes:
    """One command line, ended by CR LF. Raises CommandError when the argument holds a control character."""
    if verb not in WITH_PATH and not _VERB.match(verb):
        raise CommandError("not a verb", verb.encode())
    if len(argument) > MAX_ARGUMENT:
        raise CommandError("an argument too long", argument)
    if CONTROL.search(argument):
        raise CommandError("a control character in an argument", argument)
    return b"%b %b\r\n" % (verb.encode(), argument) if argument else verb.encode() + b"\r\n"


def named_paths(line: bytes) -> tuple[bytes, ...]:
    """The paths in a command line, as far as they can be found: an argument from its first slash on, or a link's text.

    None for commands without a path.
    """
    verb, _, argument = line.rstrip(b"\r\n").partition(b" ")
    if verb == b"SITE" and argument.startswith(b"SYMLINK"):
        return (argument.partition(b" ")[2],)
    if found := _TWO_PATHS.match(argument):
        length = int(found[1])
        return argument[found.end() :][:length], argument[found.end() + length + 1 :]
    start = argument.find(b"/") if verb.decode("latin-1") in WITH_PATH else -1
    return (argument[start:],) if start >= 0 else ()


def parse_host_port(text: bytes) -> tuple[str, int]:
    """The address in a 227 reply or a line of a 229 one: "h1,h2,h3,h4,p1,p2" (RFC 959, PORT).

    Raises CommandError when there is none, or a number above 255.
    """
    found = _SIX.findall(text)
    numbers = [int(n) for n in found[0]] if len(found) == 1 else []
    if not numbers or max(numbers) > 255:
        raise CommandError("no data address in a reply, or several", text)
    return ".".join(str(n) for n in numbers[:4]), numbers[4] * 256 + numbers[5]


def parse_extended_port(text: bytes) -> int:
    """The port in a 229 reply to EPSV: "(|||port|)" (RFC 2428 section 3). Raises CommandError."""
    found = re.search(rb"\(([\x21-\x7e])\1\1(\d{1,5})\1\)", text)
    if not found or not 0 < int(found[2]) < 65536:
        raise CommandError("no data port in a reply", text)
    return int(found[2])


def format_host_port(host: str, port: int) -> bytes:
    """The argument of PORT for an IPv4 address (RFC 959)."""
    return b",".join([*host.encode().split(b"."), str(port // 256).encode(), str(port % 256).encode()])


def format_extended(host: str, port: int) -> bytes:
    """The argument of EPRT (RFC 2428 section 2)."""
    return f"|{2 if ':' in host else 1}|{host}|{port}|".encode()


def replacement(written: bytes, name: bytes) -> bytes | None:
    """The argument of SITE that gives a file its name at a server of ours; None: the paths are too long for one line.

    A file that is replaced keeps its mode, owner, ACL and attributes.
    """
    if len(written) + len(name) > MOST_REPLACE:
        return None
    return b"WAYBILL REPLACE %d %b %b" % (len(written), written, name)
