"""Activation, as far as it needs no server: the forms, what is refused, and whom a credential serves."""

from __future__ import annotations

import logging
import subprocess
import traceback
import uuid
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key
from django.db import connection

from deploy.endpoint.authority import Authority, Identity
from endpoints import activating, activation, forms, registry
from endpoints.activation import Need
from endpoints.errors import NotActivatedError
from endpoints.gridftp.login import GsiLogin
from endpoints.gridftp.proxies import sign_proxy
from endpoints.gridftp.x509 import Credential
from endpoints.models import Endpoint
from identity import vault
from identity.errors import VaultKeyNotConfiguredError
from identity.models import User
from identity.vault_keys import new_key, parse_keys
from tests.integration.activated import activate, credential_of, document, filled, proxy_of, push
from tests.integration.cast import all_at_once, make_endpoint
from tests.integration.described import assert_described
from tests.integration.rest import Api, assert_error
from transferapi.config import Secret

pytestmark = pytest.mark.django_db

_E = "endpoint/<str:endpoint>"


@pytest.fixture(autouse=True)
def _trust(settings: Any, authority: Authority) -> None:
    settings.CERTIFICATES = authority.certificates


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def gsi(alice: User) -> Endpoint:
    """alice's, private; wants a certificate."""
    return make_endpoint(alice, "gsi", scheme="gsiftp")


@pytest.fixture
def alices(identity_of: Callable[..., Identity]) -> Identity:
    return identity_of("alice")


def _requirements(api: Api, name: str) -> dict[str, Any]:
    answer = api.get(f"/endpoint/{name}/activation_requirements")
    assert_described("GET", f"{_E}/activation_requirements", answer)
    assert answer.status == 200
    return dict(answer.body)


# ---- what is asked for


def test_an_endpoint_without_security_needs_nothing(api: Api, ep1: Endpoint) -> None:
    found = _requirements(api, "ep1")
    assert (found["activated"], found["expires_in"], found["expire_time"]) == (True, -1, None)
    assert (found["DATA"], found["length"], found["auto_activation_supported"]) == ([], 0, True)
    for action in ("autoactivate", "autoactivate?if_expires_in=10", "activate"):
        answer = api.post(f"/endpoint/ep1/{action}", {})
        assert (answer.status, answer.code, answer.body["expires_in"]) == (200, "AlreadyActivated", -1)
    assert_error(activate(api, "ep1", "proxy", proxy="x"), 400, "ClientError.BadRequest")


@pytest.mark.parametrize(
    ("scheme", "forms"), [("gsiftp", ["myproxy", "delegate_proxy", "proxy"]), ("sshftp", ["ssh_key"]), ("ftp", [])]
)
def test_the_scheme_of_the_servers_decides_which_forms_there_are(
    api: Api, alice: User, scheme: str, forms: list[str]
) -> None:
    make_endpoint(alice, "place", scheme=scheme)
    found = _requirements(api, "place")
    assert list(dict.fromkeys(row["type"] for row in found["DATA"])) == forms
    assert found["activated"] is (not forms)
    for row in found["DATA"]:
        assert not (row["private"] and row["value"])
        secret = row["name"] in ("passphrase", "proxy", "private_key", "code")
        assert row["private"] is secret


def test_the_servers_that_the_owner_names_are_filled_in(api: Api, gsi: Endpoint) -> None:
    fields = {"myproxy_server": "MyProxy.example.org", "myproxy_dn": "/O=Grid/CN=myproxy"}
    assert api.put("/endpoint/gsi", fields).status == 200
    shown = api.get("/endpoint/gsi").body
    assert (shown["myproxy_server"], shown["myproxy_dn"]) == ("myproxy.example.org:7512", "/O=Grid/CN=myproxy")
    rows = {(row["type"], row["name"]): row["value"] for row in _requirements(api, "gsi")["DATA"]}
    assert rows["myproxy", "hostname"] == "myproxy.example.org:7512"
    assert rows["myproxy", "server_dn"] == "/O=Grid/CN=myproxy"
    assert rows["myproxy", "passphrase"] is None


# ---- a proxy that is pushed


