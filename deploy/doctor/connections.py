"""The connections that PostgreSQL allows, and whether a pooler is between."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError, InterfaceError, connection

from transferapi.config import Config
from transferapi.outages import pooler
from transferapi.outages.database import reason_of
from transferapi.tasks.upkeep import database_connections

from .findings import Finding, error, good, warning

#: The part of the allowed connections in use from which there is a finding.
MANY = 0.8
_DO = "Raise max_connections, or run fewer processes: docs/operate/sizing.md, Connections."


def check(config: Config) -> Iterator[Finding]:
    try:
        with connection.wrap_database_errors:
            pooler.check(lambda: connection.get_new_connection(connection.get_connection_params()))
        found = database_connections.read()
    except pooler.PoolerError as failure:
        yield error(f"{failure}.", "No role of the service starts so.")
        return
    except (DatabaseError, InterfaceError) as failure:
        refusal = pooler.refusal_of(failure)
        yield error(f"{refusal or reason_of(failure)}.", _DO)
        return
    use = found.use
    text = f"PostgreSQL allows {use.allowed} connections, {use.used} are in use, and {found.needed} may be needed"
    if shortage := found.shortage():
        yield warning(f"{shortage}.", _DO)
    elif use.free < config.database_reserve:
        yield warning(f"{text}: workers open no more of them, which are left to the web server.", _DO)
    elif use.used > MANY * use.allowed:
        yield warning(f"{text}.", _DO)
    else:
        yield good(text)
