"""GitHub, which has OAuth2 without identity tokens: the person is asked for with the access token.

https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps, with `/user` and `/user/emails`
of its REST API. An access token of another application cannot be injected: it comes from the token endpoint alone.
"""

from __future__ import annotations

from django.views.decorators.debug import sensitive_variables

from identity.federation.errors import ProofRefusedError
from identity.federation.providers import Provider
from identity.federation.requests import Reach, ask, json_of, object_of
from identity.http.web_address import Url, parse_url
from identity.proven_identities import Proven, name_at

from .metadata import Metadata

_PUBLIC = "https://github.com"


def parts(provider: Provider) -> Metadata:
    base = provider.issuer.rstrip("/")
    return Metadata(
        authorize=parse_url(f"{base}/login/oauth/authorize"),
        token=parse_url(f"{base}/login/oauth/access_token"),
        keys=parse_url(base),
        userinfo=_api(base, "/user"),
        names_issuer=False,
        basic=False,
    )


def _api(base: str, path: str) -> Url:
    """A GitHub Enterprise Server has the API below its own address."""
    return parse_url(f"https://api.github.com{path}" if base == _PUBLIC else f"{base}/api/v3{path}")


@sensitive_variables("token", "headers")
def person(provider: Provider, token: str, reach: Reach, now: float) -> Proven:
    """Raises FederationError."""
    base, headers = provider.issuer.rstrip("/"), {"Authorization": f"Bearer {token}"}
    user = object_of(ask(reach, _api(base, "/user"), headers))
    number, login = user.get("id"), user.get("login")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(login, str) or not login:
        raise ProofRefusedError("The provider does not say who you are.")
    answer = ask(reach, _api(base, "/user/emails"), headers)
    email, verified = _address(json_of(answer) if answer.status == 200 else [])
    return Proven.of(
        provider.id, str(number), name_at(login, provider.domain), now,
        email=email, email_verified=verified, name=user.get("name"), organization=user.get("company"),
    )  # fmt: skip


def _address(listed: object) -> tuple[object, bool]:
    """The primary address, and whether GitHub has verified it."""
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = next((row for row in rows if row.get("primary") is True), {})
    return found.get("email"), found.get("verified") is True