def test_a_pushed_proxy_activates_until_it_expires(api: Api, gsi: Endpoint, alices: Identity) -> None:
    proxy = proxy_of(alices, hours=2)
    answer = push(api, "gsi", proxy)
    assert_described("POST", f"{_E}/activate", answer)
    assert (answer.status, answer.code) == (200, "Activated.ClientProxyCredential")
    assert answer.body["subject"] == proxy.identity
    assert 7100 < answer.body["expires_in"] <= 7200
    shown = api.get("/endpoint/gsi").body
    assert (shown["activated"], shown["expire_time"]) == (True, answer.body["expire_time"])
    assert datetime.fromisoformat(shown["expire_time"]) == proxy.expires_at
    assert api.get("/endpoint_search", filter_scope="my-endpoints").body["DATA"] == [api.get("/endpoint/gsi").body]
    assert api.post("/endpoint/gsi/autoactivate").code == "AlreadyActivated"


def test_the_login_of_an_activated_endpoint_has_the_users_credential(
    alice: User, api: Api, gsi: Endpoint, alices: Identity, settings: Any
) -> None:
    proxy = proxy_of(alices)
    push(api, "gsi", proxy)
    settings.DELEGATE_TO = ("Trusted.example.org",)
    found = activation.logins(alice.pk, gsi)
    assert found.expires_at == proxy.expires_at
    login = found.at("gsi.example.org", 2811, "/CN=host")
    assert isinstance(login, GsiLogin)
    assert login.credential.to_pem() == proxy.to_pem()
    assert (login.host_name, login.subject) == ("gsi.example.org", "/CN=host")
    assert not login.delegate
    assert found.at("trusted.EXAMPLE.org", 2811).delegate  # type: ignore[attr-defined]
    assert "PRIVATE" not in repr(found)


def test_an_endpoint_is_active_as_long_as_its_credential_lives(
    alice: User, api: Api, gsi: Endpoint, alices: Identity
) -> None:
    proxy = proxy_of(alices)
    push(api, "gsi", proxy)
    moment = proxy.expires_at - timedelta(seconds=1)
    assert activation.standing(alice.pk, gsi, moment).active
    later = activation.standing(alice.pk, gsi, proxy.expires_at)
    assert (later.need, later.active, later.expires_at, later.seconds_left(proxy.expires_at)) == (
        Need.X509,
        False,
        None,
        0,
    )
    with pytest.raises(NotActivatedError, match="alice#gsi"):
        activation.logins(alice.pk, gsi, proxy.expires_at)


@pytest.mark.parametrize(
    ("seconds", "code"), [("0", "AlreadyActivated"), ("60", "AlreadyActivated"), ("3600", "AutoActivationFailed")]
)
def test_what_expires_too_early_is_not_good_enough(
    api: Api, gsi: Endpoint, alices: Identity, seconds: str, code: str
) -> None:
    push(api, "gsi", proxy_of(alices, hours=1))
    answer = api.post(f"/endpoint/gsi/autoactivate?if_expires_in={seconds}")
    assert_described("POST", f"{_E}/autoactivate", answer)
    assert (answer.status, answer.code, answer.body["activated"]) == (200, code, True)
    assert bool(answer.body["DATA"]) is (code == "AutoActivationFailed")
    assert_error(api.post("/endpoint/gsi/autoactivate?if_expires_in=x"), 400, "ClientError.BadRequest")


def test_without_a_credential_autoactivation_tells_what_would_be_needed(api: Api, gsi: Endpoint) -> None:
    answer = api.post("/endpoint/gsi/autoactivate")
    assert (answer.status, answer.code) == (200, "AutoActivationFailed")
    assert (answer.body["activated"], answer.body["expires_in"], answer.body["expire_time"]) == (False, 0, None)
    assert {row["type"] for row in answer.body["DATA"]} == {"myproxy", "delegate_proxy", "proxy"}


def test_a_deactivated_endpoint_has_no_credential_any_more(
    alice: User, api: Api, gsi: Endpoint, alices: Identity
) -> None:
    push(api, "gsi", proxy_of(alices))
    answer = api.post("/endpoint/gsi/deactivate")
    assert_described("POST", f"{_E}/deactivate", answer)
    assert (answer.status, answer.code, answer.body["activated"]) == (200, "Deactivated", False)
    assert not vault.find_all(alice.pk, [vault.endpoint_binding(gsi.pk)])
    assert api.post("/endpoint/gsi/deactivate").code == "Deactivated"
    assert_error(api.get("/operation/endpoint/gsi/ls"), 400, "ClientError.ActivationRequired")


