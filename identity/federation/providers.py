"""The OpenID Connect and OAuth2 providers that the operator has configured (WAYBILL_PROVIDERS), one a line:

    google   CLIENT-ID SECRET
    github   CLIENT-ID SECRET
    https://id.example.org/realms/lab CLIENT-ID SECRET name=lab domain=example.org label=Example Laboratory

The first word is a preset or the address of an issuer. Options: `name` (in addresses of this service), `domain` (of the
names that it gives), `scopes` (with commas), `at` (the address of another server of the preset, such as a GitHub
Enterprise Server), and `label` (for people; it takes the rest of the line).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from identity.hidden import Secret
from identity.http.web_address import Url, WebAddressError, parse_url

MOST = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_SCOPES = ("openid", "profile", "email")


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, and how it knows this service.

    issuer: its address; the exact `iss` of its identity tokens. protocol: "oidc", or "github" (OAuth2 alone).
    name_claims: the first of these that it gives is the name of a person there; `email` only if it is verified.
    secret: None for a public client.
    """

    name: str
    label: str
    issuer: str
    client_id: str
    secret: Secret | None = None
    domain: str = ""
    scopes: tuple[str, ...] = _SCOPES
    name_claims: tuple[str, ...] = ("preferred_username", "email", "sub")
    protocol: str = "oidc"
    url: Url = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", parse_url(self.issuer, keep_slash=True, server="a provider"))

    @property
    def id(self) -> str:
        """The id in `LinkedIdentity.provider`."""
        return f"{'oidc' if self.protocol == 'oidc' else 'oauth2'}:{self.issuer}"


_PRESETS = {
    "google": Provider(
        "google", "Google", "https://accounts.google.com", "", domain="accounts.google.com",
        name_claims=("email", "sub"),
    ),
    "github": Provider(
        "github", "GitHub", "https://github.com", "", domain="github.com", protocol="github",
        scopes=("read:user", "user:email"),
    ),
    "orcid": Provider(
        "orcid", "ORCID", "https://orcid.org", "", domain="orcid.org", scopes=("openid",), name_claims=("sub",)
    ),
    "cilogon": Provider(
        "cilogon", "CILogon", "https://cilogon.org", "", domain="cilogon.org",
        scopes=("openid", "profile", "email", "org.cilogon.userinfo"), name_claims=("eppn", "sub"),
    ),
}  # fmt: skip


def parse_providers(text: str) -> Mapping[str, Provider]:
    """The providers by name. Raises ValueError, with the number of a line but not its text, which has a secret."""
    found: dict[str, Provider] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.split() or line.lstrip().startswith("#"):
            continue
        try:
            provider = _of_line(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if provider.name in found or any(one.id == provider.id for one in found.values()):
            raise ValueError(f"line {number}: the provider is there already; give another one, with another name=")
        if any(one.domain == provider.domain for one in found.values()):
            raise ValueError(f"line {number}: another provider has this domain; give another one (domain=)")
        found[provider.name] = provider
    if len(found) > MOST:
        raise ValueError(f"at most {MOST} providers")
    return found


def _of_line(line: str) -> Provider:
    line, label = (part.strip() for part in (f"{line} label=").split(" label=", 2)[:2])
    words = line.split()
    plain = [word for word in words if not re.match(r"(name|domain|scopes|at)=", word)]
    if len(plain) not in (2, 3):
        raise ValueError("it is not: PRESET-OR-ISSUER CLIENT-ID [SECRET] [name=...] [domain=...] [label=...]")
    options = dict(word.split("=", 1) for word in words if word not in plain)
    secret = Secret(plain[2]) if len(plain) == 3 else None
    return _named(_start(plain[0], options.get("at", "")), plain[1], secret, options, label)


def _start(first: str, at: str) -> Provider:
    """The preset, or a provider of this issuer. Raises ValueError."""
    preset = _PRESETS.get(first)
    try:
        if preset is not None:
            return replace(preset, issuer=_address(at), domain=parse_url(at).host) if at else preset
        address = _address(first)
        host = parse_url(address, keep_slash=True).host
    except WebAddressError as error:
        known = ", ".join(_PRESETS)
        raise ValueError(f"{error.reason} (A preset is one of {known}.)") from None
    return Provider(re.sub(r"[^a-z0-9]+", "-", host).strip("-")[:40], host, address, "", domain=host)


def _address(text: str) -> str:
    """As it is written, for issuers are compared exactly. Raises WebAddressError."""
    parse_url(text, keep_slash=True, server="a provider")
    return text


def _named(start: Provider, client_id: str, secret: Secret | None, options: dict[str, str], label: str) -> Provider:
    name, domain = options.get("name", start.name), options.get("domain", start.domain)
    if not _NAME.fullmatch(name):
        raise ValueError("name= has small letters, digits and hyphens, at most 40")
    if not _DOMAIN.fullmatch(domain):
        raise ValueError("domain= is not the name of a domain")
    scopes = tuple(filter(None, options.get("scopes", "").split(","))) or start.scopes
    if start.protocol == "oidc" and "openid" not in scopes:
        raise ValueError("scopes= must have openid")
    return replace(
        start, name=name, label=label or start.label, client_id=client_id, secret=secret, domain=domain.lower(),
        scopes=scopes,
    )  # fmt: skip
