"""The socket of a web server that is started again: it listens before the application is loaded.

Loading takes about a second of processor time. Connections of that second wait in the socket's queue, and are served,
where they would be refused. Without the database the server would let them wait for as long as it waits itself
(`transferapi.schema_version`), so then it listens as late as gunicorn does, and a front server answers meanwhile.
The same where another web server answers (WAYBILL_WEB_PEER): it gets the requests that are refused here.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import psycopg2

from transferapi.config import Config

#: Connections that may wait; as gunicorn's default.
BACKLOG = 2048
#: Seconds for the answer of the database. libpq takes 2 at least.
DATABASE_SECONDS = 2
#: Seconds for the answer of the other web server.
PEER_SECONDS = 0.5


def gunicorn_words(config: Config) -> list[str]:
    """Return gunicorn's arguments that name the socket; none where gunicorn shall listen by itself.

    The descriptor of the socket is inherited by `exec`.
    """
    # systemd's own sockets (sd_listen_fds(3)) are there already: gunicorn takes them.
    if "LISTEN_FDS" in os.environ or not _is_needed(config):
        return []
    try:
        descriptor = _listen(config.web_host, config.port)
    except OSError:
        return []  # gunicorn tries again, and writes why
    return ["--bind", f"fd://{descriptor}"]


def _is_needed(config: Config) -> bool:
    """Whether no other web server answers, and the database does. Both are asked at the same time."""
    with ThreadPoolExecutor(1) as pool:
        peer = pool.submit(_peer_answers, config.web_peer)
        return _database_answers(config) and not peer.result()


def _database_answers(config: Config) -> bool:
    assert config.database_url is not None
    try:
        with contextlib.closing(psycopg2.connect(config.database_url.value, connect_timeout=DATABASE_SECONDS)):
            return True
    except psycopg2.Error:
        return False


def _peer_answers(peer: str) -> bool:
    """Whether it has loaded: it answers. One that only listens is being started, as this one is."""
    if not peer:
        return False
    asked = http.client.HTTPConnection(peer, timeout=PEER_SECONDS)
    try:
        asked.request("GET", "/healthz")
        return asked.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()


def _listen(host: str, port: int) -> int:
    """Return the descriptor. Options are gunicorn's own: an address of IPv6 also takes connections of IPv4."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(BACKLOG)
        server.set_inheritable(True)
        return server.detach()
