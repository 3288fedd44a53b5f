"""Sign-in by the identity provider of pysaml2, which checks our requests; and assertions that xmlsec1 encrypts."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree

from identity.federation import saml_directory
from identity.models import Institution, LinkedIdentity, User
from tests.identity_providers.lying_openid import led_to
from tests.identity_providers.lying_saml import DS, NS, SAML, LyingInstitution, encoded
from tests.identity_providers.pysaml2_idp import ENTITY, XMLSEC, Pysaml2Idp
from tests.integration.pages import PASSWORD, Browser
from tests.integration.pages.sign_in.test_institutions import answered, begun, idp, linked, pem, user_in

__all__ = ["idp", "linked"]
XENC, XENC11 = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("passwords"),
    pytest.mark.skipif(XMLSEC is None, reason="needs xmlsec1, which tests/install-tools.sh installs"),
    pytest.mark.filterwarnings("ignore"),
]
WAYS = {
    "signed assertion": {"sign_assertion": True, "sign_response": False},
    "signed response": {"sign_assertion": False, "sign_response": True},
    "both": {"sign_assertion": True, "sign_response": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_pysaml2_signs_a_person_in(settings: Any, alice: User, tmp_path: Path, way: str) -> None:
    settings.SAML_KEY = pem()
    settings.SAML_METADATA = ("/pysaml2.xml",)
    ours: Any = Browser().client.get("/saml/metadata")
    idp = Pysaml2Idp(tmp_path)
    idp.learn(ours.content)
    assert saml_directory.refresh("/pysaml2.xml", idp.metadata, [], must_be_signed=False) == 1
    browser = Browser()
    browser.sign_in(alice, PASSWORD)
    browser.get("/signin/institution?link=1&q=pysaml2")
    browser.post(f"/signin/institution/{Institution.objects.get(entity_id=ENTITY).pk}", link="1")
    query = {name: values[0] for name, values in parse_qs(urlsplit(led_to(browser)).query).items()}
    attributes = {"eduPersonPrincipalName": "alice@example.edu", "displayName": "Alice Liddell"}
    seen = answered(browser, encoded(idp.answer(query, attributes, **WAYS[way])))
    assert seen.status_code == 302, browser.text
    row = LinkedIdentity.objects.get()
    assert (row.username, row.name, row.subject) == (
        "alice@example.edu", "Alice Liddell", "targeted-id:pysaml2-persistent-1",
    )  # fmt: skip
    assert row.user == alice


def encrypted(root: Any, algorithm: str, session_key: str, folder: Path) -> Any:
    """The answer with its assertion encrypted for the key in our metadata, by xmlsec1."""
    ours: Any = Browser().client.get("/saml/metadata")
    certificate = next(etree.fromstring(ours.content).iter(f"{DS}X509Certificate")).text
    (folder / "our.der").write_bytes(base64.b64decode(certificate))
    assertion = root.find(f"{SAML}Assertion")
    (folder / "assertion.xml").write_bytes(etree.tostring(assertion))
    cipher = f'<x:CipherData xmlns:x="{XENC}"><x:CipherValue/></x:CipherData>'
    (folder / "template.xml").write_text(
        f'<x:EncryptedData xmlns:x="{XENC}" Type="{XENC}Element"><x:EncryptionMethod Algorithm="{algorithm}"/>'
        f'<ds:KeyInfo xmlns:ds="{NS["ds"]}"><x:EncryptedKey><x:EncryptionMethod Algorithm="{XENC}rsa-oaep-mgf1p"/>'
        f"{cipher}</x:EncryptedKey></ds:KeyInfo>{cipher}</x:EncryptedData>"
    )
    assert XMLSEC is not None
    made = subprocess.run(
        [
            XMLSEC, "--encrypt", "--pubkey-cert-der", folder / "our.der", "--session-key", session_key,
            "--xml-data", folder / "assertion.xml", folder / "template.xml",
        ],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    wrapper = etree.Element(f"{SAML}EncryptedAssertion")
    wrapper.append(etree.fromstring(made.stdout))
    root.replace(assertion, wrapper)
    return root


@pytest.mark.parametrize(
    ("algorithm", "session_key", "signs_all", "is_accepted"),
    [
        (f"{XENC11}aes256-gcm", "aes-256", False, True),
        (f"{XENC11}aes128-gcm", "aes-128", False, True),
        (f"{XENC}aes256-cbc", "aes-256", True, True),
        (f"{XENC}aes128-cbc", "aes-128", False, False),
        (f"{XENC}tripledes-cbc", "des-192", True, False),
    ],
)
def test_encrypted_assertions_are_read_where_nobody_could_have_changed_them(
    settings: Any, idp: LyingInstitution, linked: LinkedIdentity, tmp_path: Path, algorithm: str, session_key: str,
    signs_all: bool, is_accepted: bool,
) -> None:  # fmt: skip
    settings.SAML_KEY = pem()
    browser = begun(idp)
    root = encrypted(idp.honest(), algorithm, session_key, tmp_path)
    seen = answered(browser, encoded(idp.signed(root) if signs_all else root))
    assert (user_in(browser) == str(linked.user_id)) is is_accepted
    assert is_accepted or (seen.status_code == 403 and "cannot be decrypted" in browser.text)


def test_an_encrypted_assertion_without_a_signature_is_refused(
    settings: Any, idp: LyingInstitution, linked: LinkedIdentity, tmp_path: Path
) -> None:
    """Anybody can encrypt for us."""
    settings.SAML_KEY = pem()
    browser = begun(idp)
    root = encrypted(idp.response(idp.assertion()), f"{XENC11}aes256-gcm", "aes-256", tmp_path)
    answered(browser, encoded(root))
    assert user_in(browser) is None
    assert "not signed" in browser.text
