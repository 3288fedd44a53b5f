"""Commands that set a session up and touch neither files nor data (RFC 959 section 4.1, RFC 2389, GFD.20, GFD.47)."""

from __future__ import annotations

from collections.abc import Iterable

from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.roots.root import normalize
from endpoints.gridftp.server.session import ServerSession

from .table import COMMANDS, FEATURES, OPTIONS, SITE, WAYBILL, Handler, command, options, site

_MAX_INTERVAL = 24 * 3600
_MAX_BUFFER = 64 * 1024 * 1024


# ---- login


@command("USER", before_login=True)
def user(session: ServerSession, argument: bytes) -> None:
    session.user, session.logged_in = argument, False
    session.reply(331, "Password required.")


@command("PASS", before_login=True)
def password(session: ServerSession, _: bytes) -> None:
    """Log the user in, whatever the password is.

    A user is anonymous, or has a certificate, or the program has let it in.
    """
    account = _account(session)
    if not account:
        raise CommandRefusedError(530, f"Login incorrect: {session.identity or 'this server knows anonymous only'}.")
    session.user = account.encode()
    session.logged_in = True
    session.reply(230, f"User {account} logged in.")


def _account(session: ServerSession) -> str:
    """The name by which the user is logged in; "" if it is refused. Raises CommandRefusedError."""
    user_name, security = session.user.decode("utf-8", "replace"), session.service.security
    if session.vouched:
        return user_name or "anonymous"
    if security is None:
        return user_name if session.user in (b"anonymous", b"ftp") else ""
    if not session.identity:
        raise CommandRefusedError(530, "This server wants a certificate: AUTH GSSAPI or TLS.")
    account = security.account(session.identity)
    return account if user_name in (":globus-mapping:", account) else ""


@command("QUIT", before_login=True)
def quit_(session: ServerSession, _: bytes) -> None:
    session.quitting = True
    session.reply(221, "Goodbye.")


@command("NOOP", before_login=True)
def noop(session: ServerSession, _: bytes) -> None:
    session.reply(200, "NOOP ok.")


@command("ABOR")
def abort(session: ServerSession, _: bytes) -> None:
    """Answer ABOR (RFC 959 section 4.1.3). A running transfer has ended already, when this line arrived."""
    session.interrupt.clear()
    session.reply(226, "Abort successful.")


# ---- information about the server


@command("SYST", before_login=True)
def system(session: ServerSession, _: bytes) -> None:
    session.reply(215, "UNIX Type: L8")


@command("FEAT", before_login=True)
def features(session: ServerSession, _: bytes) -> None:
    """List the extensions of this server (RFC 2389).

    UTF8 as in RFC 2640 and beyond: all octets but controls pass unchanged in both directions.
    """
    names = (feature if isinstance(feature, str) else feature(session) for feature in FEATURES)
    lines = "".join(f" {name}\r\n" for name in sorted(names))
    session.say(f"211-Extensions supported:\r\n{lines}211 End.\r\n".encode())


@command("HELP", before_login=True)
def help_(session: ServerSession, _: bytes) -> None:
    _list_words(session, COMMANDS)


@command("SITE")
def site_(session: ServerSession, argument: bytes) -> None:
    word, _, rest = argument.partition(b" ")
    _lookup(SITE, word, "SITE")(session, rest)


@site("WAYBILL")
def waybill_(session: ServerSession, argument: bytes) -> None:
    """Do one of our own extensions; 502 if this server does not have it."""
    word, _, rest = argument.partition(b" ")
    handler = WAYBILL.get(word.upper())
    if handler is None:
        raise CommandRefusedError(502, "SITE WAYBILL: not understood.")
    handler(session, rest)


@site("HELP")
def site_help(session: ServerSession, _: bytes) -> None:
    _list_words(session, SITE)


@site("CLIENTINFO")
def client_info(session: ServerSession, _: bytes) -> None:
    session.reply(250, "OK.")


@site("WHOAMI")
@command("WHOAMI", feature="WHOAMI")
def who_am_i(session: ServerSession, _: bytes) -> None:
    session.reply(200, session.user.decode("utf-8", "replace"))


def _list_words(session: ServerSession, table: Iterable[bytes]) -> None:
    words = "".join(f" {word.decode()}\r\n" for word in sorted(table))
    session.say(f"214-The following commands are recognized:\r\n{words}214 End.\r\n".encode())


def _lookup(table: dict[bytes, Handler], word: bytes, verb: str) -> Handler:
    try:
        return table[word.upper()]
    except KeyError:
        raise CommandRefusedError(501, f"{verb}: not understood.") from None


# ---- representation and mode (RFC 959 section 3)


@command("TYPE")
def type_(session: ServerSession, argument: bytes) -> None:
    """Accept types A and I alike: both move octets unchanged, with the line ends of the disk."""
    if argument.upper()[:1] not in (b"I", b"A", b"L"):
        raise CommandRefusedError(504, "TYPE must be I or A.")
    session.reply(200, f"Type set to {argument.upper()[:1].decode()}.")


@command("MODE")
def mode(session: ServerSession, argument: bytes) -> None:
    wanted = argument.upper()
    if wanted not in (b"S", b"E"):
        raise CommandRefusedError(504, "MODE must be S or E.")
    if session.blocks != (wanted == b"E"):
        session.blocks = wanted == b"E"
        if session.channel.reused:
            session.channel.close()
    session.reply(200, f"Mode set to {wanted.decode()}.")


