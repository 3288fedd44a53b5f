"""The client certificate of the TLS connection, verified by a front server or by this service.

A front server reports it by X-SSL-Client-Verify and X-SSL-Client-S-DN (nginx: `$ssl_client_verify`,
`$ssl_client_s_dn`). These headers count only with WAYBILL_FRONT_SECRET (`trusted_proxies`). Where gunicorn ends TLS,
the whole chain is there and is judged as the credentials of endpoints are, so that full proxies are accepted too, and
limited ones, which file servers get, are not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from ssl import SSLSocket

from django.http import HttpRequest

from endpoints.activation import status as activation
from identity.gsi.distinguished_names import slash_name
from identity.gsi.errors import UntrustedError
from identity.gsi.name_parsing import BadNameError, from_rfc2253, normalized_slash_name
from identity.gsi.trust import peer_chain

from .trusted_proxies import vouches_for_certificates

_KEPT = "waybill_certificate_subject"
#: The most characters of a name. Headers may be far longer.
MAX_SUBJECT = 4096


def subject_of(request: HttpRequest) -> str | None:
    """The verified subject of this connection, in its canonical form; None: no certificate. Raises UntrustedError,
    BadNameError. The subject of a proxy is that of the certificate which issued it.
    """
    if not hasattr(request, _KEPT):
        setattr(request, _KEPT, _told(request) if vouches_for_certificates(request) else _shown(request))
    found: str | None = getattr(request, _KEPT)
    return found


def accepted_subject(request: HttpRequest) -> str | None:
    """As `subject_of`, for pages: None also for a certificate that is not accepted."""
    try:
        return subject_of(request)
    except (UntrustedError, BadNameError):
        return None


def _told(request: HttpRequest) -> str | None:
    subject = request.META.get("HTTP_X_SSL_CLIENT_S_DN", "")
    if request.META.get("HTTP_X_SSL_CLIENT_VERIFY") != "SUCCESS" or not subject:
        return None
    if len(subject) > MAX_SUBJECT:
        raise BadNameError("The subject of the certificate is too long")
    # WSGI decodes the octets of headers as latin-1.
    subject = subject.encode("latin-1").decode("utf-8", "surrogateescape")
    return normalized_slash_name(subject) if subject.startswith("/") else from_rfc2253(subject)


def _shown(request: HttpRequest) -> str | None:
    tls = request.META.get("gunicorn.socket")
    if not isinstance(tls, SSLSocket):
        return None
    chain = peer_chain(tls)
    if not chain:
        return None
    end_entity = activation.trust().admit_chain(chain, now=datetime.now(UTC))
    return normalized_slash_name(slash_name(end_entity.subject))
