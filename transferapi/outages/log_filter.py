"""Leaves out of the log what an outage causes: the outage itself has a line for its begin and one for its end."""

from __future__ import annotations

import logging

import psycopg2
import redis
from django.conf import settings

from . import database, redis_link
from .outage import is_watching

_OF_POSTGRESQL = (psycopg2.OperationalError, psycopg2.InterfaceError)
_OF_REDIS = (redis.ConnectionError, redis.TimeoutError)
#: Celery has its own connection to Redis, and writes a line when it is lost, and one for each try.
_CONSUMER = "celery.worker.consumer.consumer"
_ABOUT_REDIS = ("consumer: Connection to broker lost", "consumer: Cannot connect to")
#: Django writes a line for each answer with status 503. It has no traceback where the API made the answer and wrote the
#: error itself, or where nothing failed (/readyz, maintenance). Everywhere else it is the only line with the cause.
_OF_ANSWERS = "django.request"


def is_told(error: BaseException | None) -> bool:
    """Whether this error, or one that caused it, says that a server is away, and the log has said so already."""
    if not is_watching():
        return False
    for _ in range(5):
        if isinstance(error, _OF_POSTGRESQL):
            return database.is_outage(error)
        if isinstance(error, _OF_REDIS):
            return True
        if error is None:
            return False
        error = error.__cause__ or error.__context__
    return False


class OutageFilter(logging.Filter):
    """For the handler of all lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == _CONSUMER and record.getMessage().startswith(_ABOUT_REDIS):
            return not redis_link.outage_of(settings.REDIS_URL).met(redis.ConnectionError())
        if record.name == _OF_ANSWERS and getattr(record, "status_code", 0) == 503 and not record.exc_info:
            return not is_watching()
        return not is_told(record.exc_info[1] if record.exc_info else None)