# ---- what is refused


def _long_lived(identity: Identity) -> str:
    return credential_of(identity).to_pem().decode()


def _without_key(identity: Identity) -> str:
    return proxy_of(identity).certificate.public_bytes(Encoding.PEM).decode()


def _other_key(identity: Identity) -> str:
    one, other = proxy_of(identity), proxy_of(identity)
    return Credential(one.certificate, other.key, one.chain).to_pem().decode()


def _without_chain(identity: Identity) -> str:
    return proxy_of(identity).to_pem().decode().rpartition("-----BEGIN CERT")[0]


_REFUSED: dict[str, tuple[Callable[[Identity], str], str]] = {
    "not PEM": (lambda _: "hello", "MalformedCredential"),
    "cut short": (lambda one: proxy_of(one).to_pem().decode()[:700], "MalformedCredential"),
    "without its key": (_without_key, "MalformedCredential"),
    "with another key": (_other_key, "KeyMismatch"),
    "without its chain": (_without_chain, "IncompleteChain"),
    "limited": (lambda one: proxy_of(one, limited=True).to_pem().decode(), "LimitedProxy"),
    "over in 20 seconds": (lambda one: proxy_of(one, hours=20 / 3600).to_pem().decode(), "TooShort"),
    "expired": (
        lambda one: proxy_of(one, now=datetime.now(UTC) - timedelta(hours=2)).to_pem().decode(), "Expired",
    ),
    "of tomorrow": (
        lambda one: proxy_of(one, now=datetime.now(UTC) + timedelta(hours=24)).to_pem().decode(), "NotYetValid",
    ),
    "a key for a year": (_long_lived, "NoProxy"),
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_a_credential_that_no_server_would_take_is_refused_with_the_reason(
    api: Api, gsi: Endpoint, alices: Identity, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make, flaw = _REFUSED[name]
    text = make(alices)
    answer = activate(api, "gsi", "proxy", proxy=text)
    assert_error(answer, 400, f"ClientError.CredentialRefused.{flaw}")
    _assert_untold(text, str(answer.body) + caplog.text)
    assert not api.get("/endpoint/gsi").body["activated"]


def test_a_proxy_of_an_authority_that_is_not_trusted_is_refused(
    api: Api, gsi: Endpoint, other_authority: Authority, identity_of: Callable[..., Identity]
) -> None:
    answer = push(api, "gsi", proxy_of(identity_of("alice", other_authority)))
    assert_error(answer, 400, "ClientError.CredentialRefused.UnknownAuthority")


def test_a_proxy_that_was_revoked_is_refused(api: Api, gsi: Endpoint, tmp_path: Path, settings: Any) -> None:
    issuer = Authority(tmp_path / "authority")
    identity = issuer.issue_user("alice")
    settings.CERTIFICATES = issuer.certificates
    assert push(api, "gsi", proxy_of(identity)).status == 200
    issuer.revoke([identity])
    assert_error(push(api, "gsi", proxy_of(identity)), 400, "ClientError.CredentialRefused.Revoked")


def test_a_key_that_a_server_could_not_take_a_proxy_of_is_refused_where_it_would(
    api: Api, gsi: Endpoint, alices: Identity, settings: Any
) -> None:
    """The toolkit's servers make keys as long as the user's, and of RSA: 256 bits of it are too few for anybody."""
    issuer, key = credential_of(alices), generate_private_key(SECP256R1())
    proxy = sign_proxy(issuer, key.public_key(), lifetime=timedelta(hours=1), now=datetime.now(UTC))
    credential = Credential(proxy, key, (issuer.certificate,))
    settings.DELEGATE_TO = ("gsi.example.org",)
    assert_error(push(api, "gsi", credential), 400, "ClientError.CredentialRefused.NoRsaKey")
    settings.DELEGATE_TO = ("other.example.org",)
    assert push(api, "gsi", credential).status == 200


def _assert_untold(text: str, shown: str) -> None:
    """No line of a file, but for those that all such files have, is shown."""
    for line in text.splitlines():
        assert line.startswith("-----") or len(line) < 20 or line not in shown


def test_one_form_at_a_time_is_filled_in(api: Api, gsi: Endpoint, alices: Identity) -> None:
    proxy = proxy_of(alices).to_pem().decode()
    both = document("proxy", proxy=proxy)
    both["DATA"] += document("myproxy", username="alice", passphrase="not this one")["DATA"]
    answer = api.post("/endpoint/gsi/activate", both)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert "proxy and myproxy" in answer.body["message"]
    assert "not this one" not in answer.body["message"]
    nothing: list[dict[str, Any]] = [{}, {"DATA": []}, {"DATA": None}]
    for empty in (*nothing, document("proxy", proxy=None), document("proxy", proxy="")):
        answer = api.post("/endpoint/gsi/activate", empty)
        assert_error(answer, 400, "ClientError.BadRequest")
        assert "myproxy, delegate_proxy, proxy" in answer.body["message"]


@pytest.mark.parametrize(
    ("form", "values", "said"),
    [
        ("myproxy", {"username": "alice"}, "myproxy.passphrase: "),
        ("myproxy", {"passphrase": "s3cret-s3cret"}, "myproxy.username: "),
        ("myproxy", {"username": "alice", "passphrase": "s3cret-s3cret"}, "myproxy.hostname: "),
        ("myproxy", {"username": "a\nb", "passphrase": "s3cret-s3cret"}, "myproxy.username: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret\x00s3cret"}, "myproxy.passphrase: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret\udcff"}, "myproxy.passphrase: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret" * 1000}, "myproxy.passphrase: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret-s3cret", "hostname": "h ost"}, "myproxy.hostname: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret", "lifetime_in_hours": 0}, "myproxy.lifetime_in_hours: "),
        ("myproxy", {"username": "a", "passphrase": "s3cret", "lifetime_in_hours": "9999"}, "myproxy.lifetime_in_"),
        ("myproxy", {"username": "a", "passphrase": "s3cret", "lifetime_in_hours": "a day"}, "myproxy.lifetime_in_"),
        ("proxy", {"proxy": "x" * 70_000}, "proxy.proxy: "),
        ("proxy", {"proxy": "\u00fc"}, "proxy.proxy: "),
        ("proxy", {"s3cret": "x"}, "name: "),
        ("s3cret", {"proxy": "x"}, "type: "),
        ("ssh_key", {"username": "a", "private_key": "s3cret"}, "type: "),
    ],
)
def test_what_is_filled_in_wrong_is_named_and_not_shown(
    api: Api, gsi: Endpoint, form: str, values: dict[str, object], said: str
) -> None:
    api.put("/endpoint/gsi", {"myproxy_server": ""})
    answer = activate(api, "gsi", form, **values)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(said)
    assert "s3cret" not in str(answer.body)


