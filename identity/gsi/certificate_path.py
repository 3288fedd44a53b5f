"""Whether a chain of certificates leads to an authority that we trust (RFC 5280 section 6, RFC 3820 section 4).

The certificates of users and of GridFTP servers are judged here: `verify`.

`names_allowed` checks the names that an authority permits below it (RFC 5280 section 4.2.1.10).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtensionOID, NameOID

from .distinguished_names import Canonical, canonical, slash_name, spellings
from .errors import CredentialError, Flaw, RevokedError, StaleRevocationListError, UntrustedError
from .name_spelling import modern
from .signing_policy import matches
from .x509 import (
    INHERIT_ALL,
    LIMITED,
    MAX_CERTIFICATES,
    PROXY_CERT_INFO,
    UNREADABLE,
    ProxyInfo,
    check_key,
    extension,
    is_legacy_proxy,
    proxy_info,
)

Certificate = x509.Certificate


class TrustAnchors(Protocol):
    """The trusted authorities, with their policies and lists. Names are those of authorities."""

    def authorities(self, name: Canonical) -> Sequence[Certificate]:
        """The authorities of this name, roots and intermediate ones."""

    def patterns(self, issuer: Certificate) -> Sequence[str] | None:
        """Patterns of the subjects that this authority may sign, in slash form; None where it has no policy."""

    def revocation_lists(self, name: Canonical) -> Sequence[x509.CertificateRevocationList]:
        """The lists with the name of this authority as their issuer."""

    def has_broken_list(self, name: Canonical) -> bool:
        """Whether a list of this authority cannot be read."""


#: Critical extensions that are processed here, or have no effect on our checks.
_KNOWN = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
    x509.ObjectIdentifier("2.16.840.1.113730.1.1"),  # Netscape's certificate type, which old authorities still set
    PROXY_CERT_INFO,
}
_DIGESTS = (hashes.SHA224, hashes.SHA256, hashes.SHA384, hashes.SHA512)


@dataclass(frozen=True, slots=True)
class CertificatePath:
    """From the leaf to a trusted root: `certificates` with the leaf first; the first `proxies` of them are proxies."""

    certificates: tuple[Certificate, ...]
    proxies: int

    @property
    def end_entity(self) -> Certificate:
        return self.certificates[self.proxies]


def verify(chain: Sequence[Certificate], anchors: TrustAnchors, *, now: datetime) -> Certificate:
    """Check a chain (leaf first); return its end entity, below which are proxies only. Raises UntrustedError."""
    if not chain:
        raise UntrustedError("No certificate was given.", Flaw.UNREADABLE_CERTIFICATE)
    if len(chain) > MAX_CERTIFICATES:
        raise UntrustedError(f"The chain has more than {MAX_CERTIFICATES} certificates.", Flaw.PATH_TOO_LONG)
    try:
        path = _find(chain, anchors)
        _check_times(path, now)
        _check_authorities(path)
        _check_signed_names(path, anchors, now)
        _check_end_entity(path)
        _check_proxies(path)
    except UNREADABLE:
        # cryptography parses lazily, and raises these for malformed content.
        raise UntrustedError("A certificate of the chain cannot be read.", Flaw.UNREADABLE_CERTIFICATE) from None
    return path.end_entity


def _title(certificate: Certificate) -> str:
    return f'certificate "{slash_name(certificate.subject)}"'


# --- the path -------------------------------------------------------------------------------------------------------


def _find(chain: Sequence[Certificate], anchors: TrustAnchors) -> CertificatePath:
    """The path from the leaf to a root of the folder. Issuers come from the folder first, then from the given chain."""
    path = [chain[0]]
    rest = list(chain[1:])
    proxies = 0
    while True:
        here = path[-1]
        _check_extensions(here)
        if proxies == len(path) - 1 and proxy_info(here) is not None:
            proxies += 1
        elif _is_self_issued(here):
            return _ended(tuple(path), proxies, anchors)
        if len(path) > MAX_CERTIFICATES:
            raise UntrustedError(f"The chain has more than {MAX_CERTIFICATES} certificates.", Flaw.PATH_TOO_LONG)
        issuer = _issuer(here, rest, anchors, from_folder=proxies != len(path))
        if issuer in rest:
            rest.remove(issuer)
        path.append(issuer)


def _ended(path: tuple[Certificate, ...], proxies: int, anchors: TrustAnchors) -> CertificatePath:
    root = path[-1]
    if root in anchors.authorities(canonical(root.subject)):
        _check_strength(root)
        return CertificatePath(path, proxies)
    if len(path) == proxies + 1:
        raise UntrustedError(f"The {_title(root)} is self-signed, not signed by an authority.", Flaw.SELF_SIGNED)
    raise _unknown(root.subject)


def _issuer(
    here: Certificate, given: Sequence[Certificate], anchors: TrustAnchors, *, from_folder: bool
) -> Certificate:
    if is_legacy_proxy(here):
        raise UntrustedError(
            f"The {_title(here)} is a proxy from before RFC 3820; make an RFC 3820 proxy.", Flaw.LEGACY_PROXY
        )
    name = canonical(here.issuer)
    candidates = list(anchors.authorities(name)) if from_folder else []
    candidates += [one for one in given if canonical(one.subject) == name and one not in candidates]
    if not candidates and not from_folder:
        raise UntrustedError("The certificate that the proxy was made from is missing in the chain.", Flaw.BAD_PROXY)
    if not candidates:
        raise _unknown(here.issuer)
    _check_strength(here, signed=True)
    for candidate in candidates:
        _check_strength(candidate)
        if _is_signed_by(here, candidate):
            return candidate
    raise UntrustedError(f'The {_title(here)} is not signed by "{slash_name(here.issuer)}".', Flaw.BAD_SIGNATURE)


def _unknown(authority: x509.Name) -> UntrustedError:
    name = slash_name(authority)
    return UntrustedError(
        f'The authority "{name}" is not trusted here; this service\'s operator can add it.', Flaw.UNKNOWN_AUTHORITY
    )


def _is_self_issued(certificate: Certificate) -> bool:
    return canonical(certificate.subject) == canonical(certificate.issuer)


def _check_strength(certificate: Certificate, *, signed: bool = False) -> None:
    """The self-signature of a root is not checked: roots are trusted because they are in the folder."""
    try:
        check_key(certificate.public_key())
    except CredentialError as error:
        raise UntrustedError(f"The {_title(certificate)} has a weak key. {error.reason}", Flaw.WEAK_SIGNATURE) from None
    if signed and not isinstance(_digest(certificate), _DIGESTS):
        raise UntrustedError(f"The {_title(certificate)} is signed with an unsafe algorithm.", Flaw.WEAK_SIGNATURE)


def _digest(signed: Certificate | x509.CertificateRevocationList) -> hashes.HashAlgorithm | None:
    try:
        return signed.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None


def _is_signed_by(signed: Certificate | x509.CertificateRevocationList, issuer: Certificate) -> bool:
    key, digest = issuer.public_key(), _digest(signed)
    if not isinstance(digest, _DIGESTS):
        return False
    body = signed.tbs_certificate_bytes if isinstance(signed, Certificate) else signed.tbs_certlist_bytes
    how = signed.signature_algorithm_parameters
    try:
        if isinstance(key, rsa.RSAPublicKey) and isinstance(how, padding.PKCS1v15 | padding.PSS):
            key.verify(signed.signature, body, how, digest)
        elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(how, ec.ECDSA):
            key.verify(signed.signature, body, how)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _check_extensions(certificate: Certificate) -> None:
    for one in certificate.extensions:
        if one.critical and one.oid not in _KNOWN:
            oid = one.oid.dotted_string
            raise UntrustedError(
                f"The {_title(certificate)} has an unknown critical extension, {oid}.", Flaw.UNKNOWN_EXTENSION
            )


def _check_times(path: CertificatePath, now: datetime) -> None:
    for certificate in reversed(path.certificates):
        if now > certificate.not_valid_after_utc:
            ended = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
            raise UntrustedError(f"The {_title(certificate)} expired on {ended}.", Flaw.EXPIRED)
        if now < certificate.not_valid_before_utc:
            begins = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
            raise UntrustedError(f"The {_title(certificate)} is not valid before {begins}.", Flaw.NOT_YET_VALID)


# --- authorities ----------------------------------------------------------------------------------------------------


def _check_authorities(path: CertificatePath) -> None:
    """Basic constraints, key usage and path lengths (RFC 5280 6.1.4 k to n); proxies do not count (RFC 3820 4.3)."""
    below = 0
    for certificate in path.certificates[path.proxies + 1 :]:
        constraints = extension(certificate, x509.BasicConstraints)
        is_old_root = certificate.version is x509.Version.v1 and _is_self_issued(certificate)
        usage = extension(certificate, x509.KeyUsage)
        if (constraints is None and not is_old_root) or (constraints is not None and not constraints.ca):
            raise UntrustedError(f"The {_title(certificate)} is not that of an authority.", Flaw.NOT_AN_AUTHORITY)
        if usage is not None and not usage.key_cert_sign:
            raise UntrustedError(
                f"The {_title(certificate)} may not be used to sign certificates.", Flaw.NOT_AN_AUTHORITY
            )
        if constraints is not None and constraints.path_length is not None and below > constraints.path_length:
            raise UntrustedError(f"The {_title(certificate)} allows fewer authorities below it.", Flaw.PATH_TOO_LONG)
        below += not _is_self_issued(certificate)


def _check_signed_names(path: CertificatePath, anchors: TrustAnchors, now: datetime) -> None:
    """Signing policies, name constraints and revocation lists, for all certificates below the root but proxies."""
    certificates = path.certificates[path.proxies :]
    for at, certificate in enumerate(certificates[:-1]):
        issuer = certificates[at + 1]
        if certificate is certificates[0] or not _is_self_issued(certificate):
            _check_policy(certificate, issuer, anchors)
            _check_constraints(certificate, certificates[at + 1 :])
        _check_revocation(certificate, issuer, anchors, now)


def _check_policy(certificate: Certificate, issuer: Certificate, anchors: TrustAnchors) -> None:
    patterns = anchors.patterns(issuer)
    authority = slash_name(issuer.subject)
    if patterns is None:
        raise UntrustedError(f'There is no signing policy for the authority "{authority}" here.', Flaw.SIGNING_POLICY)
    names = {modern(name) for name in spellings(certificate.subject)}
    if not any(matches(pattern, name) for pattern in patterns for name in names):
        raise UntrustedError(
            f'The authority "{authority}" may not sign the {_title(certificate)}.', Flaw.SIGNING_POLICY
        )


def _check_constraints(certificate: Certificate, authorities: Sequence[Certificate]) -> None:
    for authority in authorities:
        constraints = extension(authority, x509.NameConstraints)
        if constraints is not None and not names_allowed(constraints, certificate):
            name = slash_name(authority.subject)
            raise UntrustedError(
                f'The names in the {_title(certificate)} are not those that "{name}" may certify.', Flaw.NAME_CONSTRAINT
            )


def _check_revocation(certificate: Certificate, issuer: Certificate, anchors: TrustAnchors, now: datetime) -> None:
    """As the toolkit: without lists nothing is checked; with lists, one must be genuine and current."""
    name = canonical(issuer.subject)
    authority = slash_name(issuer.subject)
    lists = [one for one in anchors.revocation_lists(name) if is_usable(one, issuer)]
    for one in lists:
        if one.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise RevokedError(f"The {_title(certificate)} has been revoked by its authority.")
    if not lists and not anchors.revocation_lists(name) and not anchors.has_broken_list(name):
        return
    if not any(is_current(one, now) for one in lists):
        raise StaleRevocationListError(
            f'The revocation list of the authority "{authority}" is out of date or unusable.'
        )


def is_usable(revoked: x509.CertificateRevocationList, issuer: Certificate) -> bool:
    """Whether it is genuine and complete: a delta, or a list for some certificates only, has a critical extension."""
    return not any(one.critical for one in revoked.extensions) and _is_signed_by(revoked, issuer)


def is_current(revoked: x509.CertificateRevocationList, now: datetime) -> bool:
    ends = revoked.next_update_utc
    return revoked.last_update_utc <= now and (ends is None or now <= ends)


# --- end entities and proxies ---------------------------------------------------------------------------------------


def _check_end_entity(path: CertificatePath) -> None:
    certificate = path.end_entity
    constraints = extension(certificate, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise UntrustedError(
            f"The {_title(certificate)} is that of an authority, not of a person or host.", Flaw.NOT_AN_END_ENTITY
        )
    _check_signs(certificate)


def _check_signs(certificate: Certificate) -> None:
    """The key must be allowed to sign: a TLS login and a proxy need it (for proxies RFC 3820 section 3.1)."""
    usage = extension(certificate, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise UntrustedError(f"The {_title(certificate)} may not be used for signatures.", Flaw.NOT_AN_END_ENTITY)


def _check_proxies(path: CertificatePath) -> None:
    """RFC 3820 section 4.1, from the proxy that the end entity signed down to the leaf."""
    limited = False
    for at in range(path.proxies - 1, -1, -1):
        proxy, issuer = path.certificates[at], path.certificates[at + 1]
        info = proxy_info(proxy)
        assert info is not None
        _check_proxy_form(proxy, issuer, info)
        if info.path_length is not None and at > info.path_length:
            raise UntrustedError(f"The {_title(proxy)} allows fewer proxies below it.", Flaw.PATH_TOO_LONG)
        if limited and info.policy != LIMITED:
            raise UntrustedError(f"The {_title(proxy)} is a full proxy made from a limited one.", Flaw.LIMITED_PROXY)
        if proxy.not_valid_after_utc > issuer.not_valid_after_utc:
            raise UntrustedError(
                f"The {_title(proxy)} outlives the certificate that it was made from.", Flaw.OVERLONG_PROXY
            )
        limited = info.policy == LIMITED


def _check_proxy_form(proxy: Certificate, issuer: Certificate, info: ProxyInfo) -> None:
    if not _extends_name(proxy, issuer):
        raise UntrustedError(f"The {_title(proxy)} is a proxy with the wrong name.", Flaw.BAD_PROXY)
    if not info.critical:
        raise UntrustedError(
            f"The {_title(proxy)} is a proxy whose proxyCertInfo is not critical (RFC 3820, 3.8).", Flaw.BAD_PROXY
        )
    if info.policy not in (INHERIT_ALL, LIMITED) or info.has_rules:
        raise UntrustedError(
            f"The {_title(proxy)} is a proxy with a policy ({info.policy}) that is not accepted.", Flaw.BAD_PROXY
        )
    if _has_authority(proxy):
        raise UntrustedError(f"The {_title(proxy)} is a proxy with the rights of an authority.", Flaw.BAD_PROXY)
    if any(extension(proxy, kind) for kind in (x509.SubjectAlternativeName, x509.IssuerAlternativeName)):
        raise UntrustedError(f"The {_title(proxy)} is a proxy with alternative names.", Flaw.BAD_PROXY)
    _check_signs(proxy)


def _extends_name(proxy: Certificate, issuer: Certificate) -> bool:
    """Whether the proxy's subject is its issuer's with one common name behind it (RFC 3820 section 3.4)."""
    above, added = proxy.subject.rdns[:-1], proxy.subject.rdns[-1:]
    if proxy.issuer != issuer.subject or above != issuer.subject.rdns:
        return False
    return [[attribute.oid for attribute in part] for part in added] == [[NameOID.COMMON_NAME]]


def _has_authority(proxy: Certificate) -> bool:
    """Whether the proxy claims that it may issue certificates as an authority."""
    constraints, usage = extension(proxy, x509.BasicConstraints), extension(proxy, x509.KeyUsage)
    return bool(constraints and constraints.ca) or bool(usage and usage.key_cert_sign)


#: Supported kinds of names. A constraint on another kind refuses every certificate with such a name.
_JUDGED = (x509.DirectoryName, x509.DNSName, x509.RFC822Name, x509.IPAddress)


def names_allowed(constraints: x509.NameConstraints, certificate: x509.Certificate) -> bool:
    """Whether each name in the certificate lies in a permitted subtree of its kind, where there are any, and in no
    excluded one."""
    permitted, excluded = constraints.permitted_subtrees or (), constraints.excluded_subtrees or ()
    return all(_is_allowed(name, permitted, excluded) for name in _names_of(certificate))


def _names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DirectoryName(certificate.subject)] if certificate.subject.rdns else []
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.EMAIL_ADDRESS):
        names.append(x509.RFC822Name(str(attribute.value)))
    alternatives = extension(certificate, x509.SubjectAlternativeName)
    if alternatives is not None:
        return names + list(alternatives)
    # The host name of certificates without alternative names; check_host still reads it.
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        name = str(attribute.value).rpartition("/")[2]
        if name.isascii() and "." in name and " " not in name:
            names.append(x509.DNSName(name))
    return names


def _is_allowed(
    name: x509.GeneralName, permitted: Sequence[x509.GeneralName], excluded: Sequence[x509.GeneralName]
) -> bool:
    wanted = [tree for tree in permitted if type(tree) is type(name)]
    barred = [tree for tree in excluded if type(tree) is type(name)]
    if not wanted and not barred:
        return True
    if not isinstance(name, _JUDGED):
        return False
    return (not wanted or any(_lies_in(name, tree) for tree in wanted)) and not any(
        _lies_in(name, tree) for tree in barred
    )


def _lies_in(name: x509.GeneralName, tree: x509.GeneralName) -> bool:
    if isinstance(name, x509.DirectoryName) and isinstance(tree, x509.DirectoryName):
        above = canonical(tree.value)
        return canonical(name.value)[: len(above)] == above
    if isinstance(name, x509.IPAddress) and isinstance(tree, x509.IPAddress):
        network = tree.value
        return isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network) and name.value in network
    ours, theirs = str(name.value).lower(), str(tree.value).lower()
    if isinstance(name, x509.RFC822Name):
        return _mailbox_lies_in(ours, theirs)
    return not theirs or ours == theirs or ours.endswith("." + theirs.removeprefix("."))


def _mailbox_lies_in(mailbox: str, tree: str) -> bool:
    """A tree is one mailbox, all mailboxes of a host, or of a domain's hosts (RFC 5280 section 4.2.1.10)."""
    if "@" in tree:
        return mailbox == tree
    host = mailbox.rpartition("@")[2]
    return host == tree or (tree.startswith(".") and host.endswith(tree))
