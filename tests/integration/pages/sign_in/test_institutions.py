"""Sign-in by an institution (SAML 2.0): honest ones, and the known attacks."""

from __future__ import annotations

import base64
import copy
import re
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.conf import settings as django_settings
from lxml import etree

from identity import linked_identities
from identity.federation import saml_directory, saml_sources
from identity.federation.errors import ProofRefusedError, ProviderAnswerError
from identity.hidden import Secret
from identity.models import AuditEvent, Institution, LinkedIdentity, User
from identity.proven_identities import Proven
from tests.identity_providers.lying_openid import led_to
from tests.identity_providers.lying_saml import (
    DS,
    ENTITY,
    EPPN,
    MAIL,
    NAME,
    PAIRWISE,
    SAML,
    SAMLP,
    SUBJECT_ID,
    TARGETED,
    WRAPPINGS,
    LyingInstitution,
    encoded,
    moment,
    usual_key,
)
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
ANSWER = "/signin/institution/answer"


@pytest.fixture
def idp(settings: Any) -> LyingInstitution:
    """An honest institution of the metadata."""
    us = django_settings.PUBLIC_URL
    found = LyingInstitution(answers_to=f"{us}{ANSWER}", audience=f"{us}/saml/metadata", key=usual_key())
    settings.SAML_METADATA = ("/metadata.xml",)
    saml_directory.refresh("/metadata.xml", found.metadata(), [], must_be_signed=False)
    return found


@pytest.fixture
def linked(alice: User, idp: LyingInstitution) -> LinkedIdentity:
    proven = Proven.of(f"saml:{ENTITY}", "eppn:alice@example.edu", "alice@example.edu", time.time())
    return linked_identities.link(alice, proven, time.time())


def begun(idp: LyingInstitution, browser: Browser | None = None, **more: str) -> Browser:
    browser = browser or Browser()
    browser.get("/signin/institution?q=university")
    pk = Institution.objects.get(entity_id=ENTITY).pk
    seen = browser.post(f"/signin/institution/{pk}", next="/activity", **more)
    assert seen.status_code == 200, browser.text
    idp.asked(led_to(browser))
    return browser


def answered(browser: Browser, answer: str, **more: str) -> Any:
    """The institution's form: from another site, without our cookies; then the redirect, with them."""
    elsewhere = Browser()
    seen: Any = elsewhere.client.post(ANSWER, {"SAMLResponse": answer, **more})
    if seen.status_code == 303:
        return browser.get(seen.headers["Location"])
    browser.page = seen.content.decode()
    return seen


def user_in(browser: Browser) -> str | None:
    return browser.client.session.get("_auth_user_id")


def assert_refused(browser: Browser, seen: Any, reason: str = "") -> None:
    assert seen.status_code in (400, 403, 502), seen
    assert reason in browser.text
    assert user_in(browser) is None


def test_a_person_finds_the_institution_and_signs_in(
    idp: LyingInstitution, linked: LinkedIdentity, alice: User
) -> None:
    browser = Browser()
    browser.get("/signin")
    assert "Sign in with your institution" in browser.text
    browser.get("/signin/institution?q=UNIVERSITY+example.edu")
    assert "Example University example.edu" in browser.text
    seen = answered(begun(idp, browser), encoded(idp.honest()))
    assert (seen.status_code, seen.headers["Location"]) == (302, "/activity")
    assert user_in(browser) == str(alice.pk)
    linked.refresh_from_db()
    assert (linked.name, linked.organization) == ("Alice Liddell", "Example University")
    assert "Chosen before" in (again := browser, again.get("/signin/institution"))[0].text


def test_a_signed_response_with_an_unsigned_assertion_is_accepted(
    idp: LyingInstitution, linked: LinkedIdentity
) -> None:
    browser = begun(idp)
    answered(browser, encoded(idp.signed(idp.response(idp.assertion()))))
    assert user_in(browser) == str(linked.user_id)


def test_an_unknown_person_is_signed_in_nowhere(idp: LyingInstitution) -> None:
    browser = begun(idp)
    seen = answered(browser, encoded(idp.honest()))
    assert seen.status_code == 403
    assert "alice@example.edu" in browser.text


