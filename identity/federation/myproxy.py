"""Sign-in by MyProxy servers that the operator names (WAYBILL_MYPROXY_SIGN_IN), with commas between them:

    myproxy.example.org:7512 domain=example.org label=Example Laboratory, other.example.org

Options: `name` (in addresses of this service), `domain` (of the names of its users; the host by default), and `label`
(for people; it takes the rest). Names of users are `name@domain`.

A person is the subject of the certificate that the server gives: on a server that keeps credentials, a user name is
free for anybody once its credential was destroyed. The name is shown only, and the server says it with the proof.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from identity.gsi.printable import translatable as _
from identity.gsi.trust import TrustFolder
from identity.hidden import Secret
from identity.issuers import myproxy
from identity.issuers.myproxy import (
    LogonRefusedError,
    MyProxyError,
    MyProxyInputError,
    MyProxyTimeoutError,
    MyProxyUnreachableError,
)
from identity.proven_identities import Proven

from .errors import (
    PassphraseRefusedError,
    ProviderAnswerError,
    ProviderUnknownError,
    ProviderUnreachableError,
    UserNameRefusedError,
)

PORT = 7512
MOST = 50
#: The lifetime of the credential, which is checked and discarded.
LIFETIME = timedelta(minutes=15)
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
_SERVER = re.compile(rf"({_DOMAIN})(?::(\d{{1,5}}))?")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
#: Names of this service are found in any case: "Alice" and "alice" of one server would be one name here.
_USER = re.compile(r"[a-z0-9_][a-z0-9._@+-]{0,127}")
_OPTIONS = ("name", "domain", "label")


@dataclass(frozen=True, slots=True)
class MyProxyProvider:
    """A server that vouches for its users. name: in addresses of this service; label: for people."""

    name: str
    label: str
    host: str
    port: int
    domain: str

    @property
    def id(self) -> str:
        """The id in `LinkedIdentity.provider`."""
        return f"myproxy:{self.host}:{self.port}"


def parse_servers(text: str) -> Mapping[str, MyProxyProvider]:
    """The servers by name. Raises ValueError."""
    found: dict[str, MyProxyProvider] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        server = _of_words(part)
        if server.name in found or any(one.id == server.id for one in found.values()):
            raise ValueError(f"{server.host}: the server is there already; give another one, with another name=")
        if any(one.domain == server.domain for one in found.values()):
            raise ValueError(f"{server.host}: another server has this domain; give another one (domain=)")
        found[server.name] = server
    if len(found) > MOST:
        raise ValueError(f"at most {MOST} servers")
    return found


def _of_words(text: str) -> MyProxyProvider:
    text, label = (part.strip() for part in (f"{text} label=").split(" label=", 2)[:2])
    first, *words = text.split()
    options = dict(word.partition("=")[::2] for word in words)
    address = _SERVER.fullmatch(first)
    if address is None or not set(options) <= set(_OPTIONS):
        raise ValueError("a server is HOST[:PORT] [name=...] [domain=...] [label=...]")
    host, port = address[1].lower(), int(address[2] or PORT)
    name = options.get("name", re.sub(r"[^a-z0-9]+", "-", host)[:40])
    domain = options.get("domain", host).lower()
    if not 0 < port < 65536 or not _NAME.fullmatch(name) or not re.fullmatch(_DOMAIN, domain):
        raise ValueError(f"{host}: its port, name= or domain= is none")
    return MyProxyProvider(name, label or host, host, port, domain)


def identity_name(server: MyProxyProvider, username: str) -> str:
    """`name@domain`. The name stays whole, so that two names of a server are never one here.

    Raises UserNameRefusedError.
    """
    if not _USER.fullmatch(username):
        raise UserNameRefusedError
    return f"{username}@{server.domain}"


def of_name(servers: Mapping[str, MyProxyProvider], name: str) -> MyProxyProvider:
    """Raises ProviderUnknownError."""
    try:
        return servers[name]
    except KeyError:
        raise ProviderUnknownError(name) from None


def prove(
    server: MyProxyProvider,
    addresses: Sequence[str],
    username: str,
    passphrase: Secret,
    trust: TrustFolder,
    timeout: float = myproxy.SECONDS,
) -> Proven:
    """Use the passphrase once, at one of these addresses, which have passed the address gate, in `timeout` seconds.

    The credential that the server gives for a new key is checked, and discarded with the key. Blocks. No error says
    whether the server knows the name, and none holds a text of the server.

    Raises FederationError; IdentityNotUsableError for a subject that is too long.
    """
    shown = identity_name(server, username)
    failure: Exception
    try:
        credential = myproxy.logon(
            addresses, server.port, server_name=server.host, username=username, passphrase=passphrase.value,
            lifetime=LIFETIME, trust=trust, timeout=timeout,
        )  # fmt: skip
        now = time.time()
        return Proven.of(server.id, credential.identity, shown, now, authenticated_at=now)
    except (LogonRefusedError, MyProxyInputError):
        failure = PassphraseRefusedError()
    except MyProxyUnreachableError:
        failure = ProviderUnreachableError(_("The MyProxy server cannot be reached. Try again later."))
    except MyProxyTimeoutError:
        failure = ProviderUnreachableError(_("The MyProxy server did not answer in time. Try again later."))
    except MyProxyError:
        failure = ProviderAnswerError(_("The MyProxy server, or what it gave, is not trusted here."))
    raise failure
