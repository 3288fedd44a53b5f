"""The folder of trusted authorities: what is expired, out of date, missing or unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cryptography import x509

from identity.gsi.authority_files import AuthorityFiles
from identity.gsi.certificate_path import is_current, is_usable
from identity.gsi.distinguished_names import canonical, slash_name
from identity.gsi.errors import NoAuthoritiesError
from identity.gsi.trust import TrustFolder
from transferapi.config import Config

from .findings import Finding, error, good, warning
from .keys import ending

#: Findings that are named one by one; the rest is a number.
MOST = 20
#: A list that ends within this time is fetched too seldom.
SOON = timedelta(hours=12)
_FETCH = "Run `fetch-crl` (Debian package fetch-crl), and let it run every six hours."


def check(config: Config) -> Iterator[Finding]:
    try:
        store = TrustFolder(config.certificates).store
    except NoAuthoritiesError:
        yield warning(
            f"The folder {config.certificates} of trusted authorities cannot be read, so no GSI server is trusted.",
            "Install the authorities of your grid, or name their folder by WAYBILL_CERTIFICATES. Without GSI servers "
            "it is not needed.",
        )
        return
    found = [*_unreadable(store), *_expired(store), *_lists(store), *_without_policy(store)]
    yield from found[:MOST]
    if len(found) > MOST:
        yield warning(f"There are {len(found) - MOST} more findings about authorities.", "Mend these first.")
    if not found:
        yield good(f"{len(store.all_authorities())} trusted authorities")


def _unreadable(store: AuthorityFiles) -> Iterator[Finding]:
    for problem in store.problems:
        yield error(problem, "Install the files of this authority anew.")


def _expired(store: AuthorityFiles) -> Iterator[Finding]:
    for one in store.all_authorities():
        found = ending(f"The authority {_name(one)}", one, "Update the folder of authorities.")
        if found.severity:
            yield found


def _lists(store: AuthorityFiles) -> Iterator[Finding]:
    """The certificates of an authority whose lists are all out of date are refused."""
    now = datetime.now(UTC)
    for one in store.all_authorities():
        lists = [each for each in store.revocation_lists(canonical(one.subject)) if is_usable(each, one)]
        if not lists:
            continue
        if not any(is_current(each, now) for each in lists):
            yield error(f"The revocation list of {_name(one)} is out of date: its certificates are refused.", _FETCH)
        elif not any(is_current(each, now + SOON) for each in lists):
            yield warning(f"The revocation list of {_name(one)} ends within {SOON.seconds // 3600} hours.", _FETCH)


def _without_policy(store: AuthorityFiles) -> Iterator[Finding]:
    for one in store.all_authorities():
        if store.patterns(one) is None:
            yield warning(
                f"The authority {_name(one)} has no signing policy: the certificates that it signs are refused.",
                "Install its file HASH.signing_policy.",
            )


def _name(one: x509.Certificate) -> str:
    return slash_name(one.subject)