LASTING = [
    (
        {SUBJECT_ID: "a1@example.edu", PAIRWISE: "p", EPPN: "x@example.edu"},
        "subject-id:a1@example.edu",
        "x@example.edu",
    ),
    ({PAIRWISE: "p1@example.edu", TARGETED: "t"}, "pairwise-id:p1@example.edu", "p1@example.edu"),
    ({TARGETED: "t1", EPPN: "x@example.edu"}, "targeted-id:t1", "x@example.edu"),
    ({EPPN: "x@EXAMPLE.edu"}, "eppn:x@EXAMPLE.edu", "x@example.edu"),
    ({EPPN: "root@bank.example"}, "eppn:root@bank.example", "root@bank.example@example.edu"),
    ({"mail": "a@bank.example"}, "targeted-id:the-name-id", "the-name-id@example.edu"),
    ({"mail": "a@example.edu"}, "targeted-id:the-name-id", "the-name-id@example.edu"),
]


@pytest.mark.parametrize(("attributes", "subject", "name"), LASTING)
def test_the_most_lasting_name_is_the_subject_and_names_stay_in_their_domain(
    idp: LyingInstitution, alice: User, attributes: dict[str, str], subject: str, name: str
) -> None:
    idp.attributes = attributes
    idp.name_format = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" if "mail" in attributes else "x"
    browser = Browser()
    browser.sign_in(alice, PASSWORD)
    answered(begun(idp, browser, link="1"), encoded(idp.honest()))
    row = LinkedIdentity.objects.get()
    assert (row.subject, row.username) == (subject, name)
    assert row.email_verified is (attributes.get("mail") == "a@example.edu")


@pytest.mark.parametrize(
    ("scopes", "entity", "name"),
    [
        (("example.edu",), ENTITY, "alice@example.edu@idp.example.edu"),
        (("example.edu", "med.example.edu"), ENTITY, "alice@example.edu@med.example.edu"),
        (("example.edu",), "https://example.edu/idp", "alice@example.edu@saml.example.edu"),
        ((), "https://EXAMPLE.edu:8443/idp", "alice@example.edu@saml.example.edu"),
    ],
)
def test_an_institution_gives_no_names_of_the_domain_of_this_service(
    idp: LyingInstitution, alice: User, settings: Any, scopes: tuple[str, ...], entity: str, name: str
) -> None:
    """Users of this service choose their names: anybody could become a professor of the institution, or the reverse."""
    settings.IDENTITY_DOMAIN = "example.edu"
    idp.entity_id = entity
    idp.attributes |= {MAIL: "alice@example.edu"}
    saml_directory.refresh("/metadata.xml", idp.metadata(scopes=scopes), [], must_be_signed=False)
    browser = Browser()
    browser.sign_in(alice, PASSWORD)
    browser.get("/signin/institution?q=university")
    browser.post(f"/signin/institution/{Institution.objects.get().pk}", link="1")
    idp.asked(led_to(browser))
    answered(browser, encoded(idp.honest()))
    row = LinkedIdentity.objects.get()
    # The address is the institution's to vouch for all the same.
    assert (row.username, row.email_verified) == (name, "example.edu" in scopes)


def test_an_answer_without_a_lasting_name_is_refused(idp: LyingInstitution) -> None:
    idp.attributes = {NAME: "Alice"}
    browser = begun(idp)
    assert_refused(browser, answered(browser, encoded(idp.honest())), "no lasting name")


@pytest.mark.parametrize("way", WRAPPINGS)
@pytest.mark.parametrize("both", [False, True], ids=["one signature", "both signed"])
def test_signature_wrapping_signs_nobody_in(
    idp: LyingInstitution, linked: LinkedIdentity, bob: User, way: str, both: bool
) -> None:
    proven = Proven.of(f"saml:{ENTITY}", "eppn:mallory@example.edu", "mallory@example.edu", time.time())
    linked_identities.link(bob, proven, time.time())
    signs_response, wrap = WRAPPINGS[way]
    browser = begun(idp)
    assertion = idp.assertion()
    if both or not signs_response:
        assertion = idp.signed(assertion)
    root = idp.response(assertion)
    if both or signs_response:
        root = idp.signed(root)
    seen = answered(browser, encoded(wrap(root)))
    assert_refused(browser, seen, "institution" if not both else "")


def commented(root: etree._Element) -> bytes:
    """The name of a user of another domain, which a comment hides from careless readers."""
    return bytes(etree.tostring(root).replace(b"alice@example.edu", b"alice@example.edu<!-- -->.evil.example"))


