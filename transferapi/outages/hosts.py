"""The hosts of a DATABASE_URL that names several: which one is tried first, and which one accepts writes.

libpq tries one host after the other, and gives at least 2 s to one that answers nothing; the look-up of its name has no
limit at all. So, to find the primary, all hosts are asked side by side.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg2
import psycopg2.extensions

#: Parameters of libpq.
Parameters = Mapping[str, Any]
#: Seconds until a host that refuses is asked again: a standby may become the primary while another host is waited for.
AGAIN = 0.3


def of(parameters: Parameters) -> list[Parameters]:
    """The parameters for each host alone."""
    hosts, ports = _lists(parameters)
    if len(hosts) < 2:
        return [parameters]
    return [
        {**parameters, "host": host, **({"port": ports[number]} if len(ports) == len(hosts) else {})}
        for number, host in enumerate(hosts)
    ]


def beginning_with(parameters: Parameters, first: int) -> Parameters:
    """The same hosts, with this one first."""
    hosts, ports = _lists(parameters)
    if len(hosts) < 2:
        return parameters
    first %= len(hosts)
    found = {**parameters, "host": ",".join(hosts[first:] + hosts[:first])}
    if len(ports) == len(hosts):
        found["port"] = ",".join(ports[first:] + ports[:first])
    return found


def number_of(parameters: Parameters, connection: psycopg2.extensions.connection) -> int:
    """The number of the host that this connection has reached."""
    reached = str(connection.info.host), str(connection.info.port)
    for number, one in enumerate(of(parameters)):
        if (str(one.get("host")), str(one.get("port") or "5432")) == reached:
            return number
    return 0


def find_writable(each: Sequence[Parameters], seconds: float) -> int:
    """The number of the first host that answers as these parameters demand it.

    While a host answers nothing, those that refuse are asked again, for so many seconds. Where all refuse, raises
    psycopg2.Error. Call it within a limit.
    """
    if len(each) == 1:
        ask(each[0])
        return 0
    until = time.monotonic() + seconds
    results: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()
    unanswered = set(range(len(each)))

    def look(number: int) -> None:
        while True:
            try:
                ask(each[number])
            except Exception as error:
                unanswered.discard(number)
                if not unanswered or time.monotonic() > until:
                    return results.put(error)
                time.sleep(AGAIN)
            else:
                results.put(number)
                return unanswered.clear()

    for number in range(len(each)):
        threading.Thread(target=look, args=(number,), name="host of the database", daemon=True).start()
    found = results.get()
    if isinstance(found, int):
        return found
    raise found


def ask(parameters: Parameters) -> None:
    """Raises psycopg2.Error."""
    with contextlib.closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _lists(parameters: Parameters) -> tuple[list[str], list[str]]:
    hosts, ports = (str(parameters.get(name) or "").split(",") for name in ("host", "port"))
    return hosts, ports
