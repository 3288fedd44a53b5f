"""`waybill saml`: the metadata of institutions (docs/sign-in.md)."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, open_database, say

if TYPE_CHECKING:
    from identity.federation.saml_directory import Kept


#: Of an institution that has the domain of this service.
EFFECT = "Names of its people end in another domain of it, or in its host; set WAYBILL_DOMAIN to another name."


def declare(commands: Commands) -> None:
    """Add the commands to the parser."""
    saml = commands.group("saml", "institutions by which people sign in")
    saml.add("refresh", run_refresh, "read the metadata now, as workers do every hour, and say what has changed")


def run_refresh(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 where the metadata of a source were refused: what was read of it before stays, until its end."""
    open_database()
    from django.conf import settings

    from endpoints.addresses import provider_sites
    from identity import user_names
    from identity.federation import saml_directory, saml_sources
    from identity.federation.saml_directory import Kept

    before = saml_directory.kept()
    if not settings.SAML_METADATA and not before:
        raise StackError("no metadata are named: set WAYBILL_SAML_METADATA")
    reach = partial(provider_sites.reach, timeout=saml_sources.SECONDS, max_answer=saml_directory.MAX_METADATA)
    done = saml_sources.refresh_all(reach)
    after, nothing = saml_directory.kept(), Kept({}, 0)
    # The table has at most so many characters of a source.
    for source, outcome in done.items():
        old, new = before.pop(source[:1024], nothing), after.get(source[:1024], nothing)
        refused = f"not taken over. {outcome} " if isinstance(outcome, str) else ""
        say(f"{source}: {refused}{_difference(old, new)}")
    for source, old in before.items():
        say(f"{source}: no longer named. {_difference(old, nothing)}")
    if names := saml_directory.with_our_domain():
        ours = f"the metadata have the domain of this service, {user_names.domain()}"
        say(f"warning: {', '.join(names)}: {ours}. {EFFECT}")
    return 1 if any(isinstance(outcome, str) for outcome in done.values()) else 0


def _difference(old: Kept, new: Kept) -> str:
    """Counts of institutions; those that have expired sign nobody in."""
    here, there = new.institutions, old.institutions
    changed = sum(here[one] != there[one] for one in here.keys() & there.keys())
    added, removed = len(here.keys() - there.keys()), len(there.keys() - here.keys())
    counts = f"{added} added, {removed} removed, {changed} with other keys or addresses, {new.expired} expired"
    return f"{len(here)} institutions: {counts}"