def test_a_row_is_there_once(api: Api, gsi: Endpoint) -> None:
    twice = document("myproxy", username="alice")
    twice["DATA"] *= 2
    answer = api.post("/endpoint/gsi/activate", twice)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("myproxy.username: ")
    many = {"DATA": [{"type": "proxy", "name": "proxy", "value": None}] * 1000}
    assert_error(api.post("/endpoint/gsi/activate", many), 400, "ClientError.BadRequest")


# ---- delegation: a signing request goes out, a proxy comes back


def _signed(requirements: dict[str, Any], identity: Identity, **more: Any) -> str:
    """What a client makes of the public key."""
    [key] = [row["value"] for row in requirements["DATA"] if row["name"] == "public_key"]
    issuer = credential_of(identity)
    lifetime = more.pop("lifetime", timedelta(hours=3))
    proxy = sign_proxy(issuer, load_pem_public_key(key.encode()), lifetime=lifetime, now=datetime.now(UTC), **more)  # type: ignore[arg-type]
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in (proxy, issuer.certificate))


def test_a_proxy_is_delegated_by_a_signing_request(alice: User, api: Api, gsi: Endpoint, alices: Identity) -> None:
    wanted = _requirements(api, "gsi")
    [text] = [row["value"] for row in wanted["DATA"] if row["name"] == "certificate_request"]
    [key] = [row["value"] for row in wanted["DATA"] if row["name"] == "public_key"]
    request = x509.load_pem_x509_csr(text.encode())
    assert request.is_signature_valid
    assert request.public_key() == load_pem_public_key(key.encode())
    answer = api.post("/endpoint/gsi/activate", filled(wanted, "delegate_proxy", proxy_chain=_signed(wanted, alices)))
    assert (answer.status, answer.code) == (200, "Activated.ClientProxyCredential")
    login = activation.logins(alice.pk, gsi).at("gsi.example.org", 2811)
    assert isinstance(login, GsiLogin)
    assert login.credential.identity == alices.subject
    assert login.credential.key.public_key() == request.public_key()


