"""An application for the web server that holds each of its threads for a while."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

#: Gunicorn loads the routes before it forks.
waybill = get_wsgi_application()


def busy(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    time.sleep(20)
    start_response("200 OK", [])
    return [b""]