@command("STRU")
def structure(session: ServerSession, argument: bytes) -> None:
    if argument.upper() != b"F":
        raise CommandRefusedError(504, "STRU must be F.")
    session.reply(200, "STRU F ok.")


@command("ALLO")
def allocate(session: ServerSession, _: bytes) -> None:
    session.reply(200, "ALLO command successful.")


@site("STORBUFSIZE")
@site("RETRBUFSIZE")
@site("BUFSIZE")
@command("SBUF")
def buffer_size(session: ServerSession, argument: bytes) -> None:
    """GFD.20: octets of the TCP buffers of later data connections."""
    session.channel.buffer_size = _number(argument, _MAX_BUFFER)
    session.reply(200, "SBUF Command Successful.")


@command("REST", feature="REST STREAM")
def restart(session: ServerSession, argument: bytes) -> None:
    """Ranges that the receiver has already, for the next transfer (GFD.20); a single number is the offset of RFC 3659.

    After a refused REST the next transfer is refused too: both sides must leave out the same octets.
    """
    session.restart = None
    try:
        text = argument.strip()
        session.restart = RangeSet.parse(text if b"-" in text else b"0-" + text)
    except RangeError as error:
        raise CommandRefusedError(501, f"REST: {error}.") from error
    session.reply(350, "Restart Marker OK. Send STOR or RETR to initiate transfer.")


@command("TREV")
def trigger_events(session: ServerSession, argument: bytes) -> None:
    """`TREV RESTART 1`: seconds between two markers of this kind; 0 for none."""
    word, _, seconds = argument.partition(b" ")
    interval = _number(seconds, _MAX_INTERVAL)
    if word.upper() == b"RESTART":
        session.intervals.restart = interval
    elif word.upper() == b"PERF":
        session.intervals.perf = interval
    else:
        raise CommandRefusedError(501, "TREV must be RESTART or PERF.")
    session.intervals.asked = True
    session.reply(200, "Command Successful.")


# ---- OPTS (RFC 2389)


@command("OPTS")
def options_(session: ServerSession, argument: bytes) -> None:
    word, _, rest = argument.partition(b" ")
    _lookup(OPTIONS, word, "OPTS")(session, rest)


@options("RETR", feature="PARALLEL")
def retrieve_options(session: ServerSession, argument: bytes) -> None:
    """`Parallelism=4,4,4;`: streams of a MODE E sender. Other options are ignored."""
    for name, value in _pairs(argument):
        if name == b"parallelism":
            session.parallelism = max(1, min(_number(value.split(b",")[0], 2**31), session.limits.streams))
    session.reply(200, "OPTS Command Successful.")


@options("PORT")
def port_options(session: ServerSession, argument: bytes) -> None:
    """`Ahead=1;`, an extension of ours: the connection for a PORT in MODE S is begun when the command arrives.

    A client that sends PORT and STOR for many files in one go saves the opening of each connection.
    """
    for name, value in _pairs(argument):
        if name == b"ahead":
            session.connects_ahead = _number(value, 1) == 1
    session.reply(200, "OPTS Command Successful.")


@options("CKSM")
def checksum_options(session: ServerSession, argument: bytes) -> None:
    """`Markers=5;`: seconds between two replies 113 while a checksum is computed; 0 for none."""
    for name, value in _pairs(argument):
        if name == b"markers":
            session.checksum_interval = _number(value, _MAX_INTERVAL)
    session.reply(200, "OPTS Command Successful.")


@options("MLST")
@options("MLSD")
@options("MLSC")
def facts_options(session: ServerSession, argument: bytes) -> None:
    """RFC 3659 section 7.9: exactly these facts, of those that we know; an empty list selects none."""
    wanted = {name.strip().lower() for name in argument.decode("latin-1").split(";")}
    session.facts = frozenset(fact for fact in session.service.facts if fact.lower() in wanted)
    chosen = "".join(f"{fact};" for fact in FACTS if fact in session.facts)
    session.reply(200, f"MLST OPTS {chosen}".rstrip())


@options("UTF8", feature="UTF8")
def utf8_options(session: ServerSession, _: bytes) -> None:
    session.reply(200, "UTF8 is always on.")


def _pairs(argument: bytes) -> list[tuple[bytes, bytes]]:
    """`Name=value;Name=value;`, names in lower case."""
    pairs = [pair.partition(b"=") for pair in argument.split(b";") if pair.strip()]
    if not pairs or not all(separator for _, separator, _ in pairs):
        raise CommandRefusedError(501, "OPTS: expected name=value pairs, each with a semicolon.")
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _number(text: bytes, most: int) -> int:
    text = text.strip()
    if not text.isdigit() or len(text) > 20 or int(text) > most:
        raise CommandRefusedError(501, f"Expected a number from 0 to {most}.")
    return int(text)


# ---- the current folder


@command("PWD")
def print_folder(session: ServerSession, _: bytes) -> None:
    folder = session.current.replace(b'"', b'""').decode("utf-8", "surrogateescape")
    session.reply(257, f'"{folder}" is current directory.')


@command("CWD")
def change_folder(session: ServerSession, argument: bytes) -> None:
    wanted = session.path(argument)
    session.service.root.require_folder(wanted)
    session.current = wanted
    session.reply(250, "CWD command successful.")


@command("CDUP")
def change_to_parent(session: ServerSession, _: bytes) -> None:
    session.current = normalize(b"..", session.current)
    session.reply(250, "CDUP command successful.")
