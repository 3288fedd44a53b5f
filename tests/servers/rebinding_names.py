"""A name server whose answers change: between the check of a name and the connection, or from one use to the next."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from endpoints.addresses import gate


class RebindingNames:
    """A name server that gives a name another address with each question, as `answers` says; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self.asked = 0
        self._answers = answers
        defaults = gate.resolve_target.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "resolver", self._resolve)
        # A second question, of the client that connects, would come here.
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: str, port: int, *_: object, **__: object) -> list[Any]:
        if host != "rebind.example.org":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        self.asked += 1
        address = self._answers[min(self.asked, len(self._answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