def test_a_chain_whose_certificates_follow_without_a_line_end_is_read(
    api: Api, gsi: Endpoint, alices: Identity
) -> None:
    """As the old command line client of the Transfer API joins them."""
    wanted = _requirements(api, "gsi")
    chain = _signed(wanted, alices).replace("CERTIFICATE-----\n-----BEGIN", "CERTIFICATE----------BEGIN")
    assert activate(api, "gsi", "delegate_proxy", proxy_chain=chain).code == "Activated.ClientProxyCredential"


def test_the_key_of_a_delegation_waits_for_one_proxy_and_no_second(api: Api, gsi: Endpoint, alices: Identity) -> None:
    wanted = _requirements(api, "gsi")
    assert _requirements(api, "gsi")["DATA"] == wanted["DATA"]
    limited = _signed(wanted, alices, limited=True)
    assert_error(
        activate(api, "gsi", "delegate_proxy", proxy_chain=limited), 400, "ClientError.CredentialRefused.LimitedProxy"
    )
    chain = _signed(wanted, alices)
    assert activate(api, "gsi", "delegate_proxy", proxy_chain=chain).status == 200
    assert_error(activate(api, "gsi", "delegate_proxy", proxy_chain=chain), 400, "ClientError.ActivationExpired")
    assert _requirements(api, "gsi")["DATA"] != wanted["DATA"]


def test_a_proxy_for_another_key_is_refused(api: Api, gsi: Endpoint, bob: User, alices: Identity) -> None:
    make_endpoint(bob, "gsi", scheme="gsiftp")
    _requirements(api, "gsi")
    of_bobs_key = _signed(_requirements(Api(bob), "gsi"), alices)
    answer = activate(api, "gsi", "delegate_proxy", proxy_chain=of_bobs_key)
    assert_error(answer, 400, "ClientError.CredentialRefused.KeyMismatch")


