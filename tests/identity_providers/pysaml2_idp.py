"""An identity provider of pysaml2, which others wrote: it makes and signs answers with the program xmlsec1."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests import kept_keys
from tests.identity_providers.lying_saml import certificate_of

XMLSEC = shutil.which("xmlsec1")
ENTITY = "https://pysaml2.example.edu/idp"


class Pysaml2Idp:
    """folder: for its files. site: its address. Before the first answer it has to learn of this service (`learn`)."""

    def __init__(self, folder: Path, site: str = "https://pysaml2.example.edu") -> None:
        from saml2 import BINDING_HTTP_REDIRECT
        from saml2.config import IdPConfig
        from saml2.metadata import entity_descriptor

        key = kept_keys.rsa_key()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (folder / "key.pem").write_bytes(pem)
        (folder / "certificate.pem").write_bytes(certificate_of(key).public_bytes(Encoding.PEM))
        self._folder = folder
        #: Where the newest answer goes, and whether the newest request asks the person again.
        self.place, self.forced = "", False
        self._configuration: dict[str, Any] = {
            "entityid": ENTITY,
            "key_file": str(folder / "key.pem"),
            "cert_file": str(folder / "certificate.pem"),
            "xmlsec_binary": XMLSEC,
            "service": {
                "idp": {
                    "endpoints": {"single_sign_on_service": [(f"{site}/sso", BINDING_HTTP_REDIRECT)]},
                    "policy": {"default": {"attribute_restrictions": None}},
                    "scope": ["example.edu"],
                    "want_authn_requests_signed": True,
                }
            },
        }
        self.metadata = str(entity_descriptor(IdPConfig().load(dict(self._configuration)))).encode()

    def learn(self, our_metadata: bytes) -> None:
        """Take over the metadata of this service, as a federation would have them."""
        from saml2.config import IdPConfig
        from saml2.server import Server

        (self._folder / "sp.xml").write_bytes(our_metadata)
        known = {**self._configuration, "metadata": {"local": [str(self._folder / "sp.xml")]}}
        self._server = Server(config=IdPConfig().load(known))

    def answer(
        self, query: dict[str, str], attributes: dict[str, Any], *, asked_at: float | None = None, **how: bool
    ) -> bytes:
        """The answer to the request in a redirect of ours, whose signature is checked. how: what is signed.

        asked_at: when the person was asked last (Unix time); None: now.
        """
        from saml2 import BINDING_HTTP_REDIRECT
        from saml2.saml import NAMEID_FORMAT_PERSISTENT, NameID

        request = self._server.parse_authn_request(
            query["SAMLRequest"], BINDING_HTTP_REDIRECT, sigalg=query.get("SigAlg"), signature=query.get("Signature"),
            relay_state=query.get("RelayState"),
        )  # fmt: skip
        where = self._server.response_args(request.message)
        self.forced = request.message.force_authn == "true"
        self.place = str(where["destination"])
        name = NameID(format=NAMEID_FORMAT_PERSISTENT, text="pysaml2-persistent-1")
        made = self._server.create_authn_response(
            attributes, name_id=name, authn={**({"authn_instant": asked_at} if asked_at else {}),
                                             "class_ref": "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"},
            sign_alg="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
            digest_alg="http://www.w3.org/2001/04/xmlenc#sha256", **where, **how,
        )  # fmt: skip
        return str(made).encode()
