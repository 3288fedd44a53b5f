"""The environment variables, by area. A variable is declared once: its name, its parser, its default, its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from endpoints.addresses.openings import AllowedTarget, parse_openings
from endpoints.connect.relay_address import DataPorts, RelayAddress, parse_data_ports
from endpoints.connect.relay_address import parse as parse_relay_address
from identity.federation import saml_sources
from identity.federation.myproxy import MyProxyProvider, parse_servers
from identity.federation.providers import parse_providers
from identity.hidden import Secret
from identity.issuers.oauth_clients import clients_of
from identity.provider import signing_key_file
from identity.sign_up_policy import SignUpPolicy
from identity.sign_up_policy import parse as parse_sign_up
from identity.vault.keys import parse_keys
from transferapi.logs.setup import log_format

from . import mail as mail_address
from . import servers, values
from .declaration import secret, variable
from .values import Network, Whole

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
CHECKOUT = values.CHECKOUT


@dataclass(frozen=True, kw_only=True)
class InstanceSettings:
    """Where the service lives, and its servers."""

    home: Path = variable(
        "WAYBILL_HOME",
        values.absolute_path,
        values.default_home(),
        "folder for the data, sockets and logs of `make up` (default: .waybill in the checkout, else ~/.waybill)",
    )
    port: int = variable("WAYBILL_PORT", values.port, "8000", "port of the web server (default 8000)")
    debug: bool = variable(
        "WAYBILL_DEBUG",
        values.flag,
        "0",
        "1 shows tracebacks in answers; never where others can reach it (default 0)",
    )
    hosts: tuple[str, ...] = variable(
        "WAYBILL_HOSTS",
        values.words,
        ",".join(LOOPBACK_HOSTS),
        "host names that the web server answers to, with commas (default: the loopback ones)",
    )
    public_url: str = variable(
        "WAYBILL_PUBLIC_URL",
        values.web_address,
        "http://127.0.0.1",
        "how users reach this service (default http://127.0.0.1:WAYBILL_PORT, or https)",
    )
    domain: str = variable(
        "WAYBILL_DOMAIN",
        values.domain,
        "",
        "domain of the users, who are name@domain for programs (default: the host of WAYBILL_PUBLIC_URL)",
    )
    log_level: str = variable(
        "WAYBILL_LOG_LEVEL", values.log_level, "INFO", "DEBUG, INFO, WARNING or ERROR (default INFO)"
    )
    log_format: str = variable(
        "WAYBILL_LOG_FORMAT", log_format, "text", "text, or json: one object a line (default text)"
    )
    database_url: Secret | None = secret(
        "DATABASE_URL",
        servers.database,
        "postgresql://user:password@host:port/name, with several hosts ...@a:5432,b:5432/name, or "
        "...@/name?host=/socket/folder (or ..._FILE)",
    )
    redis_url: Secret | None = secret(
        "REDIS_URL",
        servers.broker_url,
        "redis://:password@host:port/0, rediss://... (TLS), sentinel://:password@a:26379,b:26379/0?master=name, "
        "sentinel+tls://... or unix:///path/to/socket?db=0 (or ..._FILE)",
    )
    database_reserve: int = variable(
        "WAYBILL_DATABASE_RESERVE",
        Whole(0, 10_000, "connections"),
        "10",
        "connections of those that PostgreSQL allows which workers leave to the web server (default 10)",
    )
    task_days: int = variable(
        "WAYBILL_TASK_DAYS",
        values.task_days,
        "365",
        "days for which the record of a completed task is kept, 31 to 36500 (default 365; 0: for ever)",
    )
    #: `config.reading` puts both passwords into the addresses.
    database_password: Secret | None = secret(
        "WAYBILL_DATABASE_PASSWORD",
        values.password,
        "the password for DATABASE_URL, where that has none (or ..._FILE)",
    )
    redis_password: Secret | None = secret(
        "WAYBILL_REDIS_PASSWORD",
        values.password,
        "the password for REDIS_URL, where that has none (or ..._FILE)",
    )
    secret_key: Secret | None = secret(
        "WAYBILL_SECRET_KEY", values.long_secret, "key that signs sessions and the like (or ..._FILE)"
    )


@dataclass(frozen=True, kw_only=True)
class WebSettings:
    """The web server, and the servers in front of it."""

    #: Requests a second of one user; 0: no limit.
    rate_limit: int = variable(
        "WAYBILL_RATE_LIMIT",
        Whole(0, 999_999, "requests a second"),
        "50",
        "requests a second that one user may make, averaged over 10 s (default 50; 0: no limit)",
    )
    front_servers: tuple[Network, ...] = variable(
        "WAYBILL_FRONT_SERVERS",
        values.networks,
        "",
        "networks of the servers in front, as CIDR, with commas: what they say of a client's "
        "address (X-Forwarded-For) and of https (X-Forwarded-Proto) is believed (default: none)",
    )
    front_secret: Secret | None = secret(
        "WAYBILL_FRONT_SECRET",
        values.header_value,
        "what they also say of a client's certificate is believed where they send this with it, as "
        "X-Waybill-Front-Secret (or ..._FILE; default: never)",
    )
    monitors: tuple[Network, ...] = variable(
        "WAYBILL_MONITORS",
        values.networks,
        "127.0.0.0/8,::1/128",
        "networks of those who watch the service, as CIDR, with commas: they see in /readyz why it is not ready, "
        "and /metrics (default: loopback)",
    )
    metrics_token: Secret | None = secret(
        "WAYBILL_METRICS_TOKEN",
        values.long_secret,
        "who sends this as a bearer token sees the same, from any address (or ..._FILE; default: nobody)",
    )
    front_address: str = variable(
        "WAYBILL_FRONT_ADDRESS",
        lambda text: values.name_and_port(text) if text else "",
        "",
        "host:port at which this web server reaches the TLS of the server in front, for the end of its certificate in "
        "/metrics (default: those of WAYBILL_PUBLIC_URL, where that is https and WAYBILL_TLS_CERTIFICATE is not set)",
    )
    request_seconds: int = variable(
        "WAYBILL_REQUEST_SECONDS",
        Whole(11, 600, "seconds"),
        "60",
        "how long a request may take, 11 to 600 (default 60); an operation on an endpoint gets "
        "10 s less, and a server in front must wait so long",
    )
    tls_certificate: Path | None = variable(
        "WAYBILL_TLS_CERTIFICATE",
        values.file_or_none,
        "",
        "certificate chain (PEM file) with which the web server ends TLS itself: in a laboratory, or for client "
        "certificates with proxies (default: it speaks http)",
    )
    tls_key: Path | None = variable(
        "WAYBILL_TLS_KEY", values.file_or_none, "", "private key (PEM file) of that certificate"
    )
    connect_pins: tuple[str, ...] = variable(
        "WAYBILL_CONNECT_PINS",
        values.pins,
        "",
        "SHA-256 of the TLS keys (SubjectPublicKeyInfo, hexadecimal) that agents accept for this service, "
        "with commas, or none (default: that of WAYBILL_TLS_CERTIFICATE, unless an authority of this system signed it)",
    )


@dataclass(frozen=True, kw_only=True)
class TargetSettings:
    """Which addresses the service connects to for its users, and how long it waits there."""

    allow_targets: tuple[AllowedTarget, ...] = variable(
        "WAYBILL_ALLOW_TARGETS",
        parse_openings,
        "",
        "what the address gate lets through though it is private, with commas: networks, or "
        "networks with ports (10.1.0.0/16, 127.0.0.1:5061, 10.2.0.0/16:2811-2813, [fd00::/8]:2811; default: nothing)",
    )
    allow_webhooks: tuple[AllowedTarget, ...] = variable(
        "WAYBILL_ALLOW_WEBHOOKS",
        parse_openings,
        "",
        "the same for webhooks, which get nowhere by WAYBILL_ALLOW_TARGETS (default: nothing)",
    )
    allow_providers: tuple[AllowedTarget, ...] = variable(
        "WAYBILL_ALLOW_PROVIDERS",
        parse_openings,
        "",
        "the same for the providers by which users sign in, inside an institution (default: nothing)",
    )
    listing_seconds: int = variable(
        "WAYBILL_LISTING_SECONDS",
        Whole(90, 86_400, "seconds"),
        "900",
        "seconds for which a server may be silent while a task lists a folder, as tape systems are (default 900)",
    )


@dataclass(frozen=True, kw_only=True)
class CredentialSettings:
    """Credentials, the authorities that are trusted, and the servers that give credentials."""

    #: Text; `identity.vault.keys` reads it.
    vault_key: Secret | None = secret(
        "WAYBILL_VAULT_KEY",
        parse_keys,
        "keys of the vault of credentials, the newest first, with commas (or ..._FILE, one a line); "
        "`waybill vault key` makes one",
    )
    #: The file of the text, if any: it is read again while the service runs, see `identity.vault.sealing`.
    vault_key_file: Path | None = variable("WAYBILL_VAULT_KEY_FILE", values.path_or_none, "")
    certificates: Path = variable(
        "WAYBILL_CERTIFICATES",
        values.absolute_path,
        "/etc/grid-security/certificates",
        "folder of the certificate authorities that are trusted (default /etc/grid-security/certificates)",
    )
    #: Below the time of a request (an operation: 50 s), so that the answer can name the server.
    myproxy_seconds: int = variable(
        "WAYBILL_MYPROXY_SECONDS",
        Whole(1, 590, "seconds"),
        "20",
        "seconds that a MyProxy server may take to log a user on, at least 10 less than "
        "WAYBILL_REQUEST_SECONDS; long where a person must confirm by telephone (default 20)",
    )
    delegate_to: tuple[str, ...] = variable(
        "WAYBILL_DELEGATE_TO",
        values.words,
        "",
        "hosts of servers that may be given a (limited) proxy of their user, with commas (default: none)",
    )
    #: Lines; `identity.issuers.oauth_clients` reads them.
    oauth_clients: Secret | None = secret(
        "WAYBILL_OAUTH_CLIENTS",
        clients_of,
        "how the OAuth servers of endpoints know this service, one a line: "
        "https://server id [secret] (or ..._FILE; default: as a public client with WAYBILL_PUBLIC_URL as its id)",
    )
    clear_passwords: bool = variable(
        "WAYBILL_CLEAR_PASSWORDS",
        values.flag,
        "1",
        "0: refuse passwords for plain FTP servers, which travel in clear where the server has no TLS (default 1)",
    )


@dataclass(frozen=True, kw_only=True)
class SignInSettings:
    """How users sign in here, and how programs sign them in."""

    sign_up: SignUpPolicy = variable(
        "WAYBILL_SIGN_UP",
        parse_sign_up,
        "closed",
        "who may make an account: closed, open, invitation, or domain:example.org,example.net (default closed)",
    )
    audit_days: int = variable(
        "WAYBILL_AUDIT_DAYS",
        values.audit_days,
        "365",
        "days for which the audit log is kept, 30 to 36500 (default 365; 0: for ever)",
    )
    oidc_key: Secret | None = secret(
        "WAYBILL_OIDC_KEY",
        signing_key_file.parse,
        "RSA private key (PEM) that signs identity tokens (or ..._FILE, in which `waybill oidc rotate` puts a new one; "
        "`make up` makes one)",
    )
    #: Lines; `identity.federation.providers` reads them.
    providers: Secret | None = secret(
        "WAYBILL_PROVIDERS",
        parse_providers,
        "OpenID Connect and OAuth2 providers by which users sign in, one a line: "
        "google|github|orcid|cilogon|https://issuer id [secret] [domain=...] [label=...] (or ..._FILE; default: none)",
    )
    myproxy_sign_in: Mapping[str, MyProxyProvider] = variable(
        "WAYBILL_MYPROXY_SIGN_IN",
        parse_servers,
        "",
        "MyProxy servers by whose names and passphrases users sign in, with commas: "
        "host[:port] [domain=...] [label=...] (default: none)",
    )
    #: The file of the text, if any: it is read again while the service runs.
    oidc_key_file: Path | None = variable("WAYBILL_OIDC_KEY_FILE", values.path_or_none, "")
    saml_metadata: tuple[str, ...] = variable(
        "WAYBILL_SAML_METADATA",
        saml_sources.parse,
        "",
        "metadata of institutions by which users sign in (SAML 2.0): files, or addresses whose metadata are signed, "
        "with commas (default: none)",
    )
    saml_certificate: Path | None = variable(
        "WAYBILL_SAML_CERTIFICATE",
        values.file_or_none,
        "",
        "certificates (PEM file) of the keys that sign these metadata (default: files are believed, addresses not)",
    )
    #: PEM; `identity.federation.saml` reads it.
    saml_key: Secret | None = secret(
        "WAYBILL_SAML_KEY",
        saml_sources.check_key,
        "RSA private key (PEM) that decrypts what institutions send, and signs requests (or ..._FILE)",
    )
    saml_sign_requests: bool = variable(
        "WAYBILL_SAML_SIGN_REQUESTS",
        values.flag,
        "1",
        "0: requests to institutions are not signed, also where there is WAYBILL_SAML_KEY (default 1)",
    )


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Files that pass through a worker process."""

    #: Octets a second; 0: no limit.
    stream_rate: int = variable(
        "WAYBILL_STREAM_RATE",
        Whole(0, 999_999_999, "octets a second"),
        "0",
        "octets a second that all worker processes together may move themselves, for endpoints without third-party "
        "transfers (SFTP, plain FTP); processes and tasks share it (default 0: no limit)",
    )
    streams: int = variable(
        "WAYBILL_STREAMS",
        Whole(1, 1000, "files"),
        "32",
        "files that one worker process moves itself at a time, 1 to 1000 (default 32)",
    )


