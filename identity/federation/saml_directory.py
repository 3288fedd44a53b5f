"""The directory of institutions: reads metadata of federations, and finds institutions in the table.

Metadata are read as a whole by a job of the workers (`refresh`); web servers read rows only, so their memory does not
grow with the federation. Metadata that are wrong, unsigned or expired change nothing: what was read before stays, until
its own end.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from lxml import etree

from identity import user_names
from identity.http.web_address import WebAddressError, parse_url
from identity.models import Institution

from .errors import ProofRefusedError, ProviderUnknownError
from .saml_documents import DS, MD, parse, signed, text_of

#: Octets of the metadata of one source, and institutions in them.
MAX_METADATA, MOST = 64 * 1024 * 1024, 50_000
MAX_FOUND, MAX_KEYS, MAX_SCOPES, MAX_TEXT = 50, 10, 100, 2000
_DOMAIN = re.compile(r"[a-z0-9.-]{1,253}")
_REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
_SHIBMD, _MDUI = "{urn:mace:shibboleth:metadata:1.0}", "{urn:oasis:names:tc:SAML:metadata:ui}"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def refresh(source: str, data: bytes, certificates: Sequence[str], *, must_be_signed: bool) -> int:
    """Take over the metadata of a source; institutions that it has no more are deleted. Returns their number.

    certificates: of the keys that may have signed the metadata (DER, base64). Raises FederationError.
    """
    rows = list(read(source, data, certificates, must_be_signed=must_be_signed))
    if not rows:
        raise ProofRefusedError("The metadata have no institution that can be used.")
    with transaction.atomic():
        others = Institution.objects.exclude(source=source).filter(digest__in=[row.digest for row in rows])
        foreign = {bytes(one) for one in others.values_list("digest", flat=True)}
        # The first source that names an institution keeps it: a second one cannot replace its keys.
        rows = [row for row in rows if row.digest not in foreign]
        Institution.objects.bulk_create(
            rows, batch_size=500, update_conflicts=True, unique_fields=["digest"],
            update_fields=["name", "search_text", "sign_in_url", "certificates", "scopes", "valid_until", "read_at"],
        )  # fmt: skip
        kept = [row.digest for row in rows]
        Institution.objects.filter(source=source).exclude(digest__in=kept).delete()
    return len(rows)


def read(source: str, data: bytes, certificates: Sequence[str], *, must_be_signed: bool) -> Iterator[Institution]:
    """The institutions of metadata that are signed, where they must be, and have not expired.

    Raises FederationError.
    """
    if len(data) > MAX_METADATA:
        raise ProofRefusedError("The metadata are too long.")
    root = parse(data, comments=True)
    if certificates or must_be_signed:
        found = signed(root, certificates)
        if found is None:
            raise ProofRefusedError("The metadata are not signed.")
        root = found
    now = timezone.now()
    if root.tag not in (f"{MD}EntitiesDescriptor", f"{MD}EntityDescriptor"):
        raise ProofRefusedError("These are no SAML metadata.")
    end = _time(root.get("validUntil"))
    if end is not None and end <= now:
        raise ProofRefusedError("The metadata have expired.")
    seen: set[str] = set()
    for entity in root.iter(f"{MD}EntityDescriptor"):
        row = _institution(source, entity, end, now)
        if row is not None and row.entity_id not in seen and len(seen) < MOST:
            seen.add(row.entity_id)
            yield row


def search(text: str) -> list[Institution]:
    """Institutions whose names, key words or domains have all words of the text, by name, at most `MAX_FOUND`."""
    found = _valid()
    for word in text.replace("\0", "").lower().split()[:10]:
        found = found.filter(search_text__contains=word)
    return list(found.order_by("name", "id")[:MAX_FOUND])


def by_ids(ids: Iterable[int]) -> list[Institution]:
    """Institutions that a browser remembers, in this order."""
    rows = {row.pk: row for row in _valid().filter(pk__in=list(ids)[:MAX_FOUND])}
    return [rows[one] for one in dict.fromkeys(ids) if one in rows]


def get(pk: int) -> Institution:
    """Raises ProviderUnknownError."""
    row = _valid().filter(pk=pk).first()
    if row is None:
        raise ProviderUnknownError(pk)
    return row


def by_entity_id(entity_id: str) -> Institution:
    """Raises ProofRefusedError for one that is in no metadata, or whose metadata have expired."""
    row = _valid().filter(digest=_digest(entity_id)).first()
    if row is None:
        raise ProofRefusedError("The answer is of an institution that is in no metadata of this service.")
    return row


def scopes_of(row: Institution) -> list[str]:
    """The domains of the names that it may give: never that of this service, in which users choose their names."""
    return [one for one in row.scopes if one != user_names.domain()]


def domains_among(texts: Iterable[str]) -> set[str]:
    """Return which of the texts are domains of an institution, in lower case."""
    wanted = {text.lower() for text in texts if _DOMAIN.fullmatch(text.lower())} - {user_names.domain()}
    if not wanted:
        return set()
    has_one = functools.reduce(operator.or_, (Q(scopes__contains=[one]) for one in sorted(wanted)))
    rows = _valid().filter(has_one).values_list("scopes", flat=True)[:MAX_FOUND]
    return wanted.intersection(one for scopes in rows for one in scopes)


def with_our_domain() -> list[str]:
    """Names of institutions whose metadata have the domain of this service (`scopes_of`), at most `MAX_FOUND`."""
    rows = _valid().filter(scopes__contains=[user_names.domain()]).order_by("name", "id")
    return list(rows.values_list("name", flat=True)[:MAX_FOUND])


def forget_others(sources: Sequence[str]) -> None:
    """Delete the institutions of sources that the operator has removed."""
    Institution.objects.exclude(source__in=_cut(sources)).delete()


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of a source in the table. institutions: digests of entity ids, each with address and keys."""

    institutions: Mapping[bytes, tuple[str, tuple[str, ...]]]
    expired: int


