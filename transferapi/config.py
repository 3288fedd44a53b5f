"""The environment, read once into a frozen, typed object. Unknown, wrong and missing values are errors.

A secret may be given as `X` or, as a file that holds it, as `X_FILE`. A variable is declared once, at its field of
`Config`: its name, its parser, its default and its meaning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from endpoints.addresses.openings import Opening, parse_openings
from endpoints.connect.relay_address import RelayAddress
from endpoints.connect.relay_address import parse as parse_relay_address
from identity.hidden import Secret
from identity.issuers.oauth_clients import clients_of
from identity.vault.keys import parse_keys

from . import config_values, limit_settings, mail_settings
from .config_values import Network

T = TypeVar("T")

#: Seconds of a request that remain for its response after the longest operation.
ANSWER_SECONDS = 10
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
CHECKOUT = Path(__file__).resolve().parent.parent


class _Variable(NamedTuple):
    name: str
    parse: Callable[[str], object]
    default: str
    #: For users, in the help and where a variable is unknown; "": not listed by itself.
    meaning: str
    is_secret: bool = False


def _variable(name: str, parse: Callable[[str], T], default: str, meaning: str = "") -> T:
    """Declare the variable of a field of `Config`, which has the type that the parser returns."""
    return cast(T, field(metadata={"variable": _Variable(name, parse, default, meaning)}))


def _secret(name: str, check: Callable[[str], object], meaning: str) -> Secret | None:
    """Declare a secret, which may also come from a file; check: raises ValueError for a wrong one."""
    variable = _Variable(name, check, "", meaning, is_secret=True)
    return cast(Secret | None, field(metadata={"variable": variable}))


class ConfigError(Exception):
    """The environment is wrong; `problems` are sentences that name the variable."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a process."""

    limits: limit_settings.RequestLimits
    home: Path = _variable(
        "WAYBILL_HOME",
        config_values.absolute_path,
        str(CHECKOUT / ".waybill"),
        "folder for the data, sockets and logs of `make up` (default: .waybill in the checkout)",
    )
    port: int = _variable("WAYBILL_PORT", config_values.port, "8000", "port of the web server (default 8000)")
    secret_key: Secret | None = _secret(
        "WAYBILL_SECRET_KEY", config_values.long_secret, "key that signs sessions and the like (or ..._FILE)"
    )
    allow_targets: tuple[Opening, ...] = _variable(
        "WAYBILL_ALLOW_TARGETS",
        parse_openings,
        "",
        "what the address gate lets through though it is private, with commas: networks, or "
        "networks with ports (10.1.0.0/16, 127.0.0.1:5061, 10.2.0.0/16:2811-2813, [fd00::/8]:2811; default: nothing)",
    )
    allow_webhooks: tuple[Opening, ...] = _variable(
        "WAYBILL_ALLOW_WEBHOOKS",
        parse_openings,
        "",
        "the same for webhooks, which get nowhere by WAYBILL_ALLOW_TARGETS (default: nothing)",
    )
    #: Text; `identity.vault.keys` reads it.
    vault_key: Secret | None = _secret(
        "WAYBILL_VAULT_KEY",
        parse_keys,
        "keys of the vault of credentials, the newest first, with commas (or ..._FILE, one a line); "
        "`waybill vault key` makes one",
    )
    #: The file of the text, if any: it is read again while the service runs, see `identity.vault.sealing`.
    vault_key_file: Path | None = _variable("WAYBILL_VAULT_KEY_FILE", config_values.path_or_none, "")
    certificates: Path = _variable(
        "WAYBILL_CERTIFICATES",
        config_values.absolute_path,
        "/etc/grid-security/certificates",
        "folder of the certificate authorities that are trusted (default /etc/grid-security/certificates)",
    )
    #: Below the time of a request (an operation: 50 s), so that the answer can name the server.
    myproxy_seconds: int = _variable(
        "WAYBILL_MYPROXY_SECONDS",
        config_values.myproxy_seconds,
        "20",
        "seconds that a MyProxy server may take to log a user on, at least 10 less than "
        "WAYBILL_REQUEST_SECONDS; long where a person must confirm by telephone (default 20)",
    )
    delegate_to: tuple[str, ...] = _variable(
        "WAYBILL_DELEGATE_TO",
        config_values.words,
        "",
        "hosts of servers that may be given a (limited) proxy of their user, with commas (default: none)",
    )
    #: Lines; `identity.issuers.oauth_clients` reads them.
    oauth_clients: Secret | None = _secret(
        "WAYBILL_OAUTH_CLIENTS",
        clients_of,
        "how the OAuth servers of endpoints know this service, one a line: "
        "https://server id [secret] (or ..._FILE; default: as a public client with WAYBILL_PUBLIC_URL as its id)",
    )
    oidc_key: Secret | None = _secret(
        "WAYBILL_OIDC_KEY",
        config_values.rsa_key,
        "RSA private key (PEM) that signs identity tokens (or ..._FILE; `make up` makes one)",
    )
    #: Requests a second of one user; 0: no limit.
    rate_limit: int = _variable(
        "WAYBILL_RATE_LIMIT",
        config_values.rate,
        "50",
        "requests a second that one user may make, averaged over 10 s (default 50; 0: no limit)",
    )
    front_servers: tuple[Network, ...] = _variable(
        "WAYBILL_FRONT_SERVERS",
        config_values.networks,
        "",
        "networks of the servers in front, as CIDR, with commas: what they say of a client's "
        "address (X-Forwarded-For) and of https (X-Forwarded-Proto) is believed (default: none)",
    )
    front_secret: Secret | None = _secret(
        "WAYBILL_FRONT_SECRET",
        config_values.header_value,
        "what they also say of a client's certificate is believed where they send this with it, as "
        "X-Waybill-Front-Secret (or ..._FILE; default: never)",
    )
    request_seconds: int = _variable(
        "WAYBILL_REQUEST_SECONDS",
        config_values.request_seconds,
        "60",
        "how long a request may take, 11 to 600 (default 60); an operation on an endpoint gets "
        "10 s less, and a server in front must wait so long",
    )
    #: Octets a second; 0: no limit.
    stream_rate: int = _variable(
        "WAYBILL_STREAM_RATE",
        config_values.octets,
        "0",
        "octets a second that one worker process may move itself, for endpoints without third-party transfers "
        "(SFTP, plain FTP); the tasks share it (default 0: no limit)",
    )
    streams: int = _variable(
        "WAYBILL_STREAMS",
        config_values.streams,
        "32",
        "files that one worker process moves itself at a time, 1 to 1000 (default 32)",
    )
    clear_passwords: bool = _variable(
        "WAYBILL_CLEAR_PASSWORDS",
        config_values.flag,
        "1",
        "0: refuse passwords for plain FTP servers, which travel in clear where the server has no TLS (default 1)",
    )
    ssh_host: str = _variable(
        "WAYBILL_SSH_HOST",
        config_values.address,
        "127.0.0.1",
        "address at which `waybill shell` listens (default 127.0.0.1; 0.0.0.0 or :: for all)",
    )
    ssh_port: int = _variable(
        "WAYBILL_SSH_PORT",
        config_values.port,
        "2222",
        "port of the ssh shell (default 2222; `make up` takes a free one)",
    )
    ssh_sessions: int = _variable(
        "WAYBILL_SSH_SESSIONS",
        config_values.ssh_sessions,
        "500",
        "ssh sessions at a time, 2 to 10000; half of them for one user (default 500)",
    )
    ssh_idle_seconds: int = _variable(
        "WAYBILL_SSH_IDLE_SECONDS",
        config_values.ssh_idle_seconds,
        "1800",
        "seconds without input and output after which an ssh session ends, 10 to 604800 (default 1800)",
    )
    relay: RelayAddress = _variable(
        "WAYBILL_RELAY",
        parse_relay_address,
        "127.0.0.1:8003",
        "where `waybill relay` is reached, host:port or unix:/path (default 127.0.0.1:8003; `make up` has a socket)",
    )
    relay_listen: RelayAddress | None = _variable(
        "WAYBILL_RELAY_LISTEN",
        lambda text: parse_relay_address(text) if text else None,
        "",
        "where `waybill relay` listens, if that is another address, such as 0.0.0.0:8003 (default: WAYBILL_RELAY)",
    )
    relay_rate: int = _variable(
        "WAYBILL_RELAY_RATE",
        config_values.octets_a_second,
        "20000000",
        "octets a second that the relay passes on between computers for one user (default 20000000; 0: no limit)",
    )
    relay_channels: int = _variable(
        "WAYBILL_RELAY_CHANNELS",
        config_values.relay_channels,
        "64",
        "relayed data channels of one user at a time, 1 to 256 (default 64)",
    )
    tls_certificate: Path | None = _variable(
        "WAYBILL_TLS_CERTIFICATE",
        config_values.file_or_none,
        "",
        "certificate chain (PEM file) with which the web server ends TLS itself (default: it speaks http)",
    )
    tls_key: Path | None = _variable(
        "WAYBILL_TLS_KEY", config_values.file_or_none, "", "private key (PEM file) of that certificate"
    )
    connect_pins: tuple[str, ...] = _variable(
        "WAYBILL_CONNECT_PINS",
        config_values.pins,
        "",
        "SHA-256 of the TLS keys (SubjectPublicKeyInfo, hexadecimal) that agents accept for this service, "
        "with commas, or none (default: that of WAYBILL_TLS_CERTIFICATE, unless an authority of this system signed it)",
    )
    #: A URL; `mail_settings` reads it.
    mail: Secret | None = _secret(
        "WAYBILL_MAIL",
        mail_settings.parse,
        "smtp://user:password@host:587, smtps://..., file:///folder or console: (or ..._FILE; default console:)",
    )
    mail_from: str = _variable(
        "WAYBILL_MAIL_FROM", str, "waybill@localhost", "the sender of all mails (default waybill@localhost)"
    )
    debug: bool = _variable(
        "WAYBILL_DEBUG",
        config_values.flag,
        "0",
        "1 shows tracebacks in answers; never where others can reach it (default 0)",
    )
    hosts: tuple[str, ...] = _variable(
        "WAYBILL_HOSTS",
        config_values.words,
        ",".join(LOOPBACK_HOSTS),
        "host names that the web server answers to, with commas (default: the loopback ones)",
    )
    public_url: str = _variable(
        "WAYBILL_PUBLIC_URL",
        config_values.web_address,
        "http://127.0.0.1",
        "how users reach this service (default http://127.0.0.1:WAYBILL_PORT, or https)",
    )
    log_level: str = _variable(
        "WAYBILL_LOG_LEVEL", config_values.log_level, "INFO", "DEBUG, INFO, WARNING or ERROR (default INFO)"
    )
    database_url: Secret | None = _secret(
        "DATABASE_URL",
        config_values.database,
        "postgresql://user:password@host:port/name or ...@/name?host=/socket/folder (or ..._FILE)",
    )
    redis_url: Secret | None = _secret(
        "REDIS_URL",
        config_values.broker_url,
        "redis://host:port/0, rediss://... or unix:///path/to/socket?db=0 (or ..._FILE)",
    )

    @property
    def operation_seconds(self) -> int:
        """Seconds for an operation on an endpoint, or for a logon at a MyProxy server."""
        return self.request_seconds - ANSWER_SECONDS