@dataclass(frozen=True, kw_only=True)
class ShellSettings:
    """The ssh shell."""

    ssh_host: str = variable(
        "WAYBILL_SSH_HOST",
        values.address,
        "127.0.0.1",
        "address at which `waybill shell` listens (default 127.0.0.1; 0.0.0.0 or :: for all)",
    )
    ssh_port: int = variable(
        "WAYBILL_SSH_PORT",
        values.port,
        "2222",
        "port of the ssh shell (default 2222; `make up` takes a free one)",
    )
    ssh_sessions: int = variable(
        "WAYBILL_SSH_SESSIONS",
        Whole(2, 10_000, "sessions"),
        "500",
        "ssh sessions at a time, 2 to 10000; half of them for one user (default 500)",
    )
    ssh_idle_seconds: int = variable(
        "WAYBILL_SSH_IDLE_SECONDS",
        Whole(10, 7 * 24 * 3600, "seconds"),
        "1800",
        "seconds without input and output after which an ssh session ends, 10 to 604800 (default 1800)",
    )


@dataclass(frozen=True, kw_only=True)
class RelaySettings:
    """The relay of agents."""

    relay: RelayAddress = variable(
        "WAYBILL_RELAY",
        parse_relay_address,
        "127.0.0.1:8003",
        "where `waybill relay` is reached, host:port or unix:/path (default 127.0.0.1:8003; `make up` chooses a port)",
    )
    relay_listen: RelayAddress | None = variable(
        "WAYBILL_RELAY_LISTEN",
        lambda text: parse_relay_address(text) if text else None,
        "",
        "where `waybill relay` listens, if that is another address, such as 0.0.0.0:8003 (default: WAYBILL_RELAY)",
    )
    relay_rate: int = variable(
        "WAYBILL_RELAY_RATE",
        values.octets_a_second,
        "20000000",
        "octets a second that the relay passes on between computers for one user (default 20000000; 0: no limit)",
    )
    relay_channels: int = variable(
        "WAYBILL_RELAY_CHANNELS",
        Whole(1, 256, "channels"),
        "64",
        "relayed data channels of one user at a time, 1 to 256 (default 64)",
    )
    relay_data: DataPorts | None = variable(
        "WAYBILL_RELAY_DATA",
        lambda text: parse_data_ports(text) if text else None,
        "",
        "ports of `waybill relay` to which servers may connect with small files for agents, such as "
        "198.51.100.7:50000-50999 (default: none)",
    )


@dataclass(frozen=True, kw_only=True)
class MailSettings:
    """Mails."""

    #: A URL; `config.mail` reads it.
    mail: Secret | None = secret(
        "WAYBILL_MAIL",
        mail_address.parse,
        "smtp://user:password@host:587, smtps://..., file:///folder or console: (or ..._FILE; default console:)",
    )
    mail_from: str = variable(
        "WAYBILL_MAIL_FROM", str, "waybill@localhost", "the sender of all mails (default waybill@localhost)"
    )
