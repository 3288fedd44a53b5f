"""`python -m bench.pages.queries USER PATH...`: the SQL statements of each page, as JSON."""

from __future__ import annotations

import json
import sys

import django


def main(username: str, paths: list[str]) -> None:
    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from identity.models import User

    client = Client(headers={"Host": settings.ALLOWED_HOSTS[0], "Accept": "text/html"})
    found = {}
    for path in paths:
        if path not in ("/", "/signin"):
            client.force_login(User.objects.get(username=username))
        client.get(path)
        with CaptureQueriesContext(
            connection,
        ) as captured:
            client.get(path)
        found[path] = len(captured)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
