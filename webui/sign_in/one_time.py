"""The address that `make up` prints: it signs the sample user in, once, and from the same machine only."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from identity import one_time_link
from identity.models import User
from transferapi.rest.http.trusted_proxies import address_of
from webui.frame import first_page
from webui.page import problem

from .session_start import complete

#: The name of the file in the home of the service.
FILE = "sign-in-link"
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


@require_GET
@sensitive_variables("code")
def sign_in_once(request: HttpRequest) -> HttpResponse:
    code = request.GET.get("code", "")
    name = one_time_link.use(settings.CONFIG.home / FILE, code) if _is_local(request) else None
    user = User.objects.filter(username=name, is_active=True).first() if name else None
    if user is None:
        text = _("It serves once, for minutes, and on the machine of the service only. Sign in by password.")
        return problem(request, 403, _("This address is used up"), text, referrer="no-referrer")
    answer = complete(request, user, first_page(), "link")
    answer["Referrer-Policy"] = "no-referrer"
    return answer


def _is_local(request: HttpRequest) -> bool:
    """Whether the client, and the name that it asked for, are of this machine: so that no other name leads here."""
    host = urlsplit(f"//{request.get_host()}").hostname
    try:
        return host in _LOCAL and ip_address(address_of(request)).is_loopback
    except ValueError:
        return False