def with_entities(data: bytes) -> bytes:
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]>'.encode() + data.replace(b"Alice Liddell", b"&a9;")


def with_file(data: bytes) -> bytes:
    return b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>' + data.replace(b"Alice Liddell", b"&f;")


def resigned(idp: LyingInstitution, **changes: Any) -> bytes:
    for name, value in changes.items():
        setattr(idp, name, value)
    return bytes(etree.tostring(idp.honest()))


def changed(idp: LyingInstitution, change: Callable[[etree._Element], None]) -> bytes:
    """An assertion that the institution signs so."""
    assertion = idp.assertion()
    change(assertion)
    return bytes(etree.tostring(idp.response(idp.signed(assertion))))


def without(*path: str) -> Callable[[etree._Element], None]:
    def change(assertion: etree._Element) -> None:
        found = assertion.find("/".join(path))
        assert found is not None
        parent = found.getparent()
        assert parent is not None
        parent.remove(found)

    return change


def second_signature(idp: LyingInstitution) -> bytes:
    assertion = idp.signed(idp.assertion())
    signature = assertion.find(f"{DS}Signature")
    assert signature is not None
    assertion.insert(2, copy.deepcopy(signature))
    return bytes(etree.tostring(idp.response(assertion)))


def failed_status(idp: LyingInstitution) -> bytes:
    return bytes(etree.tostring(idp.honest())).replace(b"status:Success", b"status:Requester")


def no_request(idp: LyingInstitution) -> bytes:
    return resigned(idp, request_id="")


ATTACKS: dict[str, tuple[Callable[[LyingInstitution], bytes], str]] = {
    "unsigned": (lambda idp: etree.tostring(idp.response(idp.assertion())), "not signed"),
    "another key": (
        lambda idp: etree.tostring(
            idp.response(idp.signed(idp.assertion(), rsa.generate_private_key(65537, 2048)))
        ),
        "not that of the institution",
    ),
    "changed": (lambda idp: etree.tostring(idp.honest()).replace(b"alice@", b"mallory@"), "not that of"),
    "a comment in a name": (lambda idp: commented(idp.honest()), "comments"),
    "entity expansion": (lambda idp: with_entities(etree.tostring(idp.honest())), "institution"),
    "an external entity": (lambda idp: with_file(etree.tostring(idp.honest())), "institution"),
    "a second signature": (second_signature, "second signature"),
    "another audience": (lambda idp: resigned(idp, audience="https://other.example"), "another service"),
    "no audience": (
        lambda idp: changed(idp, without(f"{SAML}Conditions", f"{SAML}AudienceRestriction")), "another service",
    ),
    "no conditions": (lambda idp: changed(idp, without(f"{SAML}Conditions")), "no conditions"),
    "no confirmation": (
        lambda idp: changed(idp, without(f"{SAML}Subject", f"{SAML}SubjectConfirmation")), "not for this service",
    ),
    "another recipient": (lambda idp: resigned(idp, recipient="https://other.example/acs"), "not for this service"),
    "another destination": (lambda idp: resigned(idp, destination="https://other.example/acs"), "another address"),
    "expired": (lambda idp: resigned(idp, not_after=-200), "expired"),
    "of the future": (lambda idp: resigned(idp, not_before=200), "future"),
    "old": (lambda idp: resigned(idp, issued=-7200), "too old"),
    "no request": (no_request, "no request"),
    "a refusal": (failed_status, "did not allow"),
    "another institution": (lambda idp: resigned(idp, entity_id="https://evil.example/idp"), "in no metadata"),
    "no XML": (lambda idp: b"hello", "not XML"),
    "no response": (lambda idp: b"<a/>", "none of SAML"),
    "deep": (lambda idp: b"<a>" * 5000, "not XML"),
}  # fmt: skip


@pytest.mark.parametrize("way", ATTACKS)
def test_an_answer_that_proves_nothing_signs_nobody_in(idp: LyingInstitution, linked: LinkedIdentity, way: str) -> None:
    attack, reason = ATTACKS[way]
    browser = begun(idp)
    assert_refused(browser, answered(browser, encoded(attack(idp))), reason)


@pytest.mark.parametrize("text", ["", "%%%", "A" * 300_000, "\ud800"])
def test_an_answer_that_is_none_is_refused(idp: LyingInstitution, text: str) -> None:
    browser = begun(idp)
    assert_refused(browser, answered(browser, text.encode("utf-8", "replace").decode()))


