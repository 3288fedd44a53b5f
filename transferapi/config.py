"""The environment, read once into a frozen, typed object; loud on what is unknown, wrong or missing.

A secret may be given as `X` or, as a file that holds it, as `X_FILE`.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from endpoints.openings import Opening, parse_openings
from identity.hidden import Secret
from identity.oauth_clients import clients_of
from identity.vault_keys import parse_keys

from . import limit_settings, mail_settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
T = TypeVar("T")

#: Every variable that we know, with what it is for (also the text of the refusal of an unknown one).
KNOWN = {
    "WAYBILL_HOME": "folder for the data, sockets and logs of `make up` (default: .waybill in the checkout)",
    "WAYBILL_PORT": "port of the web server (default 8000)",
    "WAYBILL_SECRET_KEY": "key that signs sessions and the like (or ..._FILE)",
    "WAYBILL_ALLOW_TARGETS": "what the address gate lets through though it is private, with commas: networks, or "
    "networks with ports (10.1.0.0/16, 127.0.0.1:5061, 10.2.0.0/16:2811-2813, [fd00::/8]:2811; default: nothing)",
    "WAYBILL_ALLOW_WEBHOOKS": "the same for webhooks, which get nowhere by WAYBILL_ALLOW_TARGETS (default: nothing)",
    "WAYBILL_VAULT_KEY": "keys of the vault of credentials, the newest first, with commas (or ..._FILE, one a line); "
    "`waybill vault key` makes one",
    "WAYBILL_CERTIFICATES": "folder of the certificate authorities that are trusted "
    "(default /etc/grid-security/certificates)",
    "WAYBILL_MYPROXY_SECONDS": "seconds that a MyProxy server may take to log a user on, at least 10 less than "
    "WAYBILL_REQUEST_SECONDS; long where a person must confirm by telephone (default 20)",
    "WAYBILL_DELEGATE_TO": "hosts of servers that may be given a (limited) proxy of their user, with commas "
    "(default: none)",
    "WAYBILL_OAUTH_CLIENTS": "how the OAuth servers of endpoints know this service, one a line: "
    "https://server id [secret] (or ..._FILE; default: as a public client with WAYBILL_PUBLIC_URL as its id)",
    "WAYBILL_OIDC_KEY": "RSA private key (PEM) that signs identity tokens (or ..._FILE; `make up` makes one)",
    "WAYBILL_RATE_LIMIT": "requests a second that one user may make, averaged over 10 s (default 50; 0: no limit)",
    "WAYBILL_FRONT_SERVERS": "networks of the servers in front, as CIDR, with commas: what they say of a client's "
    "address (X-Forwarded-For) and of https (X-Forwarded-Proto) is believed (default: none)",
    "WAYBILL_FRONT_SECRET": "what they also say of a client's certificate is believed where they send this with it, as "
    "X-Waybill-Front-Secret (or ..._FILE; default: never)",
    "WAYBILL_REQUEST_SECONDS": "how long a request may take, 11 to 600 (default 60); an operation on an endpoint gets "
    "10 s less, and a server in front must wait so long",
    "WAYBILL_TLS_CERTIFICATE": "certificate chain (PEM file) with which the web server ends TLS itself (default: it "
    "speaks http)",
    "WAYBILL_TLS_KEY": "private key (PEM file) of that certificate",
    "WAYBILL_MAIL": "smtp://user:password@host:587, smtps://..., file:///folder or console: (or ..._FILE; default "
    "console:)",
    "WAYBILL_MAIL_FROM": "the sender of all mails (default waybill@localhost)",
    "WAYBILL_DEBUG": "1 shows tracebacks in answers; never where others can reach it (default 0)",
    "WAYBILL_HOSTS": "host names that the web server answers to, with commas (default: the loopback ones)",
    "WAYBILL_PUBLIC_URL": "how users reach this service (default http://127.0.0.1:WAYBILL_PORT, or https)",
    "WAYBILL_LOG_LEVEL": "DEBUG, INFO, WARNING or ERROR (default INFO)",
    **limit_settings.KNOWN,
    "DATABASE_URL": "postgresql://user:password@host:port/name or ...@/name?host=/socket/folder (or ..._FILE)",
    "REDIS_URL": "redis://host:port/0, rediss://... or unix:///path/to/socket?db=0 (or ..._FILE)",
}
SECRETS = (
    "WAYBILL_SECRET_KEY",
    "WAYBILL_VAULT_KEY",
    "WAYBILL_OAUTH_CLIENTS",
    "WAYBILL_OIDC_KEY",
    "WAYBILL_FRONT_SECRET",
    "WAYBILL_MAIL",
    "DATABASE_URL",
    "REDIS_URL",
)
#: Seconds of a request that are left for its answer when an operation has taken as long as it may.
ANSWER_SECONDS = 10
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
#: No statement, lock or forgotten transaction holds anything up for ever (milliseconds; COPY of many items is longest).
TIME_LIMITS = "-c statement_timeout=60000 -c lock_timeout=15000 -c idle_in_transaction_session_timeout=60000"
#: Our statements read little, by indexes: to compile them, or to start processes for them, costs more than they do.
SMALL_STATEMENTS = "-c jit=off -c max_parallel_workers_per_gather=0"
CHECKOUT = Path(__file__).resolve().parent.parent


class ConfigError(Exception):
    """The environment is wrong; `problems` are sentences that name the variable."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Config:
    """What the environment says."""

    home: Path
    port: int
    secret_key: Secret | None
    database_url: Secret | None
    redis_url: Secret | None
    allow_targets: tuple[Opening, ...]
    allow_webhooks: tuple[Opening, ...]
    #: Text; `identity.vault_keys` reads it.
    vault_key: Secret | None
    #: Where the text came from, if from a file: it is looked at again while we run, see `identity.keyring`.
    vault_key_file: Path | None
    certificates: Path
    #: Below what a request may take (an operation: 50 s), so that the answer says which server it was.
    myproxy_seconds: int
    delegate_to: tuple[str, ...]
    #: Lines; `identity.oauth_clients` reads them.
    oauth_clients: Secret | None
    oidc_key: Secret | None
    #: Requests a second of one user; 0: no limit.
    rate_limit: int
    front_servers: tuple[Network, ...]
    front_secret: Secret | None
    #: Seconds.
    request_seconds: int
    tls_certificate: Path | None
    tls_key: Path | None
    #: A URL; `mail_settings` reads it.
    mail: Secret | None
    mail_from: str
    debug: bool
    hosts: tuple[str, ...]
    public_url: str
    log_level: str
    limits: limit_settings.Limits

    @property
    def operation_seconds(self) -> int:
        """Seconds for an operation on an endpoint, or for a logon at a MyProxy server."""
        return self.request_seconds - ANSWER_SECONDS


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Read the environment. Raises ConfigError with everything that is wrong with it."""
    problems = list(_unknown(environ))
    values = dict(environ)

    def read(name: str, parse: Callable[[str], T], default: str) -> T:
        try:
            return parse(values.get(name) or default)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            return parse(default)

    def secret(name: str, check: Callable[[str], object]) -> Secret | None:
        try:
            text = _secret_text(environ, name)
            if text:
                check(text)
            return Secret(text) if text else None
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {error}")
            return None

    port = read("WAYBILL_PORT", _port, "8000")
    scheme = "https" if values.get("WAYBILL_TLS_CERTIFICATE") else "http"
    if bool(values.get("WAYBILL_TLS_CERTIFICATE")) != bool(values.get("WAYBILL_TLS_KEY")):
        problems.append("WAYBILL_TLS_CERTIFICATE and WAYBILL_TLS_KEY belong together: give both, or neither")
    config = Config(
        home=read("WAYBILL_HOME", _absolute, str(CHECKOUT / ".waybill")),
        port=port,
        secret_key=secret("WAYBILL_SECRET_KEY", _long_enough),
        database_url=secret("DATABASE_URL", database),
        redis_url=secret("REDIS_URL", broker_url),
        allow_targets=read("WAYBILL_ALLOW_TARGETS", parse_openings, ""),
        allow_webhooks=read("WAYBILL_ALLOW_WEBHOOKS", parse_openings, ""),
        vault_key=secret("WAYBILL_VAULT_KEY", parse_keys),
        vault_key_file=read("WAYBILL_VAULT_KEY_FILE", _path_or_none, ""),
        certificates=read("WAYBILL_CERTIFICATES", _absolute, "/etc/grid-security/certificates"),
        myproxy_seconds=read("WAYBILL_MYPROXY_SECONDS", _myproxy_seconds, "20"),
        delegate_to=read("WAYBILL_DELEGATE_TO", _words, ""),
        oauth_clients=secret("WAYBILL_OAUTH_CLIENTS", clients_of),
        oidc_key=secret("WAYBILL_OIDC_KEY", _rsa_key),
        rate_limit=read("WAYBILL_RATE_LIMIT", _rate, "50"),
        front_servers=read("WAYBILL_FRONT_SERVERS", _networks, ""),
        front_secret=secret("WAYBILL_FRONT_SECRET", _header_value),
        request_seconds=read("WAYBILL_REQUEST_SECONDS", _request_seconds, "60"),
        tls_certificate=read("WAYBILL_TLS_CERTIFICATE", _file_or_none, ""),
        tls_key=read("WAYBILL_TLS_KEY", _file_or_none, ""),
        mail=secret("WAYBILL_MAIL", mail_settings.parse),
        mail_from=read("WAYBILL_MAIL_FROM", str, "waybill@localhost"),
        debug=read("WAYBILL_DEBUG", _flag, "0"),
        hosts=read("WAYBILL_HOSTS", _words, ",".join(LOOPBACK_HOSTS)),
        public_url=read("WAYBILL_PUBLIC_URL", _web_address, f"{scheme}://127.0.0.1:{port}"),
        log_level=read("WAYBILL_LOG_LEVEL", _level, "INFO"),
        limits=limit_settings.Limits(
            **{
                field: read(name, limit_settings.parse, str(getattr(limit_settings.DEFAULTS, field)))
                for name, (field, _) in limit_settings.VARIABLES.items()
            }
        ),
    )
    if config.front_secret and not config.front_servers:
        problems.append("WAYBILL_FRONT_SECRET: it needs WAYBILL_FRONT_SERVERS, the servers that send it")
    if values.get("WAYBILL_MYPROXY_SECONDS") and config.myproxy_seconds > config.operation_seconds:
        problems.append("WAYBILL_MYPROXY_SECONDS: it must be at least 10 less than WAYBILL_REQUEST_SECONDS")
    if config.limits.submission > limit_settings.MAX_BODY:
        problems.append(f"WAYBILL_MAX_SUBMISSION: the web server takes {limit_settings.MAX_BODY} octets at most")
    if problems:
        raise ConfigError(problems)
    return config


def load_or_exit() -> Config:
    """Read the environment; where it is wrong, say so without a traceback and end with status 78 (EX_CONFIG)."""
    try:
        return load()
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"waybill: {problem}\n")
        raise SystemExit(78) from None


def database(url: str) -> dict[str, object]:
    """The entry of Django's DATABASES for a DATABASE_URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("PostgreSQL only: it begins with postgresql://")
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise ValueError("it names no database")
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or unquote(parts.hostname or ""),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": {"connect_timeout": 10, "options": f"{TIME_LIMITS} {SMALL_STATEMENTS}", **options},
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }


