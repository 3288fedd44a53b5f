"""Host keys that servers have shown in place of the registered ones."""

from __future__ import annotations

import uuid

from django.db import connection

from endpoints.models import Server


def note_host_key(endpoint_id: uuid.UUID, hostname: str, port: int, shown: str) -> None:
    """Record the key that a server has shown in place of the registered one. For threads without a request."""
    try:
        Server.objects.filter(endpoint=endpoint_id, hostname=hostname, port=port).update(shown_host_key=shown)
    finally:
        connection.close()
