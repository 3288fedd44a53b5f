"""Mail: the connection, TLS and sign-in of the mail server, as the workers make them; a mail only if asked."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator

from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend

from transferapi.config import Config

from .findings import Finding, error, good, warning

#: Seconds for the connection, and for each reply.
SECONDS = 5


def check(config: Config, to: str = "") -> Iterator[Finding]:
    """to: send a mail there; "": none is sent."""
    backend = get_connection()
    if not isinstance(backend, EmailBackend):
        yield warning(
            "WAYBILL_MAIL names no mail server, so no mail reaches a user.",
            "Set it to smtp://user:password@host:587, preferably by WAYBILL_MAIL_FILE.",
        )
        return
    backend.timeout = SECONDS
    where = f"The mail server {backend.host} port {backend.port}"
    if config.mail_from.endswith("@localhost"):
        yield warning(f"Mails are sent from {config.mail_from}.", "Set WAYBILL_MAIL_FROM to an address that exists.")
    try:
        backend.open()
        if to:
            backend.send_messages([_message(to)])
    except smtplib.SMTPAuthenticationError as failure:
        yield error(f"{where} refuses the sign-in (code {failure.smtp_code}).", "Correct the user or password.")
    except smtplib.SMTPNotSupportedError:
        yield error(
            f"{where} offers no STARTTLS, or no sign-in.", "Use smtps://, or smtp://...?starttls=no for a local relay."
        )
    except smtplib.SMTPResponseException as failure:
        yield error(f"{where} answered with the code {failure.smtp_code}.", "See its log.")
    except smtplib.SMTPRecipientsRefused:
        yield error(f"{where} refuses the recipient.", "Give another one, or let it relay for this service.")
    except ssl.SSLError as failure:
        yield error(
            f"{where}: TLS fails ({failure.reason or type(failure).__name__}).", "Check its certificate and name."
        )
    except (OSError, smtplib.SMTPException) as failure:
        yield error(f"{where} does not answer ({type(failure).__name__}).", "Check WAYBILL_MAIL and the firewall.")
    else:
        yield good(f"{where} accepts {'a mail' if to else 'the connection'}")
    finally:
        backend.close()


def _message(to: str) -> EmailMessage:
    return EmailMessage("Waybill: a test", "This mail was sent by `waybill doctor --mail`.", to=[to])