def test_the_key_of_a_delegation_never_leaves(api: Api, gsi: Endpoint) -> None:
    assert "PRIVATE" not in str(_requirements(api, "gsi"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM identity_pendingsecret t")
        assert "PRIVATE" not in str(cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_of_several_proxies_for_one_key_that_come_at_once_one_is_taken(
    api: Api, alice: User, gsi: Endpoint, alices: Identity
) -> None:
    chain = _signed(_requirements(api, "gsi"), alices)
    given = [forms.Given("delegate_proxy", "proxy_chain", Secret(chain))]
    results = all_at_once([lambda: activating.activate(alice, "gsi", given)] * 4)
    assert sorted(type(one).__name__ for one in results) == ["DelegationUnknownError"] * 3 + ["Outcome"]
    assert activation.standing(alice.pk, gsi).active


@pytest.mark.django_db(transaction=True)
def test_activations_and_deactivations_at_once_end_in_one_of_both(
    api: Api, alice: User, gsi: Endpoint, alices: Identity
) -> None:
    given = [forms.Given("proxy", "proxy", Secret(proxy_of(alices).to_pem().decode()))]
    actions = [lambda: activating.activate(alice, "gsi", given), lambda: activating.deactivate(alice, "gsi")] * 3
    results = all_at_once(actions)
    assert {type(one).__name__ for one in results} == {"Outcome"}
    assert len(vault.find_all(alice.pk, [vault.endpoint_binding(gsi.pk)])) <= 1


# ---- ssh keys


@pytest.fixture
def ssh(alice: User) -> Endpoint:
    return make_endpoint(alice, "ssh", scheme="sshftp")


def test_an_ssh_key_activates_and_its_fingerprint_is_shown(api: Api, ssh: Endpoint, ssh_key: tuple[str, str]) -> None:
    text, fingerprint = ssh_key
    answer = activate(api, "ssh", "ssh_key", username="gftp", private_key=text, passphrase="ssh passphrase")
    assert (answer.status, answer.code) == (200, "Activated.SshKeyCredential")
    assert (answer.body["activated"], answer.body["expires_in"], answer.body["expire_time"]) == (True, -1, None)
    assert answer.body["subject"] == f"gftp, ssh-ed25519 {fingerprint}"
    assert api.post("/endpoint/ssh/autoactivate?if_expires_in=1000000").code == "AlreadyActivated"
    for hours, seconds in ((1, 3600), ("24", 86400)):
        answer = activate(
            api, "ssh", "ssh_key", username="g", private_key=text, passphrase="ssh passphrase", lifetime_in_hours=hours
        )
        assert seconds - 60 < answer.body["expires_in"] <= seconds


@pytest.fixture
def ssh_key(tmp_path: Any) -> tuple[str, str]:
    """A key with the passphrase "ssh passphrase", and its fingerprint, both by ssh-keygen."""
    path = tmp_path / "key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "ssh passphrase", "-f", str(path)]
    subprocess.run(words, check=True, timeout=30)
    told = subprocess.run(["ssh-keygen", "-lf", str(path)], check=True, capture_output=True, text=True, timeout=30)
    return path.read_text(), told.stdout.split()[1]


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"passphrase": "wrong"}, "WrongPassphrase"), ({"passphrase": None}, "PassphraseNeeded"),
        ({"private_key": "no key"}, "NotAKey"), ({"username": "a b"}, "SshUserName"),
    ],
)  # fmt: skip
def test_an_ssh_key_that_is_none_is_refused(
    api: Api, ssh: Endpoint, ssh_key: tuple[str, str], change: dict[str, Any], flaw: str
) -> None:
    values = {"username": "gftp", "private_key": ssh_key[0], "passphrase": "ssh passphrase", **change}
    answer = activate(api, "ssh", "ssh_key", **values)
    assert_error(answer, 400, f"ClientError.CredentialRefused.{flaw}")
    _assert_untold(ssh_key[0], str(answer.body))


# ---- whom a credential serves


@pytest.fixture
def shared(alice: User, bob: User) -> tuple[Endpoint, Endpoint]:
    """Two endpoints of two owners that name one MyProxy server, each in its own way."""
    one, two = make_endpoint(alice, "one", scheme="gsiftp"), make_endpoint(bob, "two", scheme="gsiftp", public=True)
    registry.update(alice, "one", {"myproxy_server": "myproxy.example.org"})
    registry.update(bob, "two", {"myproxy_server": "MYPROXY.example.org:7512"})
    return one, two


def _keep(user: User, identity: Identity, *, hours: float = 1.0) -> None:
    """What a logon at that server leaves behind."""
    proxy = proxy_of(identity, hours=hours)
    bound_to = vault.myproxy_binding("myproxy.example.org", 7512)
    vault.store(user, bound_to, vault.Kind.X509, proxy.to_pem(), subject=proxy.identity, expires_at=proxy.expires_at)


def test_a_credential_of_a_server_serves_every_endpoint_that_names_it(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: Identity
) -> None:
    _keep(alice, alices)
    for name in ("one", "bob%23two"):
        answer = api.post(f"/endpoint/{name}/autoactivate?if_expires_in=600")
        assert (answer.code, answer.body["subject"]) == ("AutoActivated.CachedCredential", alices.subject)
        assert api.get(f"/endpoint/{name}").body["activated"]
        assert api.post(f"/endpoint/{name}/autoactivate?if_expires_in=7200").code == "AutoActivationFailed"
    registry.update(alice, "one", {"myproxy_server": "other.example.org"})
    assert not api.get("/endpoint/one").body["activated"]


def test_deactivating_one_of_them_forgets_the_credential_of_all(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: Identity
) -> None:
    _keep(alice, alices)
    assert api.post("/endpoint/bob%23two/deactivate").code == "Deactivated"
    assert not api.get("/endpoint/one").body["activated"]


