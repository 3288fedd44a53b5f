"""An OpenID provider, and a GitHub, that say what a test wants them to say, on 127.0.0.1 without TLS."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwcrypto import jwk, jws

from identity.federation.providers import Provider, parse_providers
from tests import kept_keys
from tests.integration.pages import Browser
from tests.servers.lying_https import LyingServer, answer

CLIENT, SECRET = "waybill", "s3cret-of-this-client"
SUBJECT = "248289761001"


def rsa_key(kid: str, bits: int = 2048, **more: str) -> jwk.JWK:
    numbers = jwk.JWK.from_pem(kept_keys.rsa_pem(bits)).export(private_key=True, as_dict=True)
    return jwk.JWK(**numbers | {"kid": kid} | more)


#: For the honest provider of each test: a new one takes a tenth of a second. Others have keys of their own.
usual_key = cache(partial(rsa_key, "first"))


def ec_key(kid: str) -> jwk.JWK:
    return jwk.JWK.generate(kty="EC", crv="P-256", kid=kid)


def signed(claims: dict[str, Any], key: jwk.JWK, algorithm: str = "RS256", **header: Any) -> str:
    token = jws.JWS(json.dumps(claims).encode())
    token.allowed_algs = [algorithm]
    head = {"alg": algorithm, "kid": key.get("kid"), **header}
    token.add_signature(key, protected=json.dumps(head))
    return str(token.serialize(compact=True))


def signed_by_hand(claims: dict[str, Any], key: jwk.JWK) -> str:
    """RS256 with a key that a library would not sign with."""
    private = load_pem_private_key(key.export_to_pem(private_key=True, password=None), None)
    assert isinstance(private, RSAPrivateKey)
    start = f"{encoded({'alg': 'RS256', 'kid': key.get('kid')})}.{encoded(claims)}"
    return f"{start}.{encoded(private.sign(start.encode(), PKCS1v15(), SHA256()))}"


def encoded(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class LyingOpenId:
    """An honest provider until a test changes it. Each change is a function of what the honest one would say."""

    def __init__(self, key: jwk.JWK | None = None) -> None:
        self.key = key or rsa_key("first")
        self.keys = [self.key]
        self.token: Callable[[dict[str, Any]], str] = lambda claims: signed(claims, self.key)
        self.claims: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.answers: dict[str, Callable[[], Iterator[bytes]]] = {}
        self.userinfo: dict[str, Any] = {"sub": SUBJECT, "name": "Alice Liddell"}
        self.nonce = self.challenge = ""
        #: The newest request.
        self.asked: dict[str, str] = {}
        self.codes: dict[str, str] = {}
        self.server = LyingServer(self._script, None)

    @property
    def issuer(self) -> str:
        return self.server.url

    def provider(self, more: str = "") -> Provider:
        return parse_providers(f"{self.issuer} {CLIENT} {SECRET} name=lab domain=lab.example.org {more}")["lab"]

    def authorize(self, url: str) -> dict[str, str]:
        """Do what the provider does with the person: returns the query of the way back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["code_challenge_method"] == "S256"
        self.asked = query
        self.nonce, self.challenge = query.get("nonce", ""), query["code_challenge"]
        return {"code": "the-code", "state": query["state"]}

    def honest_claims(self) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": self.issuer, "sub": SUBJECT, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": self.nonce,
            "email": "alice@example.org", "email_verified": True, "preferred_username": "alice",
        }  # fmt: skip

    def _script(self, request: bytes) -> Iterator[bytes]:
        path = request.split(b" ", 2)[1].decode()
        if path in self.answers:
            yield from self.answers[path]()
            return
        known = {
            "/.well-known/openid-configuration": self._metadata,
            "/keys": lambda: {"keys": [json.loads(key.export_public()) for key in self.keys]},
            "/token": lambda: self._tokens(request),
            "/userinfo": lambda: self.userinfo,
        }
        body = json.dumps(known[path]() if path in known else {"error": "not_found"}).encode()
        yield answer("200 OK" if path in known and b'"error"' not in body else "400 Bad Request", body)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            **self.metadata,
        }

    def _tokens(self, request: bytes) -> dict[str, Any]:
        head, _, body = request.partition(b"\r\n\r\n")
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode())
        proof = encoded(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if b"Basic " + pair not in head or proof != self.challenge or form.get("code") != "the-code":
            return {"error": "invalid_grant"}
        token = self.token({**self.honest_claims(), **self.claims})
        return {"access_token": "access", "token_type": "Bearer", "id_token": token}


def led_to(browser: Browser) -> str:
    """The address to which the page that was seen last leads."""
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', browser.page)
    assert found, browser.text
    return unescape(found[1])
