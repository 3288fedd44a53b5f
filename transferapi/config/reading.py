"""The environment, read once into a frozen, typed object. Unknown, wrong and missing values are errors.

A secret may be given as `X` or, as a file that holds it, as `X_FILE`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from identity.federation.providers import parse_providers
from identity.hidden import Secret
from transferapi.traces import settings
from transferapi.traces.settings import is_clear

from . import limits as request_limits
from . import sections as by_area
from . import urls, values
from .declaration import Variable, secret, variable
from .limits import RequestLimits
from .secret_files import secret_text, variable_of
from .values import Whole


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """The processes that `waybill run` starts."""

    web_host: str = variable(
        "WAYBILL_WEB_HOST",
        values.address,
        "127.0.0.1",
        "address at which `waybill run web` and `waybill run events` listen (default 127.0.0.1; 0.0.0.0 or :: for all)",
    )
    web_peer: str = variable(
        "WAYBILL_WEB_PEER",
        lambda text: values.name_and_port(text) if text else "",
        "",
        "name:port of another web server behind the same server in front; while it answers, this one listens only "
        "after it has loaded the application",
    )
    events_port: int = variable(
        "WAYBILL_EVENTS_PORT", values.port, "8004", "port of `waybill run events`, the events server (default 8004)"
    )
    web_processes: int = variable(
        "WAYBILL_WEB_PROCESSES",
        Whole(1, 256, "processes"),
        "2",
        "processes of the web server (default 2); two for each core is enough",
    )
    web_threads: int = variable(
        "WAYBILL_WEB_THREADS",
        Whole(1, 256, "threads"),
        "8",
        "requests that one process of the web server works on at a time (default 8); each may hold a connection to "
        "PostgreSQL",
    )
    worker_threads: int = variable(
        "WAYBILL_WORKER_THREADS",
        Whole(1, 256, "threads"),
        "16",
        "tasks that one worker process moves at a time (default 16)",
    )


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Traces of tasks, for an OpenTelemetry collector."""

    traces: str = variable(
        "WAYBILL_TRACES",
        settings.collector,
        "",
        "the OTLP/HTTP receiver of an OpenTelemetry collector, such as http://127.0.0.1:4318; its path is /v1/traces "
        "where none is given (default: no traces)",
    )
    #: Lines; `traces.settings.headers` reads them.
    traces_headers: Secret | None = secret(
        "WAYBILL_TRACES_HEADERS",
        settings.headers,
        "headers for the collector, one a line, such as Authorization: Bearer ... (or ..._FILE; default: none)",
    )
    traces_ratio: float = variable(
        "WAYBILL_TRACES_RATIO",
        settings.ratio,
        "1",
        "the part of all submissions that is traced, 0 to 1, such as 0.05 (default 1)",
    )


#: Seconds of a request that remain for its response after the longest operation.
ANSWER_SECONDS = 10


class ConfigError(Exception):
    """The environment is wrong; `problems` are sentences that name the variable."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class Config(
    by_area.InstanceSettings,
    ProcessSettings,
    by_area.WebSettings,
    by_area.TargetSettings,
    by_area.CredentialSettings,
    by_area.SignInSettings,
    by_area.StreamSettings,
    by_area.ShellSettings,
    by_area.RelaySettings,
    by_area.MailSettings,
    TraceSettings,
):
    """The configuration of a process."""

    limits: RequestLimits

    @property
    def operation_seconds(self) -> int:
        """Seconds for an operation on an endpoint, or for a logon at a MyProxy server."""
        return self.request_seconds - ANSWER_SECONDS

    @property
    def front_tls(self) -> str:
        """Where this host reaches the TLS of the front server, as host:port; "" if there is none."""
        public = urlsplit(self.public_url)
        if public.scheme != "https" or self.tls_certificate is not None:
            return ""
        return self.front_address or f"{public.netloc.rpartition('@')[2]}{'' if public.port else ':443'}"


#: The variables by the names of their fields.
_VARIABLES: dict[str, Variable] = {
    one.name: one.metadata["variable"] for one in fields(Config) if "variable" in one.metadata
}
#: Every variable that is listed, with its meaning (also in the error where one is unknown).
KNOWN = {one.name: one.meaning for one in _VARIABLES.values() if one.meaning}
KNOWN |= {one.name: f"{one.meaning} (default {one.default})" for one in request_limits.VARIABLES.values()}
SECRETS = tuple(one.name for one in _VARIABLES.values() if one.is_secret)
#: The fields of addresses, and of passwords that may be given apart from them.
_PASSWORDS = {"database_url": "database_password", "redis_url": "redis_password"}


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Read the environment. Raises ConfigError with all that is wrong with it."""
    problems = list(_unknown(environ))
    values = {name: _read(one, environ, problems) for name, one in _VARIABLES.items()}
    for url, password in _PASSWORDS.items():
        values[url] = _with_password(url, password, values, problems)
    values["public_url"] = values["public_url"] if environ.get("WAYBILL_PUBLIC_URL") else _loopback_url(values)
    limits = {name: _read(one, environ, problems) for name, one in request_limits.VARIABLES.items()}
    config = Config(**values, limits=RequestLimits(**limits))
    problems += _contradictions(config, environ)
    if problems:
        raise ConfigError(problems)
    return config


