"""The fields of an endpoint's document that a user sets, and what each may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from identity.bindings import MYPROXY_PORT
from identity.oauth_errors import ServerAddressError
from identity.web_address import parse_url

from . import limits
from .errors import EndpointInvalidError, FieldNotSupportedError
from .gate import valid_host
from .models import Endpoint

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
#: Columns that a user sets, and the longest text of each (octets for the directory).
_TEXTS = {
    "display_name": 256,
    "description": 4096,
    "organization": 256,
    "department": 256,
    "keywords": 1024,
    "contact_email": 256,
    "contact_info": 1024,
    "info_link": 1024,
    "myproxy_dn": 1024,
    "user_message": 4096,
    "user_message_link": 1024,
}
_OF_LINES = ("description", "user_message")
_FLAGS = ("public", "allow_guest_collections", "force_encryption", "force_verify", "disable_verify")
#: Who makes one with this wants a personal endpoint. `globus gcp update` says it of all endpoints that it changes.
PERSONAL = "is_globus_connect"
#: What other services do with an endpoint and this one does not: who asks for it is told so, rather than believing that
#: his endpoint is safer, or his users better off, than they are. False and null ask for nothing.
_FLAGS_NOT_HERE = (
    "high_assurance", "mfa_required", "restrict_transfers_to_high_assurance", "disable_anonymous_writes",
    "preserve_modtime", "requester_pays",
)  # fmt: skip
_NOT_HERE = (
    *_FLAGS_NOT_HERE, "subscription_id", "authentication_policy_id", "authentication_timeout_mins",
    "acl_max_expiration_period_mins", "auto_delete_timeout", "guest_collection_activity_notification_policy",
    "associated_flow_policy",
)  # fmt: skip
#: Their names are looked up before files move.
MAX_DATA_HOSTS = 32
#: Surrogates too: they are no characters, and PostgreSQL refuses them.
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def refuse_personal(fields: Mapping[str, object]) -> None:
    """-> FieldNotSupportedError"""
    if fields.get(PERSONAL):
        raise FieldNotSupportedError(PERSONAL, "This version cannot make personal endpoints yet.")


def checked(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """What becomes of the columns of this endpoint: the fields that we know, each checked.

    -> EndpointInvalidError. Others are passed over, as the Transfer API does, but for those that would be promises.
    """
    _refuse_promises(fields)
    values: dict[str, object] = {}
    for field, longest in _TEXTS.items():
        if field in fields:
            values[field] = _text(field, fields[field], longest)
    if fields.get("name") is not None:
        values["name"] = _name(fields["name"])
    for field in _FLAGS:
        if fields.get(field) is not None:
            values[field] = _flag(field, fields[field])
    if "user_message_link" in values:
        _check_link("user_message_link", str(values["user_message_link"]))
    _check_verify(endpoint, values)
    if "default_directory" in fields:
        values["default_directory"] = _directory(fields["default_directory"])
    if "myproxy_server" in fields:
        values["myproxy_server"] = _myproxy_server(fields["myproxy_server"])
    if "oauth_server" in fields:
        values["oauth_server"] = _oauth_server(fields["oauth_server"])
    if "data_hosts" in fields:
        values["data_hosts"] = _data_hosts(fields["data_hosts"])
    return values | limits.changed(endpoint, fields)


#: What a shared endpoint has not of its own: nobody activates it, and how hard it is worked is said of its host.
_CREDENTIALS = ("myproxy_server", "myproxy_dn", "oauth_server")
_LIMITS = ("network_use", *limits.Limits._fields)


def checked_of_share(share: Endpoint, host: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """The same for a shared endpoint. What it cannot have is refused by name, unless it says what is so already: a
    document that was read can be written back."""
    for field in _CREDENTIALS:
        if fields.get(field):
            raise EndpointInvalidError(field, "A shared endpoint has none: its owner's credential serves all.")
    if fields.get("data_hosts"):
        raise EndpointInvalidError("data_hosts", "A shared endpoint has none of its own; change those of its host.")
    asked = limits.changed(host, {name: fields[name] for name in _LIMITS if name in fields})
    for field, value in asked.items():
        if value != getattr(host, field):
            raise EndpointInvalidError(field, "A shared endpoint has none of its own; change that of its host.")
    own = {name: value for name, value in fields.items() if name not in (*_CREDENTIALS, *_LIMITS)}
    values = checked(share, own)
    if values.get("default_directory") == "/~/":
        values["default_directory"] = "/"
    return values


def host_and_port(text: str, default_port: int) -> tuple[str, int]:
    """Read "host", "host:port" or "[address]:port". -> ValueError; nothing is looked up"""
    parts = urlsplit(f"//{text}")
    port = default_port if parts.port is None else parts.port
    host = parts.hostname or ""
    if (
        parts.netloc != text
        or text.endswith(":")
        or "@" in text
        or CONTROL.search(text)
        or not valid_host(host)
        or not port
    ):
        raise ValueError("no host and port")
    return host, port


def joined(host: str, port: int) -> str:
    """The one spelling of a host and its port: "host:port", "[address]:port"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(field: str, value: object, longest: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise EndpointInvalidError(field, "A string is wanted here.")
    controls = CONTROL_BUT_LINES if field in _OF_LINES else CONTROL
    if len(value) > longest or controls.search(value):
        raise EndpointInvalidError(field, f"At most {longest} characters, and no control ones.")
    return value


def _refuse_promises(fields: Mapping[str, object]) -> None:
    for field in (PERSONAL, *_FLAGS_NOT_HERE):
        if fields.get(field) is not None:
            _flag(field, fields[field])
    for field in _NOT_HERE:
        if fields.get(field):
            raise FieldNotSupportedError(field, "This version has no endpoints with that.")


def _check_link(field: str, text: str) -> None:
    """Clients make a link of it that people click."""
    if text and not text.startswith(("https://", "http://")):
        raise EndpointInvalidError(field, "An address that begins with https:// or http:// is wanted here.")


def _check_verify(endpoint: Endpoint, values: Mapping[str, object]) -> None:
    if all(values.get(name, getattr(endpoint, name)) for name in ("force_verify", "disable_verify")):
        named = "force_verify" if "force_verify" in values else "disable_verify"
        raise EndpointInvalidError(named, "Either force_verify or disable_verify, not both.")


def _myproxy_server(value: object) -> str:
    """With its port, so that two endpoints that name the same one can be told to do so."""
    text = _text("myproxy_server", value, 261)
    if not text:
        return ""
    try:
        return joined(*host_and_port(text, MYPROXY_PORT))
    except ValueError:
        raise EndpointInvalidError("myproxy_server", "This is not a host name, with or without :port.") from None


def _oauth_server(value: object) -> str:
    """https://host[:port][/path], host in lower case, without the port that goes without saying and the last slash."""
    text = _text("oauth_server", value, 1024)
    if not text:
        return ""
    try:
        url = parse_url(text)
    except ServerAddressError as error:
        raise EndpointInvalidError("oauth_server", error.reason) from None
    if url.scheme != "https" or not valid_host(url.host):
        raise EndpointInvalidError("oauth_server", "An address such as https://host/path is wanted here.")
    return str(url)


def _data_hosts(value: object) -> list[str]:
    """Host names or addresses, in lower case, each once; null: none."""
    names = [] if value is None else value
    if not isinstance(names, list) or len(names) > MAX_DATA_HOSTS:
        raise EndpointInvalidError("data_hosts", f"A list of at most {MAX_DATA_HOSTS} host names is wanted here.")
    for name in names:
        if not isinstance(name, str) or not valid_host(name):
            raise EndpointInvalidError("data_hosts", "Each of them is a host name or an address, without a port.")
    return list(dict.fromkeys(name.lower() for name in names))


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise EndpointInvalidError("name", "A name has 1 to 128 letters, digits, dots, hyphens and underscores.")
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        raise EndpointInvalidError("name", "A name must not look like an endpoint's id.")
    return value


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise EndpointInvalidError(field, "true or false is wanted here.")
    return value


def _directory(value: object) -> str:
    if value is None or value == "":
        return "/~/"
    text = _text("default_directory", value, 4096)
    if not text.startswith("/") or ".." in text.split("/"):
        raise EndpointInvalidError("default_directory", "A directory is absolute, or begins with /~/.")
    return text
