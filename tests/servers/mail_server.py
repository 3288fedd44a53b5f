"""A small SMTP server for tests (RFC 5321): takes mails, or refuses, or hangs, as a test wants."""

from __future__ import annotations

import contextlib
import socket
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import BinaryIO, cast


class MailServer:
    """mode: "take", "refuse" (the recipient), "busy" (at once), "hang" (never says a word), "drip" (a reply with no
    end), "late" (takes a mail, and says so when `late` is set). Listens on 127.0.0.1.
    """

    def __init__(self, mode: str = "take", *, offers: tuple[str, ...] = ("8BITMIME",)) -> None:
        self.mode = mode
        self.late = threading.Event()
        self.offers = offers
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody listens any more, and what hangs is let go."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._thread.join(60)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            if self.mode != "hang":
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        # The end of the block sends what the stream still holds, to a client that may be gone.
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rwb") as stream:
            self._converse(cast(BinaryIO, stream))

    def _converse(self, stream: BinaryIO) -> None:
        while self.mode == "drip" and not self.late.wait(0.02):
            stream.write(b"2")
            stream.flush()
        say(stream, "421 too busy" if self.mode == "busy" else "220 test")
        recipients: list[str] = []
        while line := stream.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                words = ["test", *self.offers]
                for number, word in enumerate(words, 1):
                    say(stream, f"250{'-' if number < len(words) else ' '}{word}")
            elif verb == b"RCPT":
                recipients.append(line.decode().strip())
                say(stream, "550 nobody here" if self.mode == "refuse" else "250 fine")
            elif verb == b"DATA":
                say(stream, "354 go on")
                self.recipients.append(recipients)
                self.mails.append(read(stream))
                recipients = []
                if self.mode == "late":
                    self.late.wait(60)
                say(stream, "250 taken")
            elif verb == b"QUIT":
                say(stream, "221 bye")
                return
            else:
                say(stream, "250 fine")


def say(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode() + b"\r\n")
    stream.flush()


def read(stream: BinaryIO) -> EmailMessage:
    """A mail up to the line with nothing but a dot."""
    octets = b""
    while (line := stream.readline()) not in (b".\r\n", b""):
        octets += line[1:] if line.startswith(b".") else line
    message = message_from_bytes(octets, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message