def _read(variable: Variable, environ: Mapping[str, str], problems: list[str]) -> Any:
    """The value of a variable, or its default where it is wrong."""
    try:
        if variable.is_secret:
            return _secret_value(variable, environ)
        return variable.parse(environ.get(variable.name) or variable.default)
    except (ValueError, OSError) as error:
        name = variable_of(environ, variable.name) if variable.is_secret else variable.name
        problems.append(f"{name}: {error}")
        return None if variable.is_secret else variable.parse(variable.default)


def _secret_value(variable: Variable, environ: Mapping[str, str]) -> Secret | None:
    text = secret_text(environ, variable.name)
    if not text:
        return None
    variable.parse(text)
    return Secret(text)


def _with_password(url: str, password: str, values: Mapping[str, Any], problems: list[str]) -> Secret | None:
    """The address with its password. Where they do not fit, the address as it is given."""
    address: Secret | None = values[url]
    given: Secret | None = values[password]
    if given is None:
        return address
    try:
        if address is not None:
            return Secret(urls.with_password(address.value, given.value))
        problems.append(f"{_VARIABLES[password].name}: it needs {_VARIABLES[url].name}, the address without it")
    except ValueError as error:
        problems.append(f"{_VARIABLES[password].name}: {error}")
    return address


def _loopback_url(values: Mapping[str, Any]) -> str:
    scheme = "https" if values["tls_certificate"] else "http"
    return f"{scheme}://127.0.0.1:{values['port']}"


def _contradictions(config: Config, environ: Mapping[str, str]) -> list[str]:
    return [sentence for applies, sentence in _CONTRADICTIONS if applies(config, environ)]


def _half_a_certificate(config: Config, environ: Mapping[str, str]) -> bool:
    return bool(environ.get("WAYBILL_TLS_CERTIFICATE")) != bool(environ.get("WAYBILL_TLS_KEY"))


def _front_secret_alone(config: Config, environ: Mapping[str, str]) -> bool:
    return bool(config.front_secret) and not config.front_servers


def _myproxy_too_long(config: Config, environ: Mapping[str, str]) -> bool:
    return bool(environ.get("WAYBILL_MYPROXY_SECONDS")) and config.myproxy_seconds > config.operation_seconds


def _own_domain(config: Config) -> str:
    return (config.domain or urlsplit(config.public_url).hostname or "").lower()


def _provider_of_own_domain(config: Config, environ: Mapping[str, str]) -> bool:
    providers = parse_providers(config.providers.value).values() if config.providers else ()
    return _own_domain(config) in {one.domain for one in providers}


def _myproxy_of_own_domain(config: Config, environ: Mapping[str, str]) -> bool:
    return _own_domain(config) in {one.domain for one in config.myproxy_sign_in.values()}


def _trace_headers_unprotected(config: Config, environ: Mapping[str, str]) -> bool:
    return bool(config.traces_headers) and (not config.traces or is_clear(config.traces))


def _submission_too_large(config: Config, environ: Mapping[str, str]) -> bool:
    return config.limits.submission > request_limits.MAX_BODY


#: Values of several variables that exclude each other, with the problem as a sentence.
_CONTRADICTIONS = (
    (_half_a_certificate, "WAYBILL_TLS_CERTIFICATE and WAYBILL_TLS_KEY belong together: give both, or neither"),
    (_front_secret_alone, "WAYBILL_FRONT_SECRET: it needs WAYBILL_FRONT_SERVERS, the servers that send it"),
    (_myproxy_too_long, "WAYBILL_MYPROXY_SECONDS: it must be at least 10 less than WAYBILL_REQUEST_SECONDS"),
    (
        _provider_of_own_domain,
        "WAYBILL_PROVIDERS: a provider has the domain of this service; give it another one (domain=)",
    ),
    (
        _myproxy_of_own_domain,
        "WAYBILL_MYPROXY_SIGN_IN: a server has the domain of this service; give another one (domain=)",
    ),
    (_trace_headers_unprotected, "WAYBILL_TRACES_HEADERS: they need WAYBILL_TRACES with https://, or at this machine"),
    (
        _submission_too_large,
        f"WAYBILL_MAX_SUBMISSION: the web server takes {request_limits.MAX_BODY} octets at most",
    ),
)


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
