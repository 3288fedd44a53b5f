"""The fields of the endpoint document that clients write, each with its check."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from identity.error_categories import NOT_SUPPORTED, InvalidFieldError
from identity.gsi.printable import FORBIDDEN, FORBIDDEN_IN_LINES
from identity.issuers.oauth_clients import parse_server
from identity.issuers.oauth_errors import ServerAddressError
from identity.vault.bindings import MYPROXY_PORT

from . import assurance, bandwidth, network_use
from .addresses.gate import valid_host
from .gridftp.third_party.data_path import LAST_SYSTEM_PORT
from .models import Endpoint

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
#: A new endpoint with this flag is served by an agent. `globus gcp update` sets it for all endpoints that it changes.
PERSONAL = "is_globus_connect"
#: Features that this service does not have. A request for them is refused: users would otherwise believe that the
#: endpoint is safer than it is. False and null ask for nothing.
_FLAGS_NOT_HERE = (
    "high_assurance", "restrict_transfers_to_high_assurance", "disable_anonymous_writes",
    "preserve_modtime", "requester_pays",
)  # fmt: skip
_NOT_HERE = (
    *_FLAGS_NOT_HERE, "subscription_id", "authentication_policy_id",
    "acl_max_expiration_period_mins", "auto_delete_timeout", "guest_collection_activity_notification_policy",
    "associated_flow_policy",
)  # fmt: skip
Check = Callable[[str, object], object]

#: Their names are looked up before files move.
MAX_DATA_HOSTS = 32


def wants_agent(fields: Mapping[str, object], servers: Sequence[object]) -> bool:
    """Whether a new endpoint is to be served by an agent. Raises InvalidFieldError when it also names servers."""
    if fields.get(PERSONAL) and servers:
        raise InvalidFieldError("DATA", "A personal endpoint has no servers: the agent on its machine serves it.")
    return bool(fields.get(PERSONAL))


def checked(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """The new values of the columns of this endpoint: the fields that are known, each checked.

    Raises InvalidFieldError, InvalidFieldError. Other fields are ignored, as by the Transfer API.
    """
    _refuse_promises(fields)
    values = {name: check(name, fields[name]) for name, check in _CLEARED_BY_NULL.items() if name in fields}
    given = {name: check for name, check in _KEPT_BY_NULL.items() if fields.get(name) is not None}
    values |= {name: check(name, fields[name]) for name, check in given.items()}
    _check_verify(endpoint, values)
    return values | network_use.changed(endpoint, fields)


#: A shared endpoint has none of these: nobody activates it, and its host has the limits.
_CREDENTIALS = ("myproxy_server", "myproxy_dn", "oauth_server", "jump_host", "data_ports")
_LIMITS = ("network_use", *network_use.NetworkLimits._fields)


def checked_of_share(share: Endpoint, host: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """`checked` for a shared endpoint, which refuses the fields that only its host has.

    A value that the host has already is accepted: a document that was read can be written back.
    """
    for field in _CREDENTIALS:
        if fields.get(field):
            raise InvalidFieldError(field, "A shared endpoint has none: its owner's credential serves all.")
    for field in ("data_hosts", "bandwidth_limits"):
        if fields.get(field):
            raise InvalidFieldError(field, "A shared endpoint has none of its own; change those of its host.")
    asked = network_use.changed(host, {name: fields[name] for name in _LIMITS if name in fields})
    for field, value in asked.items():
        if value != getattr(host, field):
            raise InvalidFieldError(field, "A shared endpoint has none of its own; change that of its host.")
    own = {name: value for name, value in fields.items() if name not in (*_CREDENTIALS, *_LIMITS)}
    values = checked(share, own)
    if values.get("default_directory") == "/~/":
        values["default_directory"] = "/"
    return values


def host_and_port(text: str, default_port: int) -> tuple[str, int]:
    """Read "host", "host:port" or "[address]:port", without a look-up. Raises ValueError."""
    parts = urlsplit(f"//{text}")
    port = default_port if parts.port is None else parts.port
    host = parts.hostname or ""
    if (
        parts.netloc != text
        or text.endswith(":")
        or "@" in text
        or FORBIDDEN.search(text)
        or not valid_host(host)
        or not port
    ):
        raise ValueError("no host and port")
    return host, port


def joined(host: str, port: int) -> str:
    """The one spelling of a host and its port: "host:port", "[address]:port"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(longest: int, controls: re.Pattern[str] = FORBIDDEN) -> Callable[[str, object], str]:
    """A text of at most so many characters (octets for the directory); null empties it."""

    def check(field: str, value: object) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise InvalidFieldError(field, "Expected a string.")
        if len(value) > longest or controls.search(value):
            raise InvalidFieldError(field, f"At most {longest} characters, and no control ones.")
        return value

    return check


