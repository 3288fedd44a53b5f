"""The certificate that a client showed when TLS began: verified by a server in front, or here.

A server in front says so with X-SSL-Client-Verify and X-SSL-Client-S-DN (nginx: `$ssl_client_verify`,
`$ssl_client_s_dn`), and is believed where it shows WAYBILL_FRONT_SECRET; else these headers mean nothing (`front`).
Where gunicorn ends TLS itself the chain is there, and is judged as those of endpoints are, so that proxies do too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from ssl import SSLSocket

from django.http import HttpRequest

from endpoints import activation
from endpoints.gridftp.names import slash_name
from endpoints.gridftp.trust import peer_chain
from endpoints.gridftp.written_names import BadNameError, from_rfc2253, one_form

from .front import vouches_for_certificates

_KEPT = "waybill_certificate_subject"
#: Characters of a name; headers may be far longer.
MAX_SUBJECT = 4096


def subject_of(request: HttpRequest) -> str | None:
    """The subject that this connection has proved, in its one form; None: none. -> UntrustedError, BadNameError

    A proxy's is that of the certificate which it was made from.
    """
    if not hasattr(request, _KEPT):
        setattr(request, _KEPT, _told(request) if vouches_for_certificates(request) else _shown(request))
    found: str | None = getattr(request, _KEPT)
    return found


def _told(request: HttpRequest) -> str | None:
    subject = request.META.get("HTTP_X_SSL_CLIENT_S_DN", "")
    if request.META.get("HTTP_X_SSL_CLIENT_VERIFY") != "SUCCESS" or not subject:
        return None
    if len(subject) > MAX_SUBJECT:
        raise BadNameError("The subject of the certificate is too long")
    # WSGI has the octets of headers as latin-1.
    subject = subject.encode("latin-1").decode("utf-8", "surrogateescape")
    return one_form(subject) if subject.startswith("/") else from_rfc2253(subject)


def _shown(request: HttpRequest) -> str | None:
    tls = request.META.get("gunicorn.socket")
    if not isinstance(tls, SSLSocket):
        return None
    chain = peer_chain(tls)
    if not chain:
        return None
    end_entity = activation.trust().verify(chain, now=datetime.now(UTC))
    return one_form(slash_name(end_entity.subject))
