"""Short ways to credentials, and to endpoints that are activated with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key

from deploy.endpoint.authority import CertificateFiles
from identity.gsi.proxies import make_proxy, sign_proxy
from identity.gsi.x509 import X509Credential
from tests.gridftp.grid import credential_of
from tests.integration.rest import Answer, Api


def proxy_of(
    identity: CertificateFiles, *, hours: float = 1.0, now: datetime | None = None, **more: Any
) -> X509Credential:
    """A proxy as a user makes it."""
    now = now or datetime.now(UTC)
    return make_proxy(credential_of(identity), lifetime=timedelta(hours=hours), now=now, **more)


def document(form: str, **values: object) -> dict[str, Any]:
    """The rows of one form, filled in."""
    rows = [{"type": form, "name": name, "value": value} for name, value in values.items()]
    return {"DATA_TYPE": "activation_requirements", "DATA": rows}


def activate(api: Api, name: object, form: str, **values: object) -> Answer:
    return api.post(f"/endpoint/{name}/activate", document(form, **values))


def push(api: Api, name: object, credential: X509Credential) -> Answer:
    """Activate with a proxy as it lies in a file."""
    return activate(api, name, "proxy", proxy=credential.to_pem().decode("ascii"))


def filled(requirements: Mapping[str, Any], form: str, **values: object) -> dict[str, Any]:
    """The whole list of requirements, as clients send it back: one form filled in, the others as they came."""
    rows = [
        {**row, "value": values[row["name"]]} if row["type"] == form and row["name"] in values else row
        for row in requirements["DATA"]
    ]
    return {**requirements, "DATA": rows}


def requirements_of(api: Api, name: str) -> dict[str, Any]:
    answer = api.get(f"/endpoint/{name}/activation_requirements")
    assert answer.status == 200
    return dict(answer.body)


def signed(requirements: dict[str, Any], identity: CertificateFiles, **more: Any) -> str:
    """Sign the public key of the requirements, as a client does, and return the proxy chain in PEM."""
    [key] = [row["value"] for row in requirements["DATA"] if row["name"] == "public_key"]
    issuer = credential_of(identity)
    lifetime = more.pop("lifetime", timedelta(hours=3))
    proxy = sign_proxy(issuer, load_pem_public_key(key.encode()), lifetime=lifetime, now=datetime.now(UTC), **more)  # type: ignore[arg-type]
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in (proxy, issuer.certificate))
