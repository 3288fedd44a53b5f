"""Name constraints of authorities (RFC 5280 section 4.2.1.10): the names that certificates below them may have."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from .distinguished_names import canonical
from .x509 import extension

#: Supported kinds of names. A constraint on another kind refuses every certificate with such a name.
_JUDGED = (x509.DirectoryName, x509.DNSName, x509.RFC822Name, x509.IPAddress)


def allow(constraints: x509.NameConstraints, certificate: x509.Certificate) -> bool:
    """Whether each name in the certificate lies in a permitted subtree of its kind, where there are any, and in no
    excluded one."""
    permitted, excluded = constraints.permitted_subtrees or (), constraints.excluded_subtrees or ()
    return all(_is_allowed(name, permitted, excluded) for name in _names(certificate))


def _names(certificate: x509.Certificate) -> list[x509.GeneralName]:
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
