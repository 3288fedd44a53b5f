"""DATABASE_URL and REDIS_URL: one server, or several of which one is the primary.

postgresql://user:password@a:5432,b:5432/waybill     libpq connects to the first one that accepts writes
sentinel://:password@a:26379,b:26379/0?master=name   Sentinels, which know the Redis server that is the master
sentinel+tls://...                                   the same, where the Sentinels and the Redis servers have TLS

The error messages repeat nothing of an address, which may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from . import urls
from .values import Whole, port

#: No statement, lock or forgotten transaction lasts for ever (milliseconds; COPY of many items takes longest).
TIME_LIMITS = "-c statement_timeout=60000 -c lock_timeout=15000 -c idle_in_transaction_session_timeout=60000"
#: The same for a line that is cut without a word (seconds; milliseconds for what the server does not acknowledge).
LINE_LIMITS = {
    "tcp_user_timeout": 5000,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
#: And for the server's side of the line: a host that is cut off keeps its locks until the server knows, which would
#: take a minute (idle_in_transaction_session_timeout). The last one counts for all: unanswered probes, data that is not
#: acknowledged, and a client that reads nothing for so long. It is less than the 5 s of a lease, so that the locks of
#: a host that is cut off do not outlast its leases. No effect by a unix socket (seconds; milliseconds).
SERVER_LINE_LIMITS = "-c tcp_keepalives_idle=1 -c tcp_keepalives_interval=1 -c tcp_user_timeout=4000"
#: Our statements read few rows, by indexes: compiling them or starting processes for them costs more than they do.
SMALL_STATEMENTS = "-c jit=off -c max_parallel_workers_per_gather=0"
#: Seconds for a connection to PostgreSQL, for all hosts together; and the least that libpq gives to one.
CONNECT_SECONDS, LEAST_SECONDS = 10, 2
#: Seconds for the connection to a Sentinel, and for its answer.
SENTINEL_SECONDS = 0.5
MOST_HOSTS = 8
_WRITABLE = ("read-write", "primary")
_URL = re.compile(r"([a-z+]+)://([^/?#]*)(?:/([^?#]*))?(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::([0-9]+))?")
_HOSTS = "hosts are host:port with commas between them, and IPv6 addresses have brackets"
_SENTINEL, _SENTINEL_TLS = "sentinel", "sentinel+tls"
#: As redis-py names them.
_CERTIFICATES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_number = Whole(0, 9999)
_connect_timeout = Whole(1, 60, "seconds")


@dataclass(frozen=True, slots=True)
class _Address:
    """The parts of an address whose hosts are a list."""

    scheme: str
    username: str
    password: str
    hosts: tuple[tuple[str, int | None], ...]
    path: str
    options: dict[str, str]


def _split(url: str) -> _Address:
    """Parse an address that may name several hosts. Raises ValueError."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("it is no address, such as redis://:password@host:port/0")
    scheme, authority, path, query = found.groups(default="")
    account, _, hosts = authority.rpartition("@")
    username, _, password = account.partition(":")
    return _Address(
        scheme,
        unquote(username),
        unquote(password),
        tuple(_host(one) for one in hosts.split(",")) if hosts else (),
        unquote(path),
        dict(parse_qsl(query)),
    )


def _host(text: str) -> tuple[str, int | None]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError(_HOSTS)
    return unquote(found[1] or found[2]), _port_of(found[3]) if found[3] else None


def _port_of(text: str) -> int:
    try:
        return port(text)
    except ValueError as error:
        raise ValueError(f"a port is {error}") from None


# ---- PostgreSQL


