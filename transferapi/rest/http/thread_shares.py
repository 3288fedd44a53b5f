"""The share of one client in the threads of a process of the web server: the others always find some free.

Where a server in front reports the addresses of clients, one client has at most three quarters of the threads, and all
clients of its network together all but one. A burst of short requests, as of a page, waits for its turn. Where requests
of the client are under way for longer, further ones are refused at once: each that waited would hold a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from endpoints.error_meanings import TooManyRequests
from identity.networks import network_of
from transferapi.rest.metrics.shared_counts import COUNTS
from transferapi.rest.middleware import Middleware

from .errors import answer
from .trusted_proxies import address_of

#: Seconds that a request waits for its turn, and the age of a request from which on no other one waits for it.
WAIT_SECONDS = 1.0
#: Seconds after which a refused client tries again.
RETRY_AFTER = 1
_REFUSAL = "Too many requests of yours, or of your network, are under way at the same time; try again"


class Shares:
    """Counts the requests under way. Any thread may call any method."""

    def __init__(self, threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_of_client = max(1, threads * 3 // 4)
        self._most_of_network = max(1, threads - 1)
        self._clock = clock
        #: When the requests under way began, the oldest first: by network and credential, and by network.
        self._begun: dict[Hashable, list[float]] = {}
        self._changed = threading.Condition()

    def take(self, network: str, credential: int) -> float | None:
        """Wait for room. Returns the time at which the request begins, for `leave`. None if there is no room.

        credential: a hash of those that were shown, not verified.
        """
        limits = {(network, credential): self._most_of_client, network: self._most_of_network}
        until = self._clock() + WAIT_SECONDS
        with self._changed:
            while full := [key for key, most in limits.items() if len(self._begun.get(key, ())) >= most]:
                now = self._clock()
                if now >= until or any(now - self._begun[key][0] > WAIT_SECONDS for key in full):
                    return None
                self._changed.wait(until - now)
            begins = self._clock()
            for key in limits:
                self._begun.setdefault(key, []).append(begins)
            return begins

    def leave(self, network: str, credential: int, begun: float) -> None:
        """begun: as `take` has returned it."""
        with self._changed:
            for key in ((network, credential), network):
                self._begun[key].remove(begun)
                if not self._begun[key]:
                    del self._begun[key]
            self._changed.notify_all()


class ThreadShares(Middleware):
    """Middleware, after `TrustedProxies`. One that answers what watches the program must stand before it."""

    shares = Shares(settings.CONFIG.web_threads)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Without a server in front the address is that of this machine, or of a laboratory: no client is known.
        if address_of(request) == request.META.get("REMOTE_ADDR", ""):
            return self._get_response(request)
        client = network_of(address_of(request)), _credential(request)
        begun = self.shares.take(*client)
        if begun is None:
            status, headers, document = answer(TooManyRequests(_REFUSAL, RETRY_AFTER), request)
            COUNTS.refused(str(status))
            return JsonResponse(document, status=status, headers=headers)
        try:
            return self._get_response(request)
        finally:
            self.shares.leave(*client, begun)


def _credential(request: HttpRequest) -> int:
    """One kind counts: a token with another cookie beside it is the same client. Nothing is verified."""
    meta = request.META
    shown = meta.get("HTTP_AUTHORIZATION") or meta.get("HTTP_X_SSL_CLIENT_S_DN") or meta.get("HTTP_COOKIE")
    return hash(shown) if shown else 0
