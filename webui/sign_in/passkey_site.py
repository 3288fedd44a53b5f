"""Whether a page can use passkeys: they belong to the host name of the service."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest

from identity import passkeys
from identity.passkeys import PasskeysUnavailableError


def place(request: HttpRequest) -> dict[str, Any]:
    """Whether a passkey can be used on this page, and the address at which it can be, where that is another one."""
    try:
        site = passkeys.site()
    except PasskeysUnavailableError:
        return {"passkeys_here": False, "passkeys_elsewhere": ""}
    here = urlsplit(f"//{request.get_host()}").hostname == site.id
    return {"passkeys_here": here, "passkeys_elsewhere": "" if here else site.origin}
