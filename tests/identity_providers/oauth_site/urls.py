"""Routes of the tests' OAuth server, and its certificates."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from oauth2_provider.decorators import protected_resource
from oauth2_provider.urls import base_urlpatterns, metadata_urlpatterns

from .settings import FOLDER, GETCERT_SCOPE

MAX_LIFETIME = 12 * 3600


@csrf_exempt
@require_POST
@protected_resource(scopes=[GETCERT_SCOPE])  # type: ignore[untyped-decorator]
def getcert(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """A certificate for the key of the request, in the name of the token's owner."""
    wanted = x509.load_der_x509_csr(base64.b64decode(request.POST["certreq"], validate=True))
    assert wanted.is_signature_valid
    seconds = min(int(request.POST["certlifetime"]), MAX_LIFETIME)
    authority = x509.load_pem_x509_certificate((FOLDER / "ca.pem").read_bytes())
    key: Any = serialization.load_pem_private_key((FOLDER / "ca.key").read_bytes(), None)
    owner = request.resource_owner.get_username()  # type: ignore[attr-defined]
    issuer = [attribute for rdn in authority.subject.rdns for attribute in rdn]
    name = x509.Name([*issuer[:-1], x509.NameAttribute(NameOID.COMMON_NAME, owner)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority.subject)
        .public_key(wanted.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return HttpResponse(certificate.public_bytes(serialization.Encoding.PEM), content_type="text/plain")


oauth_patterns = ([*base_urlpatterns, path("getcert", getcert)], "oauth2_provider")
urlpatterns = [
    path("login", LoginView.as_view()),
    path("oauth2/", include(oauth_patterns, namespace="oauth2_provider")),
    path("", include((metadata_urlpatterns, "metadata"))),
]