#: The variables by the names of their fields.
_VARIABLES: dict[str, _Variable] = {
    one.name: one.metadata["variable"] for one in fields(Config) if "variable" in one.metadata
}
#: Every variable that is listed, with its meaning (also in the error where one is unknown).
KNOWN = {one.name: one.meaning for one in _VARIABLES.values() if one.meaning} | limit_settings.KNOWN
SECRETS = tuple(one.name for one in _VARIABLES.values() if one.is_secret)


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Read the environment. Raises ConfigError with all that is wrong with it."""
    problems = list(_unknown(environ))
    values = {name: _read(one, environ, problems) for name, one in _VARIABLES.items()}
    values["public_url"] = values["public_url"] if environ.get("WAYBILL_PUBLIC_URL") else _loopback_url(values)
    config = Config(**values, limits=_limits(environ, problems))
    problems += _contradictions(config, environ)
    if problems:
        raise ConfigError(problems)
    return config


def _read(variable: _Variable, environ: Mapping[str, str], problems: list[str]) -> Any:
    """The value of a variable, or its default where it is wrong."""
    try:
        if variable.is_secret:
            return _secret_value(variable, environ)
        return variable.parse(environ.get(variable.name) or variable.default)
    except (ValueError, OSError) as error:
        problems.append(f"{variable.name}: {error}")
        return None if variable.is_secret else variable.parse(variable.default)


def _secret_value(variable: _Variable, environ: Mapping[str, str]) -> Secret | None:
    text = _secret_text(environ, variable.name)
    if not text:
        return None
    variable.parse(text)
    return Secret(text)


def _loopback_url(values: Mapping[str, Any]) -> str:
    scheme = "https" if values["tls_certificate"] else "http"
    return f"{scheme}://127.0.0.1:{values['port']}"


def _limits(environ: Mapping[str, str], problems: list[str]) -> limit_settings.RequestLimits:
    defaults = limit_settings.DEFAULTS
    variables = {
        name: _Variable(variable, limit_settings.parse, str(getattr(defaults, name)), meaning)
        for variable, (name, meaning) in limit_settings.VARIABLES.items()
    }
    return limit_settings.RequestLimits(**{name: _read(one, environ, problems) for name, one in variables.items()})


def _contradictions(config: Config, environ: Mapping[str, str]) -> list[str]:
    problems = []
    if bool(environ.get("WAYBILL_TLS_CERTIFICATE")) != bool(environ.get("WAYBILL_TLS_KEY")):
        problems.append("WAYBILL_TLS_CERTIFICATE and WAYBILL_TLS_KEY belong together: give both, or neither")
    if config.front_secret and not config.front_servers:
        problems.append("WAYBILL_FRONT_SECRET: it needs WAYBILL_FRONT_SERVERS, the servers that send it")
    if environ.get("WAYBILL_MYPROXY_SECONDS") and config.myproxy_seconds > config.operation_seconds:
        problems.append("WAYBILL_MYPROXY_SECONDS: it must be at least 10 less than WAYBILL_REQUEST_SECONDS")
    if config.limits.submission > limit_settings.MAX_BODY:
        problems.append(f"WAYBILL_MAX_SUBMISSION: the web server takes {limit_settings.MAX_BODY} octets at most")
    return problems


def load_or_exit() -> Config:
    """Read the environment; where it is wrong, print why without a traceback and exit with status 78 (EX_CONFIG)."""
    try:
        return load()
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"waybill: {problem}\n")
        raise SystemExit(78) from None


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