def test_clocks_may_differ_a_little(idp: LyingInstitution, linked: LinkedIdentity) -> None:
    browser = begun(idp)
    idp.not_before, idp.not_after = 60, 400
    answered(browser, encoded(idp.honest()))
    assert user_in(browser) == str(linked.user_id)


def test_an_assertion_serves_once_and_in_the_browser_that_began(idp: LyingInstitution, linked: LinkedIdentity) -> None:
    browser = begun(idp)
    answer = encoded(idp.honest())
    stranger = Browser()
    stranger.get("/signin")
    assert_refused(stranger, answered(stranger, answer), "not begun in this browser")  # login CSRF
    assert_refused(browser, answered(browser, answer), "used already")
    browser = begun(idp)
    answer = encoded(idp.honest())
    assert answered(browser, answer).status_code == 302
    again = begun(idp)
    assert_refused(again, answered(again, answer), "used already")


def test_the_answer_of_another_institution_is_of_no_use(
    idp: LyingInstitution, linked: LinkedIdentity, settings: Any
) -> None:
    """Both are in the metadata; the browser went to one, and the other answers."""
    evil = LyingInstitution(answers_to=idp.answers_to, audience=idp.audience, entity_id="https://evil.example/idp")
    settings.SAML_METADATA = ("/metadata.xml", "/evil.xml")
    saml_directory.refresh("/evil.xml", evil.metadata(name="Evil"), [], must_be_signed=False)
    browser = begun(idp)
    evil.request_id = idp.request_id
    assert_refused(browser, answered(browser, encoded(evil.honest())), "another institution")


def test_the_audit_log_says_which_institution_vouched_and_what_was_refused(
    idp: LyingInstitution, linked: LinkedIdentity, alice: User
) -> None:
    browser = begun(idp)
    answer = encoded(idp.honest())
    answered(browser, answer)
    row = AuditEvent.objects.get(what="signed_in", user_id=alice.pk)
    assert row.details == {"provider": f"saml:{ENTITY}", "identity": "alice@example.edu"}
    answered(browser, answer)  # replayed
    browser = begun(idp)
    answered(browser, encoded(etree.tostring(idp.honest()).replace(b"alice@", b"mallory@")))
    stranger = Browser()
    stranger.get("/signin")
    answered(stranger, encoded(idp.honest()))
    linked.delete()
    browser = begun(idp)
    answered(browser, encoded(idp.honest()))
    rows = AuditEvent.objects.filter(what="sign_in_refused").order_by("pk")
    assert [(row.way, row.details["reason"], row.details["provider"]) for row in rows] == [
        ("provider", "SignInNotBegunError", "saml"),
        ("provider", "ProofRefusedError", "saml"),
        ("provider", "SignInNotBegunError", "saml"),
        ("provider", "IdentityNotFoundError", f"saml:{ENTITY}"),
    ]
    assert "mallory" not in str(list(AuditEvent.objects.values_list("details", flat=True)))


def test_relay_state_leads_nowhere(idp: LyingInstitution, linked: LinkedIdentity) -> None:
    browser = begun(idp)
    seen = answered(browser, encoded(idp.honest()), RelayState="https://evil.example/")
    assert seen.headers["Location"] == "/activity"
    assert Browser().get(ANSWER).status_code == 405


def test_expired_metadata_vouch_for_nobody(idp: LyingInstitution, linked: LinkedIdentity) -> None:
    browser = begun(idp)
    Institution.objects.update(valid_until="2020-01-01T00:00:00Z")
    assert_refused(browser, answered(browser, encoded(idp.honest())), "in no metadata")
    browser.get("/signin/institution?q=university")
    assert "No institution" in browser.text


def test_institutions_of_a_source_that_is_named_no_more_sign_nobody_in(
    idp: LyingInstitution, linked: LinkedIdentity, settings: Any
) -> None:
    """At once, while their rows wait for the next reading: whatever was begun, and whatever was checked before."""
    begun_before, checked_before = begun(idp), begun(idp)
    elsewhere: Any = Browser().client.post(ANSWER, {"SAMLResponse": encoded(idp.honest())})
    assert elsewhere.status_code == 303
    settings.SAML_METADATA = ("/other.xml",)
    idp.request_id = ""
    assert_refused(checked_before, checked_before.get(elsewhere.headers["Location"]), "in no metadata")
    seen = answered(begun_before, encoded(idp.honest()))
    assert_refused(begun_before, seen, "in no metadata")
    browser = Browser()
    browser.get("/signin/institution?q=university")
    assert "No institution" in browser.text
    assert browser.post(f"/signin/institution/{Institution.objects.get().pk}").status_code == 404
    assert "Chosen before" not in (checked_before.get("/signin/institution"), checked_before.text)[1]


