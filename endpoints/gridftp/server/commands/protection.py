"""Commands that protect data connections: DCAU, DCSC, PBSZ, PROT (GFD.20 section 3, GFD.47; RFC 2228 section 3).

A change closes the data connections that are kept for the next file: they lack the new protection.
"""

from __future__ import annotations

import base64
import binascii

from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.security.certificates import CertificateError
from endpoints.gridftp.server.security.contexts import CertificateWithKey
from endpoints.gridftp.server.security.data_protection import DataProtectionSettings
from endpoints.gridftp.server.session import ServerSession

from .table import command

_MAX_BUFFER = 2**32


@command("DCAU", feature="DCAU")
def data_channel_authentication(session: ServerSession, argument: bytes) -> None:
    """`N` for none, `A` for our own identity on both sides, `S subject` for that one on the other side."""
    mode, _, subject = argument.partition(b" ")
    mode = mode.upper()
    if mode not in (b"N", b"A", b"S") or (mode == b"S") != bool(subject.strip()):
        raise CommandRefusedError(504, "DCAU must be N, A or S with a subject.")
    protection = _changed(session)
    protection.authenticates = mode != b"N"
    protection.subject = subject.strip().decode("utf-8", "replace")
    session.reply(200, f"DCAU {mode.decode()}.")


@command("DCSC", feature="DCSC P,D")
def data_channel_security_context(session: ServerSession, argument: bytes) -> None:
    """`P` and a credential in base64: PEM of certificate, key and chain. `D`: the default credential."""
    kind, _, blob = argument.strip().partition(b" ")
    if kind.upper() == b"D" and not blob:
        _changed(session).given = None
    elif kind.upper() == b"P" and blob:
        _changed(session).given = _credential(blob, session.channel.protection.trust)
    else:
        raise CommandRefusedError(501, "DCSC must be P with a credential, or D.")
    session.reply(200, "DCSC Command successful.")


@command("PBSZ")
def protection_buffer_size(session: ServerSession, argument: bytes) -> None:
    text = argument.strip()
    if not text.isdigit() or len(text) > 10 or int(text) > _MAX_BUFFER:
        raise CommandRefusedError(501, f"Expected a number from 0 to {_MAX_BUFFER}.")
    session.reply(200, f"PBSZ={int(text)}")


@command("PROT")
def protection_level(session: ServerSession, argument: bytes) -> None:
    """`C` in clear, `P` encrypted. `S`, signed but not encrypted, is nothing that TLS has."""
    level = argument.upper()
    if level not in (b"C", b"P"):
        raise CommandRefusedError(536, "PROT must be C or P.")
    _changed(session).encrypts = level == b"P"
    session.reply(200, f"Protection level set to {level.decode()}.")


def _changed(session: ServerSession) -> DataProtectionSettings:
    if session.channel.reused:
        session.channel.close()
    return session.channel.protection


def _credential(blob: bytes, trust: str) -> CertificateWithKey:
    """The credential that the client gave, after a trial on both sides. Its octets are in no reply."""
    try:
        credential = CertificateWithKey.parse(base64.b64decode(blob, validate=True))
        trial = DataProtectionSettings(given=credential, trust=trust)
        for server_side in (False, True):
            trial.context(server_side=server_side)
    except (CertificateError, binascii.Error) as error:
        text = str(error) if isinstance(error, CertificateError) else "not base64"
        raise CommandRefusedError(500, f"DCSC: the credential cannot be used: {text}.") from None
    return credential