def test_what_was_given_for_an_endpoint_itself_comes_before_what_it_shares(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: Identity, identity_of: Callable[..., Identity]
) -> None:
    _keep(alice, alices, hours=10)
    robot = identity_of("robot")
    assert push(api, "one", proxy_of(robot)).body["subject"] == robot.subject
    assert api.post("/endpoint/one/autoactivate").body["subject"] == robot.subject
    assert api.post("/endpoint/bob%23two/autoactivate").body["subject"] == alices.subject
    later = datetime.now(UTC) + timedelta(hours=2)
    found = activation.standing(alice.pk, Endpoint.objects.get(pk=shared[0].pk), later)
    assert found.held is not None
    assert found.held.subject == alices.subject


def test_one_users_credential_never_serves_another(
    alice: User, bob: User, charlie: User, shared: tuple[Endpoint, Endpoint], alices: Identity
) -> None:
    _keep(alice, alices)
    registry.update(alice, "one", {"public": True})
    push(Api(alice), "one", proxy_of(alices))
    for user in (bob, charlie):
        api = Api(user)
        for name in ("alice%23one", "bob%23two"):
            assert not api.get(f"/endpoint/{name}").body["activated"]
            assert api.post(f"/endpoint/{name}/autoactivate").code == "AutoActivationFailed"
            assert_error(api.get(f"/operation/endpoint/{name}/ls"), 400, "ClientError.ActivationRequired")
            assert api.post(f"/endpoint/{name}/deactivate").code == "Deactivated"
    assert Api(alice).get("/endpoint/one").body["activated"]


def test_an_endpoint_that_is_deleted_leaves_no_credential_behind(
    api: Api, alice: User, bob: User, gsi: Endpoint, alices: Identity
) -> None:
    registry.update(alice, "gsi", {"public": True})
    for user in (alice, bob):
        assert push(Api(user), "alice%23gsi", proxy_of(alices)).status == 200
    assert api.delete("/endpoint/gsi").status == 200
    for user in (alice, bob):
        assert not vault.find_all(user.pk, [vault.endpoint_binding(gsi.pk)])


def test_a_credential_of_the_wrong_kind_is_none(api: Api, alice: User, ssh: Endpoint, ssh_key: tuple[str, str]) -> None:
    """When the owner changes what his servers speak."""
    activate(api, "ssh", "ssh_key", username="gftp", private_key=ssh_key[0], passphrase="ssh passphrase")
    registry.update_server(alice, "ssh", ssh.servers.get().pk, registry.ServerSpec("ssh.example.org"))
    assert not api.get("/endpoint/ssh").body["activated"]


# ---- tasks and operations need it


def _transfer(source: str, destination: str, **more: Any) -> dict[str, Any]:
    item = {"source_path": "/a", "destination_path": "/b"}
    return {
        "submission_id": str(uuid.uuid4()), "source_endpoint": source, "destination_endpoint": destination,
        "DATA": [item], **more,
    }  # fmt: skip


def test_a_task_is_accepted_when_its_endpoints_are_activated(
    api: Api, ep1: Endpoint, gsi: Endpoint, alices: Identity
) -> None:
    for places in (("ep1", "gsi"), ("gsi", "ep1")):
        answer = api.post("/transfer", _transfer(*places))
        assert_error(answer, 409, "NoCredException")
        assert "alice#gsi" in answer.body["message"]
    delete = {"submission_id": _transfer("a", "b")["submission_id"], "endpoint": "gsi", "DATA": [{"path": "/a"}]}
    assert_error(api.post("/delete", delete), 409, "NoCredException")
    assert api.post("/transfer", _transfer("ep1", "gsi", skip_activation_check=True)).status == 202
    push(api, "gsi", proxy_of(alices))
    assert api.post("/transfer", _transfer("ep1", "gsi")).status == 202
    assert api.post("/delete", delete).status == 202


