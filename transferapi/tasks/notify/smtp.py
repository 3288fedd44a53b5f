"""Django's SMTP backend with a bound for the whole sending of one mail.

EMAIL_TIMEOUT is a bound for each wait of the socket. A server that answers a little each time holds the sender for any
time, and the claim of the mail ends before. A reply to the mail itself that is late is waited for to that bound
(RFC 5321 section 4.5.3.2.6): who gives up earlier sends a mail again that the server has accepted.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import threading
import time
from typing import Any

from django.core.mail.backends.smtp import EmailBackend

#: Seconds from the connection on, until it is cut. The claim of a mail is longer (`mail_sender.CLAIM`).
SENDING_SECONDS = 300.0


class _BoundedSmtp(smtplib.SMTP):
    _cut: threading.Timer | None = None
    _watched: socket.socket | None = None
    _ends_at = 0.0

    def connect(self, *words: Any, **named: Any) -> tuple[int, bytes]:
        try:
            return super().connect(*words, **named)
        except BaseException:
            # smtplib leaves a connection whose TLS handshake fails.
            self.close()
            raise

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connected: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]  # of smtplib
        self._ends_at = time.monotonic() + SENDING_SECONDS
        # A descriptor of its own: TLS takes that of the socket over.
        self._watched = connected.dup()
        self._cut = threading.Timer(SENDING_SECONDS, _shut_down, (self._watched,))
        self._cut.daemon = True
        self._cut.start()
        return connected

    def data(self, msg: bytes | str) -> tuple[int, bytes]:  # type: ignore[override]  # typeshed has ReadableBuffer
        """The mail itself: its reply may take longer than that to a command."""
        if self.sock is not None:
            self.sock.settimeout(max(1.0, self._ends_at - time.monotonic()))
        return super().data(msg)

    def close(self) -> None:
        super().close()
        if self._cut is not None and self._watched is not None:
            self._cut.cancel()
            self._watched.close()


class _BoundedSmtpSsl(smtplib.SMTP_SSL, _BoundedSmtp):
    """SMTP_SSL connects by the method of the class behind it, and then has TLS on that socket."""


class BoundedEmailBackend(EmailBackend):
    """A connection to the server of WAYBILL_MAIL that ends within SENDING_SECONDS."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return _BoundedSmtpSsl if self.use_ssl else _BoundedSmtp


def _shut_down(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
