"""Filters the messages that a worker takes from Redis: each is rebuilt from its few expected parts, or discarded.

Anyone who can write to Redis can add any message. Kombu ends the worker over a malformed one, and Celery obeys many
requests that a message can contain: other tasks afterwards, other queues, a time years ahead, a reply to somebody.
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

#: The prefix of the names of this project's Celery tasks.
OURS = "workers."
#: Tasks whose one argument is the id of a row; others take none.
OF_A_ROW = frozenset(("workers.run",))


class NoMessageError(Exception):
    """The message is not one of this project's."""


class _Tolerant:
    """For a channel: it survives malformed messages. Kombu reads the envelope in `_brpop_read`, before `_deliver`."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # a channel of kombu has it
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            refuse(error)
            return None


class _Filtering:
    """For a transport: it delivers the messages that `rebuild` returns."""

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            message = rebuild(message)
        except (NoMessageError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            refuse(error)
            return
        super()._deliver(message, queue)  # type: ignore[misc]  # a transport of kombu has it


class RedisChannel(_Tolerant, redis.Channel):
    """With one Redis server."""


class RedisTransport(_Filtering, redis.Transport):
    """With one Redis server."""

    Channel = RedisChannel


class SentinelChannel(_Tolerant, redis.SentinelChannel):
    """With the Redis server that Sentinels name."""


class SentinelTransport(_Filtering, redis.SentinelTransport):
    """With the Redis server that Sentinels name."""

    Channel = SentinelChannel


def install() -> None:
    """Make kombu use these transports for redis://, rediss:// and sentinel://, in this process."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:RedisTransport"
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"


def refuse(error: Exception) -> None:
    """Log the discarded message without the text of the error, which may contain parts of it."""
    log.warning("a message from Redis was discarded: it is not one of this service (%s)", type(error).__name__)


def rebuild(message: Any) -> dict[str, Any]:
    """The message with the same meaning and nothing else, in Celery's protocol 2.

    Raises NoMessageError for a foreign message, and ValueError, TypeError, LookupError, AttributeError or
    RecursionError for a malformed one.
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