def kept() -> dict[str, Kept]:
    """By source, also institutions whose metadata have expired."""
    columns = ("source", "digest", "sign_in_url", "certificates", "valid_until")
    now, found, expired = (
        timezone.now(),
        defaultdict[str, dict[bytes, tuple[str, tuple[str, ...]]]](dict),
        Counter[str](),
    )
    for source, digest, url, certificates, end in Institution.objects.values_list(*columns).iterator():
        found[source][bytes(digest)] = (url, tuple(certificates))
        expired[source] += end is not None and end <= now
    return {source: Kept(rows, expired[source]) for source, rows in found.items()}


def is_offered() -> bool:
    """Whether there is an institution by which users may sign in."""
    return _valid().exists()


def _valid() -> QuerySet[Institution]:
    """Of the sources that the operator names now: rows of others stay in the table until the next reading."""
    rows = Institution.objects.filter(source__in=_cut(settings.SAML_METADATA))
    return rows.filter(Q(valid_until=None) | Q(valid_until__gt=timezone.now()))


def _cut(sources: Sequence[str]) -> list[str]:
    """The names of sources as the column holds them."""
    return [one[:1024] for one in sources]


def _institution(source: str, entity: etree._Element, end: datetime | None, now: datetime) -> Institution | None:
    """The row of an identity provider; None for anything else, or where it cannot be used or has expired."""
    role, entity_id = entity.find(f"{MD}IDPSSODescriptor"), entity.get("entityID", "")
    if role is None or not 0 < len(entity_id) <= 1024 or not entity_id.isprintable():
        return None
    ends = [one for one in (end, _time(entity.get("validUntil")), _time(role.get("validUntil"))) if one is not None]
    url, certificates = _sign_in_url(role), _certificates(role)
    if not _is_address(url) or not certificates or (ends and min(ends) <= now):
        return None
    names, scopes = _names(entity, role), _scopes(entity, role)
    name = (names[0] if names else entity_id)[:256]
    search_text = " ".join([*names, *scopes, entity_id]).lower()[:MAX_TEXT]
    return Institution(
        entity_id=entity_id, digest=_digest(entity_id), source=source[:1024], name=name, search_text=search_text,
        sign_in_url=url, certificates=certificates, scopes=scopes, valid_until=min(ends, default=None), read_at=now,
    )  # fmt: skip


def _sign_in_url(role: etree._Element) -> str:
    services = role.findall(f"{MD}SingleSignOnService")
    return next((one.get("Location", "") for one in services if one.get("Binding") == _REDIRECT), "")


def _certificates(role: etree._Element) -> list[str]:
    keys = [one for one in role.findall(f"{MD}KeyDescriptor") if one.get("use", "signing") == "signing"]
    found = (re.sub(r"\s+", "", text_of(one)) for key in keys for one in key.iter(f"{DS}X509Certificate"))
    return list(dict.fromkeys(one for one in found if one))[:MAX_KEYS]


def _names(entity: etree._Element, role: etree._Element) -> list[str]:
    """Names for people, in English first."""
    shown = [*role.iter(f"{_MDUI}DisplayName"), *entity.findall(f"{MD}Organization/{MD}OrganizationDisplayName")]
    shown.sort(key=lambda one: one.get(_LANG) != "en")
    words = [*shown, *role.iter(f"{_MDUI}Keywords")]
    found = (" ".join(text_of(one).split()) for one in words)
    return list(dict.fromkeys(one for one in found if one and one.isprintable()))


def _scopes(entity: etree._Element, role: etree._Element) -> list[str]:
    """Domains (shibmd:Scope); regular expressions are left out."""
    found = [one for part in (entity, role) for one in part.findall(f"{MD}Extensions/{_SHIBMD}Scope")]
    texts = (text_of(one).lower() for one in found if one.get("regexp", "false") in ("false", "0"))
    return list(dict.fromkeys(one for one in texts if _DOMAIN.fullmatch(one)))[:MAX_SCOPES]


def _is_address(text: str) -> bool:
    try:
        parse_url(text.partition("?")[0], keep_slash=True)
    except WebAddressError:
        return False
    return len(text) <= 1024 and text.isprintable() and text.isascii() and "#" not in text


def _time(text: str | None) -> datetime | None:
    """Raises ProofRefusedError for a time that is none: it would be one without an end."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ProofRefusedError("The metadata have a time that is none.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _digest(entity_id: str) -> bytes:
    return hashlib.sha256(entity_id.encode()).digest()
