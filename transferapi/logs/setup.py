"""The configuration of logging, the same for all programs of the service: lines on the standard error."""

from __future__ import annotations

from logging import LogRecord
from typing import Any

#: The values of WAYBILL_LOG_FORMAT.
FORMATS = {"text": "transferapi.logs.formats.TextFormat", "json": "transferapi.logs.formats.JsonFormat"}


def log_format(text: str) -> str:
    """Parse WAYBILL_LOG_FORMAT. Raises ValueError."""
    if text not in FORMATS:
        raise ValueError("text or json")
    return text


def configuration(level: str, form: str) -> dict[str, Any]:
    """The configuration for `logging.config.dictConfig`. level: of WAYBILL_LOG_LEVEL; form: of WAYBILL_LOG_FORMAT."""
    propagated = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": FORMATS[form]}},
        "filters": {
            "short": {"()": "django.utils.log.CallbackFilter", "callback": _without_traceback},
            "outages": {"()": "transferapi.outages.log_filter.OutageFilter"},
            "repeats": {"()": "transferapi.logs.formats.BoundRepeats"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["short", "outages", "repeats"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {**propagated, "level": level},
            # Its warnings name paths, which may hold the secret of a link; the access line has the route.
            "django.request": {**propagated, "level": "ERROR"},
            # At DEBUG they show codes and tokens.
            "oauthlib": {**propagated, "level": "WARNING"},
            "oauth2_provider": {**propagated, "level": "WARNING"},
            # At INFO they write each message that wakes a worker.
            "celery.app.trace": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
        },
    }


def _without_traceback(record: LogRecord) -> bool:
    """Log only one line about wrong requests (a host name, a form that is too long)."""
    if record.name.startswith("django.security."):
        record.exc_info = record.exc_text = None
    return True