def test_without_metadata_there_are_no_institutions(
    idp: LyingInstitution, linked: LinkedIdentity, settings: Any
) -> None:
    browser = begun(idp)
    elsewhere: Any = Browser().client.post(ANSWER, {"SAMLResponse": encoded(idp.honest())})
    settings.SAML_METADATA = ()
    assert browser.get(elsewhere.headers["Location"]).status_code == 404
    assert answered(browser, encoded(idp.honest())).status_code == 404
    assert browser.get("/signin/institution?q=university").status_code == 404
    browser.get("/signin")
    assert browser.post(f"/signin/institution/{Institution.objects.get().pk}").status_code == 404
    assert "institution" not in browser.text.partition("No institution signs people in here.")[2]
    assert user_in(browser) is None


def test_an_encrypted_answer_needs_our_key(idp: LyingInstitution, settings: Any) -> None:
    browser = begun(idp)
    root = idp.response(etree.fromstring(f'<x:EncryptedAssertion xmlns:x="{SAML[1:-1]}"/>'))
    assert_refused(browser, answered(browser, encoded(root)), "WAYBILL_SAML_KEY")
    settings.SAML_KEY = pem()
    browser = begun(idp)
    root = idp.response(etree.fromstring(f'<x:EncryptedAssertion xmlns:x="{SAML[1:-1]}"/>'))
    assert_refused(browser, answered(browser, encoded(root)), "cannot be decrypted")


def pem() -> Secret:
    key = rsa.generate_private_key(65537, 2048)
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def test_requests_are_signed_where_there_is_a_key(idp: LyingInstitution, settings: Any) -> None:
    settings.SAML_KEY = pem()
    browser = begun(idp)
    query = urlsplit(led_to(browser)).query
    start, _, _ = query.partition("&Signature=")
    public = saml_sources.key_of(settings.SAML_KEY).public_key()
    public.verify(base64.b64decode(parse_qs(query)["Signature"][0]), start.encode(), PKCS1v15(), SHA256())
    settings.SAML_SIGN_REQUESTS = False
    assert "Signature" not in led_to(begun(idp))


def test_our_metadata_say_where_answers_go(idp: LyingInstitution, settings: Any) -> None:
    settings.SAML_KEY = pem()
    seen: Any = Browser().client.get("/saml/metadata")
    root = etree.fromstring(seen.content)
    assert root.get("entityID") == idp.audience
    assert [one.get("Location") for one in root.iter("{*}AssertionConsumerService")] == [idp.answers_to]
    assert len({one.text for one in root.iter(f"{DS}X509Certificate")}) == 1
    assert seen.content == Browser().client.get("/saml/metadata").content
    assert SAMLP[1:-1] in seen.content.decode()


# ---- metadata


def feed(*entities: bytes, more: str = 'ID="_feed"') -> bytes:
    inner = b"".join(entities)
    return (
        f'<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" {more}>'.encode()
        + inner
        + (b"</md:EntitiesDescriptor>")
    )


def certificates_of(idp: LyingInstitution) -> list[str]:
    root = etree.fromstring(idp.metadata())
    return ["".join(str(one.text).split()) for one in root.iter(f"{DS}X509Certificate")]


def test_a_feed_is_taken_over_if_the_federation_signed_it(idp: LyingInstitution) -> None:
    federation = LyingInstitution("", "")
    trusted = certificates_of(federation)
    data = etree.tostring(federation.signed(etree.fromstring(feed(b"<!-- x -->", idp.metadata()))))
    with pytest.raises(ProofRefusedError, match="not signed"):
        saml_directory.refresh("https://f", feed(idp.metadata()), trusted, must_be_signed=True)
    with pytest.raises(ProofRefusedError, match="not signed"):
        saml_directory.refresh("https://f", feed(idp.metadata()), [], must_be_signed=True)
    with pytest.raises(ProofRefusedError, match="not that of"):
        saml_directory.refresh("https://f", data, certificates_of(LyingInstitution("", "")), must_be_signed=True)
    with pytest.raises(ProofRefusedError, match="not that of"):
        saml_directory.refresh("https://f", data.replace(b"idp.example.edu/sso", b"evil.example/sso"), trusted,
                          must_be_signed=True)  # fmt: skip
    Institution.objects.all().delete()
    assert saml_directory.refresh("https://f", data, trusted, must_be_signed=True) == 1