def broker_url(url: str) -> str:
    """A REDIS_URL as Celery's transport spells it: its unix sockets have a scheme of their own."""
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss"):
        return url
    if parts.scheme != "unix" or not parts.path:
        raise ValueError("it begins with redis://, rediss:// or unix:///")
    number = parse_qs(parts.query).get("db", ["0"])[-1]
    who = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return f"redis+socket://{who}{parts.path}?virtual_host={number}"


def _unknown(environ: Mapping[str, str]) -> list[str]:
    allowed = {*KNOWN, *(f"{name}_FILE" for name in SECRETS)}
    unknown = sorted(name for name in environ if name.startswith("WAYBILL_") and name not in allowed)
    if not unknown:
        return []
    known = "\n".join(f"  {name}: {meaning}" for name, meaning in KNOWN.items())
    return [f"unknown variable {', '.join(unknown)}; the known ones are\n{known}"]


def _secret_text(environ: Mapping[str, str], name: str) -> str:
    text, file = environ.get(name, ""), environ.get(f"{name}_FILE", "")
    if text and file:
        raise ValueError(f"given twice, also as {name}_FILE")
    if not file:
        return text
    if not (held := Path(file).read_text(encoding="utf-8").strip()):
        raise ValueError(f"the file {file} is empty")
    return held


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError("a port is a number from 1 to 65535")
    return int(text)


