"""Revocation lists of authorities (RFC 5280 section 5), which OpenSSL would demand of every authority or of none.

As in the toolkit: an authority without a list revokes nobody; where it has lists, one must be genuine, complete and
current. The lists are the files `HASH.rN` beside the authority's `HASH.N`, as `fetch-crl` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from . import der
from .authority_folder import AuthorityFolder, Kept
from .certificates import Certificate, CertificateError, fields, name_text, pem_blocks
from .proxy_chain import time_of, verify_signature

_LIST = re.compile(r"[0-9a-f]{8}\.r\d+")
_TIMES, _CRITICAL = (0x17, 0x18), 0x01


class RevocationList(NamedTuple):
    """A list of an authority. complete: it is of all certificates: no delta, and of no part of them."""

    octets: bytes
    issuer: str
    begins: datetime
    ends: datetime | None
    serials: frozenset[bytes]
    complete: bool

    def is_signed_by(self, authority: Certificate) -> bool:
        try:
            verify_signature(self.octets, authority)
        except ValueError:
            return False
        return True

    def is_usable(self, authorities: Sequence[Certificate]) -> bool:
        return self.complete and any(self.is_signed_by(one) for one in authorities)

    def is_current(self, now: datetime) -> bool:
        return self.begins <= now and (self.ends is None or now <= self.ends)


class RevocationLists:
    """The lists of a folder of authorities. Used by threads of sessions."""

    def __init__(self, folder: AuthorityFolder) -> None:
        self._folder = folder
        self._lists: dict[str, Kept[RevocationList]] = {}

    def check(self, chain: Sequence[Certificate]) -> None:
        """Check that no certificate of a verified chain, leaf first, is revoked. Proxies are on no list.

        Raises CertificateError where one was revoked, or where its authority has lists, and none that can be used.
        """
        try:
            names = self._folder.names()
            for certificate in chain if any(map(_LIST.fullmatch, names)) else ():
                if not (certificate.is_proxy or certificate.signs_itself):
                    self._check(certificate, names)
        except OSError as error:
            raise CertificateError("the revocation lists cannot be read") from error

    def _check(self, certificate: Certificate, names: Sequence[str]) -> None:
        authorities, hashes = self._folder.issuers(certificate, names)
        lists = self._lists_of(certificate.issuer, hashes, names)
        if not lists:
            return
        usable = [one for one in lists if one and one.is_usable(authorities)]
        if any(fields(certificate.octets)[0].content in one.serials for one in usable):
            raise CertificateError(f"the certificate of {certificate.subject} has been revoked by its authority")
        if not any(one.is_current(datetime.now(timezone.utc)) for one in usable):
            raise CertificateError(f"the revocation list of {certificate.issuer} is out of date or unusable")

    def _lists_of(self, issuer: str, hashes: set[str], names: Sequence[str]) -> list[RevocationList | None]:
        """The lists of an authority. None: a file that cannot be read, which may be a list of it."""
        files = [name for name in names if _LIST.fullmatch(name) and name[:8] in hashes]
        lists = [self._folder.read(self._lists, name, _read_list) for name in files]
        return [one for one in lists if one is None or one.issuer == issuer]


def _read_list(content: bytes) -> RevocationList:
    """From PEM or DER. Raises ValueError, IndexError."""
    octets = pem_blocks(content, b"X509 CRL")[0] if content.lstrip().startswith(b"-----") else content
    body = der.one(der.one(octets).content)
    parts = list(der.values(body.content))
    if parts[0].tag == der.INTEGER:  # the version
        del parts[0]
    _, issuer, begins, *rest = parts
    ends = time_of(rest.pop(0)) if rest and rest[0].tag in _TIMES else None
    revoked = rest.pop(0).content if rest and rest[0].tag == der.SEQUENCE else b""
    serials = frozenset(der.one(one.content).content for one in der.values(revoked))
    return RevocationList(octets, name_text(issuer.content), time_of(begins), ends, serials, not _is_partial(rest))


def _is_partial(rest: Sequence[der.Value]) -> bool:
    """Whether it has a critical extension, as a delta has, and a list for some certificates only."""
    extensions = der.values(der.one(rest[0].content).content) if rest else ()
    return any(list(der.values(one.content))[1].tag == _CRITICAL for one in extensions)
