"""`waybill endpoint`: endpoints of all users, for the operator: list, show, delete."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from itertools import islice
from typing import Any

from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, open_database, say, say_facts

#: Rows of a listing that are read at once.
PAGE = 500


def declare(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    endpoints = commands.group("endpoint", "endpoints of all users")
    listing = endpoints.add("list", run_list, "show endpoints, with their unfinished tasks")
    listing.add_argument("--owner", metavar="USER", help="only those of this user")
    listing.add_argument("--server", metavar="HOST", help="only those with a server on this host")
    show = endpoints.add("show", run_show, "show one endpoint")
    delete = endpoints.add("delete", run_delete, "delete an endpoint and its shares; their tasks end with a fault")
    for one in (show, delete):
        one.add_argument("endpoint", metavar="ENDPOINT", help="an id, or OWNER#NAME")


def run_list(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from endpoints import registry
    from identity.models import User
    from transferapi.tasks import endpoint_failures

    found = registry.existing().prefetch_related(*registry.SERVERS).order_by("owner__username", "name")
    if arguments.owner is not None:
        if not User.objects.filter(username=arguments.owner).exists():
            raise StackError(f"there is no user {arguments.owner}")
        found = found.filter(owner__username=arguments.owner)
    if arguments.server is not None:
        found = found.filter(servers__hostname__iexact=arguments.server).distinct()
    count, rows = 0, found.iterator(PAGE)
    while page := list(islice(rows, PAGE)):
        count += len(page)
        tasks, failing = _tasks(page), endpoint_failures.of(page)
        for endpoint in page:
            words = [str(endpoint.pk), registry.canonical_name(endpoint), _kind(endpoint), tasks[endpoint.pk]]
            words += [f"FAILS {_failure(failing[endpoint.pk])}"] if endpoint.pk in failing else []
            say("  ".join(words))
    say(f"{count} endpoints")


def run_show(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from endpoints import registry
    from transferapi.tasks import endpoint_failures

    endpoint = _found(arguments.endpoint)
    failure = endpoint_failures.of([endpoint]).get(endpoint.pk)
    facts = {
        "endpoint": endpoint.pk,
        "name": registry.canonical_name(endpoint),
        "display name": endpoint.display_name,
        "contact": " ".join(filter(None, (endpoint.contact_email, endpoint.contact_info))),
        "kind": _kind(endpoint),
        "seen by": "all users" if endpoint.public else "its owner, and those with a role or a rule",
        "servers": ", ".join(registry.server_uri(one) for one in endpoint.servers.all()),
        "data hosts": ", ".join(endpoint.data_hosts),
        "shares": registry.existing().filter(host=endpoint.pk).count() or None,
        "created": f"{endpoint.created_at:%Y-%m-%d %H:%M:%SZ}",
        "fails": _failure(failure) if failure else None,
        "tasks": _tasks([endpoint])[endpoint.pk],
    }
    say_facts(facts)


def run_delete(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from endpoints import registry

    endpoint = _found(arguments.endpoint)
    deleted = registry.delete_existing(endpoint)
    say(f"{endpoint.pk}  {registry.canonical_name(endpoint)}  deleted, with {deleted.shares} shares")


def _found(ref: str) -> Any:
    from endpoints import registry
    from endpoints.errors import EndpointNotFoundError

    try:
        return registry.find(ref)
    except EndpointNotFoundError:
        raise StackError(f"there is no endpoint {ref}: give its id, or OWNER#NAME") from None


def _failure(failure: Any) -> str:
    since, last = (f"{moment:%Y-%m-%d %H:%M:%SZ}" for moment in (failure.since, failure.seen_at))
    return f"since {since}: {failure.code}, last tried {last}"


def _kind(endpoint: Any) -> str:
    from endpoints.registry import canonical_name, server_uri

    if endpoint.host is not None:
        return f"a share of {endpoint.host_path} on {canonical_name(endpoint.host)}"
    if endpoint.personal:
        return "a computer with an agent"
    servers = list(endpoint.servers.all())
    return f"{len(servers)} servers, the first {server_uri(servers[0])}" if servers else "no servers"


def _tasks(endpoints: Sequence[Any]) -> dict[uuid.UUID, str]:
    """The unfinished tasks of each endpoint by phase, in words."""
    from transferapi.tasks.managers import endpoint_health

    words: dict[uuid.UUID, list[str]] = {endpoint.pk: [] for endpoint in endpoints}
    for (place, phase), number in sorted(endpoint_health.unfinished(list(words)).items()):
        words[place].append(f"{number} {phase}")
    return {place: ", ".join(found) or "no unfinished tasks" for place, found in words.items()}
