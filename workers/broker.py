"""What a worker takes from Redis: wake-ups of ours, built anew from the little that one says. All else is thrown away.

Whoever can write to Redis can put anything on the list. Kombu ends the worker over what is no message, and Celery obeys
much that a message may ask for: other tasks afterwards, other queues, a time years ahead, an answer to somebody.
"""

from __future__ import annotations

import base64
import json
import logging
import uuid
from datetime import datetime
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

log = logging.getLogger(__name__)

#: Celery's names of our tasks begin so.
OURS = "workers."
#: Those whose one argument is the id of a row; others take none.
OF_A_ROW = frozenset(("workers.run",))


class NoMessageError(Exception):
    """What is on the list is none of our wake-ups."""


class Channel(redis.Channel):
    """One that outlives what is no message. Kombu reads the envelope in `_brpop_read`, before `Transport._deliver`."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # kombu's types do not name it
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            refuse(error)
            return None


class Transport(redis.Transport):
    """Hands on what `wake_up` has built."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            message = wake_up(message)
        except (NoMessageError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            refuse(error)
            return
        super()._deliver(message, queue)


def install() -> None:
    """From now on this is what kombu means by redis:// and its like, in this process."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"


def refuse(error: Exception) -> None:
    """Without its text, which may hold what was sent."""
    log.warning("a message from Redis was thrown away: it is none of ours (%s)", type(error).__name__)


def wake_up(message: Any) -> dict[str, Any]:
    """The message that says the same and nothing else, in Celery's protocol 2.

    Raises NoMessageError, and ValueError, TypeError, LookupError, AttributeError or RecursionError for one whose parts
    are not what they should be.
    """
    headers, properties = message["headers"], message["properties"]
    if (message["content-type"], message["content-encoding"]) != ("application/json", "utf-8"):
        raise NoMessageError
    task, id_ = headers["task"], str(uuid.UUID(headers["id"]))
    arguments = json.loads(base64.b64decode(message["body"], validate=True))[0]
    if not task.startswith(OURS) or len(arguments) != (task in OF_A_ROW):
        raise NoMessageError
    arguments = [str(uuid.UUID(argument)) for argument in arguments]
    expires = datetime.fromisoformat(headers["expires"]).isoformat() if headers.get("expires") else None
    tag = str(uuid.UUID(properties["delivery_tag"]))
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return {
        "body": base64.b64encode(json.dumps([arguments, {}, embedded]).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {
            "lang": "py",
            "task": task,
            "id": id_,
            "root_id": id_,
            "expires": expires,
            "timelimit": [None, None],
            "retries": 0,
            "ignore_result": True,
            "argsrepr": repr(arguments),
            "kwargsrepr": "{}",
        },
        "properties": {
            "correlation_id": id_,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": tag,
        },
    }
