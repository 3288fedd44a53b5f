"""The log of the web server itself, in the format of all programs."""

from __future__ import annotations

import logging.config
from typing import Any

from gunicorn.glogging import Logger  # type: ignore[import-untyped]

from transferapi.config import load_or_exit
from transferapi.logs.setup import configuration


class WebLogger(Logger):  # type: ignore[misc]
    """Gunicorn's messages go to the handler of the root. Its access log stays off: `AccessLog` writes these lines."""

    def setup(self, cfg: Any) -> None:
        config = load_or_exit()
        logging.config.dictConfig(configuration(config.log_level, config.log_format))
        self.error_log.handlers = []
        self.error_log.propagate = True
        self.error_log.setLevel(logging.INFO)