def _refuse_promises(fields: Mapping[str, object]) -> None:
    for field in (PERSONAL, *_FLAGS_NOT_HERE):
        if fields.get(field) is not None:
            _flag(field, fields[field])
    for field in _NOT_HERE:
        if fields.get(field):
            raise InvalidFieldError(field, "This version has no endpoints with that.", NOT_SUPPORTED)


def _link(field: str, value: object) -> str:
    """Clients make a link of it that people click."""
    text = _text(1024)(field, value)
    if text and not text.startswith(("https://", "http://")):
        raise InvalidFieldError(field, "Expected an address that begins with https:// or http://.")
    return text


def _check_verify(endpoint: Endpoint, values: Mapping[str, object]) -> None:
    if all(values.get(name, getattr(endpoint, name)) for name in ("force_verify", "disable_verify")):
        named = "force_verify" if "force_verify" in values else "disable_verify"
        raise InvalidFieldError(named, "Either force_verify or disable_verify, not both.")


def _myproxy_server(field: str, value: object) -> str:
    """The address with its port, so that endpoints with the same server have the same text."""
    text = _text(261)(field, value)
    if not text:
        return ""
    try:
        return joined(*host_and_port(text, MYPROXY_PORT))
    except ValueError:
        raise InvalidFieldError(field, "This is not a host name, with or without :port.") from None


def _oauth_server(field: str, value: object) -> str:
    """https://host[:port][/path], with the host in lower case, without the default port and without a last slash."""
    text = _text(1024)(field, value)
    if not text:
        return ""
    try:
        url = parse_server(text)
    except ServerAddressError as error:
        raise InvalidFieldError(field, error.message) from None
    if url.scheme != "https" or not valid_host(url.host):
        raise InvalidFieldError(field, "Expected an address such as https://host/path.")
    return str(url)


def _data_hosts(field: str, value: object) -> list[str]:
    """Host names or addresses, in lower case, each once; null: none."""
    names = [] if value is None else value
    if not isinstance(names, list) or len(names) > MAX_DATA_HOSTS:
        raise InvalidFieldError(field, f"Expected a list of at most {MAX_DATA_HOSTS} host names.")
    for name in names:
        if not isinstance(name, str) or not valid_host(name):
            raise InvalidFieldError(field, "Each of them is a host name or an address, without a port.")
    return list(dict.fromkeys(name.lower() for name in names))


def _data_ports(field: str, value: object) -> str:
    """ "LOW-HIGH", above the well-known ports, as `data_path.refusal` wants them; null or "": any."""
    text = _text(11)(field, value)
    if not text:
        return ""
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and LAST_SYSTEM_PORT < int(low) <= int(high) < 65536):
        raise InvalidFieldError(field, "Expected a range such as 50000-51000, with ports from 1024 to 65535.")
    return f"{int(low)}-{int(high)}"


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidFieldError(field, "A name has 1 to 128 letters, digits, dots, hyphens and underscores.")
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        raise InvalidFieldError(field, "A name must not look like an endpoint's id.")
    return value


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidFieldError(field, "Expected true or false.")
    return value


def _directory(field: str, value: object) -> str:
    if value is None or value == "":
        return "/~/"
    text = _text(4096)(field, value)
    if not text.startswith("/") or ".." in text.split("/"):
        raise InvalidFieldError(field, "A directory is absolute, or begins with /~/.")
    return text


#: The fields that a client writes, each with its check.
_CLEARED_BY_NULL: dict[str, Check] = {
    "display_name": _text(256),
    "description": _text(4096, FORBIDDEN_IN_LINES),
    "organization": _text(256),
    "department": _text(256),
    "keywords": _text(1024),
    "contact_email": _text(256),
    "contact_info": _text(1024),
    "info_link": _text(1024),
    "default_directory": _directory,
    "user_message": _text(4096, FORBIDDEN_IN_LINES),
    "user_message_link": _link,
    "authentication_timeout_mins": assurance.checked_minutes,
    "authentication_domains": assurance.checked_domains,
    "myproxy_server": _myproxy_server,
    "myproxy_dn": _text(1024),
    "oauth_server": _oauth_server,
    "data_hosts": _data_hosts,
    "data_ports": _data_ports,
    "bandwidth_limits": bandwidth.checked,
    # The registry looks the endpoint up.
    "jump_host": _text(512),
}
_KEPT_BY_NULL: dict[str, Check] = {
    "name": _name,
    **dict.fromkeys(("public", "allow_guest_collections", "force_encryption", "force_verify", "disable_verify"), _flag),
    "mfa_required": _flag,
}
#: All fields of the document that a client may write, and those whose `true` is refused.
WRITABLE = (*_KEPT_BY_NULL, *_CLEARED_BY_NULL, *_LIMITS, PERSONAL, *_FLAGS_NOT_HERE)
