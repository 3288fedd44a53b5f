"""An endpoint demands another sign-in: its sentence on pages, and the way to sign in and come back."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from endpoints.errors import StepUpRequiredError
from identity import user_names
from identity.federation import saml_directory
from identity.federation.freshness import Fresh
from webui.page import SIGN_IN, own_path

#: Domains in an address of the sign-in page.
MOST_DOMAINS = 20


def sentence(error: StepUpRequiredError) -> str:
    """The second factor has a sentence of its own, after that of domain and age."""
    factor = _(
        "This endpoint asks for a second factor: a passkey, or a one-time code after the password. "
        "Your account page adds them."
    )
    if not error.second_factor:
        return _domain_and_age(error)
    return f"{_domain_and_age(error)} {factor}" if error.domains or error.minutes else factor


def _domain_and_age(error: StepUpRequiredError) -> str:
    values = {"domains": ", ".join(error.domains), "n": error.minutes}
    if error.domains and error.minutes:
        return _("This endpoint asks for a sign-in with an identity of %(domains)s in the last %(n)d minutes.") % values
    if error.domains:
        return _("This endpoint asks for a sign-in with an identity of %(domains)s.") % values
    return _("This endpoint asks for a sign-in in the last %(n)d minutes.") % values


def address(request: HttpRequest, error: StepUpRequiredError) -> str:
    """The sign-in page, which asks a signed-in user too, shows the demanded domains, and leads back to this page."""
    fresh = Fresh.REQUIRED if error.minutes else Fresh.ASKED
    query = [("again", "1"), ("fresh", fresh.value), ("next", _here(request))]
    query += [("domain", one) for one in error.domains[:MOST_DOMAINS]]
    return f"{SIGN_IN}?{urlencode(query)}"


def known(domains: Sequence[str]) -> list[str]:
    """The domains among these that this service, one of its providers or an institution has.

    A link may name any text as a domain.
    """
    providers = (one.domain for one in settings.PROVIDERS.values())
    ours = {user_names.domain(), *providers, *(one.domain for one in settings.MYPROXY_SIGN_IN.values())}
    return sorted(ours.intersection(one.lower() for one in domains) | saml_directory.domains_among(domains))


def _here(request: HttpRequest) -> str:
    """The page that the browser shows: of a form it is the one with the form. The sign-in page checks it again."""
    if request.method in ("GET", "HEAD"):
        return own_path(request.get_full_path())
    try:
        parts = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return own_path(None)
    is_ours = parts.netloc == request.get_host()
    return own_path(f"{parts.path}?{parts.query}" if parts.query else parts.path) if is_ours else own_path(None)