def test_operations_need_an_active_endpoint(api: Api, gsi: Endpoint) -> None:
    place = "/operation/endpoint/gsi"
    answers = [
        api.get(f"{place}/ls"), api.get(f"{place}/stat", path="/a"), api.post(f"{place}/mkdir", {"path": "/a"}),
        api.post(f"{place}/rename", {"old_path": "/a", "new_path": "/b"}),
    ]  # fmt: skip
    for answer in answers:
        assert_error(answer, 400, "ClientError.ActivationRequired")


# ---- the vault


def test_without_a_vault_key_nothing_is_taken(api: Api, gsi: Endpoint, alices: Identity, settings: Any) -> None:
    settings.VAULT_KEYS = ()
    assert_error(push(api, "gsi", proxy_of(alices)), 501, "ServiceError.VaultKeyNotConfigured")
    assert_error(api.get("/endpoint/gsi/activation_requirements"), 501, "ServiceError.VaultKeyNotConfigured")


def test_a_vault_key_that_was_changed_asks_for_a_new_activation(
    api: Api, gsi: Endpoint, alices: Identity, settings: Any
) -> None:
    push(api, "gsi", proxy_of(alices))
    settings.VAULT_KEYS = parse_keys(new_key())
    answer = api.get("/operation/endpoint/gsi/ls")
    assert_error(answer, 400, "ClientError.ActivationRequired.VaultKeyMissing")
    assert push(api, "gsi", proxy_of(alices)).status == 200
    assert_error(api.get("/operation/endpoint/gsi/ls"), 502)


def test_no_secret_is_told(api: Api, gsi: Endpoint, alices: Identity, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in an answer nor in a log, nor as it is in the database."""
    caplog.set_level(logging.DEBUG)
    proxy = proxy_of(alices).to_pem().decode()
    shown = [str(push(api, "gsi", credential).body) for credential in [proxy_of(alices)]]
    shown.append(str(activate(api, "gsi", "proxy", proxy=proxy).body))
    shown += [str(api.get(f"/endpoint/gsi{path}").body) for path in ("", "/activation_requirements")]
    shown += [str(api.post(f"/endpoint/gsi/{name}").body) for name in ("autoactivate", "deactivate")]
    key = proxy.partition("RSA PRIVATE KEY-----\n")[2].partition("-----END")[0]
    _assert_untold(key, "".join(shown) + caplog.text)
    assert b64decode(key)


@pytest.mark.parametrize("form", ["proxy", "delegate_proxy", "ssh_key"])
def test_no_frame_of_a_traceback_shows_a_secret(
    api: Api,
    alice: User,
    gsi: Endpoint,
    ssh: Endpoint,
    alices: Identity,
    ssh_key: tuple[str, str],
    settings: Any,
    form: str,
) -> None:
    """Of ours: what a debugger or a log of local variables would show, when the vault refuses in the end."""
    place, values = "gsi", {"proxy": proxy_of(alices).to_pem().decode()}
    if form == "delegate_proxy":
        values = {"proxy_chain": _signed(_requirements(api, "gsi"), alices)}
    if form == "ssh_key":
        place, values = "ssh", {"username": "g", "private_key": ssh_key[0], "passphrase": "ssh passphrase"}
    given = [forms.Given(form, name, Secret(value)) for name, value in values.items()]
    secrets = {line for value in values.values() for line in value.splitlines() if len(line) > 10} - {
        "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----",
    }  # fmt: skip
    settings.VAULT_KEYS = ()
    with pytest.raises(VaultKeyNotConfiguredError) as caught:
        activating.activate(alice, place, given)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb) if "/endpoints/" in frame.f_code.co_filename]
    assert len(frames) >= 2
    shown = "".join(repr(value) for frame in frames for value in frame.f_locals.values())
    assert not [line for line in secrets if line in shown]


# ---- how much the database is asked


def test_a_page_of_endpoints_costs_one_look_into_the_vault(
    api: Api, alice: User, alices: Identity, django_assert_num_queries: Any
) -> None:
    for number in range(4):
        make_endpoint(alice, f"gsi{number}", scheme="gsiftp")
        push(api, f"gsi{number}", proxy_of(alices))
        with django_assert_num_queries(4):  # the token, the endpoints, their servers, the credentials
            rows = api.get("/endpoint_search", filter_scope="my-endpoints").body["DATA"]
        assert [row["activated"] for row in rows] == [True] * (number + 1)