BAD_FEEDS = {
    "expired": (lambda idp: feed(idp.metadata(), more=f'validUntil="{moment(-5)}"'), "expired"),
    "no time": (lambda idp: feed(idp.metadata(), more='validUntil="soon"'), "time"),
    "nothing": (lambda idp: feed(), "no institution"),
    "its entity expired": (lambda idp: feed(idp.metadata(f'validUntil="{moment(-5)}"')), "no institution"),
    "no metadata": (lambda idp: b"<a/>", "no SAML metadata"),
    "entities": (lambda idp: with_entities(idp.metadata().replace(b"University", b"Alice Liddell")), "institution"),
    "no address": (lambda idp: idp.metadata().replace(b"https://idp.example.edu/sso", b"javascript:x"), "no inst"),
}


@pytest.mark.parametrize("way", BAD_FEEDS)
def test_bad_metadata_change_nothing(idp: LyingInstitution, way: str) -> None:
    data, reason = BAD_FEEDS[way]
    with pytest.raises(ProofRefusedError, match=reason):
        saml_directory.refresh("/metadata.xml", data(idp), [], must_be_signed=False)
    assert saml_directory.by_entity_id(ENTITY).name == "Example University"


def test_a_second_source_does_not_replace_the_keys_of_the_first(idp: LyingInstitution) -> None:
    evil = LyingInstitution("", "")
    before = saml_directory.by_entity_id(ENTITY).certificates
    other = LyingInstitution("", "", entity_id="https://other.example/idp")
    assert saml_directory.refresh("/second.xml", feed(evil.metadata(), other.metadata()), [], must_be_signed=False) == 1
    assert saml_directory.by_entity_id(ENTITY).certificates == before


def test_an_institution_that_left_the_federation_is_forgotten(idp: LyingInstitution) -> None:
    other = LyingInstitution("", "", entity_id="https://other.example/idp")
    saml_directory.refresh("/metadata.xml", other.metadata(), [], must_be_signed=False)
    with pytest.raises(ProofRefusedError, match="in no metadata"):
        saml_directory.by_entity_id(ENTITY)
    saml_directory.forget_others([])
    assert not saml_directory.is_offered()


def test_sources_are_read_and_a_failure_is_reported(idp: LyingInstitution, settings: Any, tmp_path: Path) -> None:
    file = tmp_path / "idp.xml"
    file.write_bytes(idp.metadata())
    settings.SAML_METADATA = (str(file), str(tmp_path / "none.xml"), "https://feed.example/x")
    settings.SAML_CERTIFICATE = None

    def reach(url: object) -> Any:
        raise ProviderAnswerError("No way.")

    Institution.objects.all().delete()
    done = saml_sources.refresh_all(reach)
    assert list(done.values()) == [1, "The file of the metadata cannot be read: No such file or directory.", "No way."]


def test_thousands_of_institutions_are_searched_and_few_are_shown(idp: LyingInstitution) -> None:
    row = Institution.objects.get()
    many = []
    for number in range(3000):
        one = copy.copy(row)
        one.pk, one.digest, one.name = None, number.to_bytes(32, "big"), f"College {number:04}"
        one.search_text = f"college {number:04} c{number}.example.edu"
        many.append(one)
    Institution.objects.bulk_create(many)
    browser = Browser()
    browser.get("/signin/institution?q=college")
    assert len(re.findall(r"College \d{4}", unescape(browser.page))) == saml_directory.MAX_FOUND
    assert "There are more" in browser.text
    browser.get("/signin/institution?q=c2999.example")
    assert "College 2999" in browser.text


@pytest.mark.parametrize("cookie", ["x", "1.2.3.4", "9" * 400, "-1", "999999999999999", "1;2"])
def test_a_strange_cookie_remembers_nothing(idp: LyingInstitution, cookie: str) -> None:
    browser = Browser()
    browser.client.cookies["waybill-institutions"] = cookie
    assert browser.get("/signin/institution").status_code == 200
    assert "Chosen before" not in browser.text