def _absolute(text: str) -> Path:
    if not text.isprintable():
        raise ValueError("the name of the folder has control characters")
    return Path(text).expanduser().absolute()


def _path_or_none(text: str) -> Path | None:
    return _absolute(text) if text else None


def _file_or_none(text: str) -> Path | None:
    path = _path_or_none(text)
    if path is not None and not os.access(path, os.R_OK):
        raise ValueError(f"the file {path} cannot be read")
    return path


def _long_enough(text: str) -> None:
    if len(text) < 32:
        raise ValueError("too short to be a secret: at least 32 characters")


def _header_value(text: str) -> None:
    _long_enough(text)
    if not text.isascii() or not text.isalnum():
        raise ValueError("a header carries it: letters and digits only (openssl rand -hex 32)")


def _rsa_key(text: str) -> None:
    # Loaded where there is a key only.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Its own words could hold some of the key.
        raise ValueError("it is not a private key in PEM without a passphrase") from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < 2048:
        raise ValueError("it is not an RSA key of at least 2048 bits")


def _rate(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise ValueError("a whole number of requests a second")
    return int(text)


def _myproxy_seconds(text: str) -> int:
    if not re.fullmatch("[0-9]{1,3}", text) or not 1 <= int(text) <= 590:
        raise ValueError("a whole number of seconds from 1 to 590")
    return int(text)


def _request_seconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 10 < int(text[:9]) <= 600:
        raise ValueError("a whole number of seconds from 11 to 600")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in _words(text))


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not an http:// or https:// address")
    return text.rstrip("/")


def _level(text: str) -> str:
    if text not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError("DEBUG, INFO, WARNING or ERROR")
    return text