def database(url: str) -> dict[str, Any]:
    """The entry of Django's DATABASES for a DATABASE_URL. Raises ValueError."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("PostgreSQL only: it begins with postgresql://")
    options = _read_by_libpq(url)
    if not (name := options.pop("dbname", "")):
        raise ValueError("it names no database")
    hosts = options.pop("host", "")
    return {
        "ENGINE": "transferapi.outages.postgresql",
        "NAME": name,
        "USER": options.pop("user", ""),
        "PASSWORD": options.pop("password", ""),
        "HOST": hosts,
        "PORT": _ports(hosts, options.pop("port", "")),
        "OPTIONS": {
            **LINE_LIMITS,
            "options": f"{TIME_LIMITS} {SERVER_LINE_LIMITS} {SMALL_STATEMENTS}",
            **_session_options(options, hosts.count(",") + 1),
        },
    }


def _read_by_libpq(url: str) -> dict[str, str]:
    """The parameters of libpq that an address gives (PostgreSQL's documentation, 34.1.1.2). Raises ValueError."""
    import psycopg2
    from psycopg2.extensions import parse_dsn

    try:
        return dict(parse_dsn(url))
    except psycopg2.Error:
        # libpq's message repeats the address.
        raise ValueError("it is no address, such as postgresql://user:password@host:port/name") from None


def _ports(hosts: str, ports: str) -> str:
    """The ports of a list of hosts as libpq takes them: one for each host, or one for all. Raises ValueError."""
    names, numbers = hosts.split(","), ports.split(",") if ports else []
    if ":" in ports or ("," in hosts and not all(names)):
        raise ValueError(_HOSTS)
    if len(names) > MOST_HOSTS:
        raise ValueError(f"it names more than {MOST_HOSTS} hosts")
    if len(numbers) not in (0, 1, len(names)):
        raise ValueError("there are as many ports as hosts, or one for all")
    if not any(numbers):
        return ""
    default = "5432" if len(names) > 1 else ""
    return ",".join(str(_port_of(one)) if one else default for one in numbers)


def _session_options(options: dict[str, str], hosts: int) -> dict[str, Any]:
    """Parameters of libpq. Each host has its part of the time, so that one which is down costs little."""
    seconds: Any = max(LEAST_SECONDS, CONNECT_SECONDS // hosts)
    if "connect_timeout" in options:
        try:
            seconds = _connect_timeout(options["connect_timeout"])
        except ValueError as error:
            raise ValueError(f"connect_timeout: {error}") from None
    found = {**options, "connect_timeout": seconds}
    if hosts > 1 and found.setdefault("target_session_attrs", _WRITABLE[0]) not in _WRITABLE:
        raise ValueError(f"with several hosts, target_session_attrs is {' or '.join(_WRITABLE)}: the service writes")
    return found


# ---- Redis


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels that are asked for the master, and the account at the Redis servers."""

    hosts: tuple[tuple[str, int], ...]
    master: str
    database: int
    username: str
    password: str
    #: The account at the Sentinels themselves, which is another one.
    sentinel_username: str
    sentinel_password: str
    #: Arguments of redis-py for the certificates of all; None if there is no TLS.
    certificates: Mapping[str, Any] | None = None

    def account(self) -> dict[str, str]:
        """Arguments of redis-py for the Redis servers."""
        return _given(username=self.username, password=self.password)

    def tls(self) -> dict[str, Any]:
        """Arguments of redis-py, for the Sentinels and for the Redis servers."""
        return {} if self.certificates is None else {"ssl": True, **self.certificates}

    def arguments(self, seconds: float = SENTINEL_SECONDS) -> dict[str, Any]:
        """Arguments of redis-py for the Sentinels. seconds: how long one that is down is waited for."""
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds}
        account = _given(username=self.sentinel_username, password=self.sentinel_password)
        return {**limits, "retry": Retry(NoBackoff(), 0), **account, **self.tls()}


def _given(**words: str) -> dict[str, str]:
    return {name: value for name, value in words.items() if value}


def sentinels(url: str) -> Sentinels | None:
    """None: the address is that of one server. Raises ValueError."""
    if url.partition("://")[0] not in (_SENTINEL, _SENTINEL_TLS):
        return None
    parts = _split(url)
    has_tls = parts.scheme == _SENTINEL_TLS
    certificates = _CERTIFICATES if has_tls else ()
    _refuse_others(parts.options, ("master", "sentinel_username", "sentinel_password", *certificates))
    if not parts.hosts or not parts.options.get("master"):
        raise ValueError("it is sentinel://:password@host:26379,host:26379/0?master=name")
    if len(parts.hosts) > MOST_HOSTS:
        raise ValueError(f"it names more than {MOST_HOSTS} hosts")
    return Sentinels(
        tuple((name, number or 26379) for name, number in parts.hosts),
        parts.options["master"],
        _database_number(parts.path),
        parts.username,
        parts.password,
        parts.options.get("sentinel_username", ""),
        parts.options.get("sentinel_password", ""),
        _certificates_of(parts.options) if has_tls else None,
    )


def broker_url(url: str) -> str:
    """A REDIS_URL for Celery's transport, which has a scheme of its own for unix sockets. Raises ValueError."""
    if found := sentinels(url):
        return _broker_url_of(found)
    parts = urls.split(url)
    options = dict(parse_qsl(parts.query))
    if parts.scheme in ("redis", "rediss"):
        return _with_certificates(url, options) if parts.scheme == "rediss" else _plain(url, options)
    if parts.scheme != "unix" or not parts.path:
        raise ValueError("it begins with redis://, rediss://, sentinel://, sentinel+tls:// or unix:///")
    number = options.get("db", "0")
    who = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return f"redis+socket://{who}{parts.path}?virtual_host={number}"


def _broker_url_of(found: Sentinels) -> str:
    name, word = (quote(text, safe="") for text in (found.username, found.password))
    account = f"{name}:{word}@" if name or word else ""
    hosts = (f"[{host}]:{number}" if ":" in host else f"{host}:{number}" for host, number in found.hosts)
    return ";".join(f"sentinel://{account}{host}/{found.database}" for host in hosts)


def broker_options(url: str, seconds: float = SENTINEL_SECONDS) -> dict[str, Any]:
    """Celery's `broker_transport_options` for a REDIS_URL. Raises ValueError."""
    if found := sentinels(url):
        return {"master_name": found.master, "sentinel_kwargs": found.arguments(seconds)}
    return {}


def broker_tls(url: str) -> dict[str, Any] | bool:
    """Celery's `broker_use_ssl` for a REDIS_URL; False: its address says it all. Raises ValueError."""
    found = sentinels(url)
    return dict(found.certificates) if found and found.certificates is not None else False


def _plain(url: str, options: Mapping[str, str]) -> str:
    _check_server(url)
    _refuse_others(options, ())
    return url


def _with_certificates(url: str, options: Mapping[str, str]) -> str:
    """Celery's transport checks certificates only if asked to; redis-py does so by itself."""
    _check_server(url)
    _refuse_others(options, _CERTIFICATES)
    _certificates_of(options)
    if "ssl_cert_reqs" in options:
        return url
    return f"{url}{'&' if options else '?'}ssl_cert_reqs=required"


def _certificates_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of redis-py, and of kombu, which checks no certificate by itself. Raises ValueError."""
    needed, checked = options.get("ssl_cert_reqs", "required"), options.get("ssl_check_hostname", "true")
    if needed not in ("required", "none"):
        raise ValueError("ssl_cert_reqs is required, or none")
    if checked not in ("true", "false"):
        raise ValueError("ssl_check_hostname is true or false")
    files = {name: options[name] for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile") if name in options}
    is_checked = checked == "true" and needed == "required"
    return {**files, "ssl_cert_reqs": needed, "ssl_check_hostname": is_checked}


def _check_server(url: str) -> None:
    parts = _split(url)
    if len(parts.hosts) > 1:
        raise ValueError("Redis has one host; several are Sentinels: sentinel://host,host/0?master=name")
    _database_number(parts.path)


def _database_number(path: str) -> int:
    try:
        return _number(path or "0")
    except ValueError:
        raise ValueError("after the host there is the number of a database, such as /0") from None


def _refuse_others(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    if set(options) - set(known):
        raise ValueError(f"after the question mark there may be {', '.join(known) or 'nothing'}")
