"""AUTH and ADAT (RFC 2228): the client's certificate, and the protection of the control channel from then on."""

from __future__ import annotations

import base64
import binascii

from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.security.certificates import CertificateError
from endpoints.gridftp.server.security.control_security import ControlSecurity
from endpoints.gridftp.server.security.gss import GssAcceptor, TlsEnd
from endpoints.gridftp.server.session import ServerSession
from endpoints.gridftp.server.wires import GssWire, TlsWire

from .table import command


@command("AUTH", before_login=True)
def authenticate(session: ServerSession, argument: bytes) -> None:
    """`GSSAPI`, as the toolkit does it, or `TLS` (RFC 4217)."""
    security = _security(session)
    mechanism = argument.strip().upper()
    session.acceptor, session.identity, session.logged_in = None, "", False
    try:
        if mechanism in (b"GSSAPI", b"GSI"):
            session.acceptor = GssAcceptor(security.context(), security.delegation, security.check)
            session.reply(334, "Using authentication type; ADAT must follow.")
        elif mechanism in (b"TLS", b"TLS-C", b"SSL"):
            end = TlsEnd(security.context(), security.check)
            session.next_wire = TlsWire(session.limits.line, end, session.send_raw, session.authenticated)
            session.reply(234, "Using authentication type TLS.")
        else:
            raise CommandRefusedError(504, "AUTH must be GSSAPI or TLS.")
    except CertificateError as error:
        raise CommandRefusedError(431, f"The server's certificate cannot be used: {error}.") from None


@command("ADAT", before_login=True)
def authentication_data(session: ServerSession, argument: bytes) -> None:
    """One token of the dialogue, in base64."""
    acceptor = session.acceptor
    if acceptor is None:
        raise CommandRefusedError(503, "ADAT must follow AUTH GSSAPI.")
    try:
        answer = acceptor.take(base64.b64decode(argument, validate=True))
    except (CertificateError, binascii.Error) as error:
        session.acceptor = None
        raise CommandRefusedError(535, f"Authentication failed: {error}.") from None
    if not acceptor.done:
        session.reply(335, f"ADAT={binascii.b2a_base64(answer, newline=False).decode('ascii')}")
        return
    session.acceptor = None
    session.next_wire = GssWire(session.limits.line, acceptor.end)
    session.authenticated(acceptor.identity)
    # As GSI servers do: the user's own proxy on data connections, unless the client says otherwise.
    session.channel.protection.own = acceptor.delegated
    session.channel.protection.authenticates = True
    session.reply(235, "GSSAPI Authentication successful.")


def _security(session: ServerSession) -> ControlSecurity:
    if session.service.security is None or session.vouched:
        raise CommandRefusedError(502, "AUTH: this server has no certificate.")
    if session.protected:
        raise CommandRefusedError(503, "This session is protected already.")
    return session.service.security
