"""Activation, as far as it needs no server: the forms, what is refused, and whom a credential serves."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from django.db import connection

from deploy.endpoint.authority import CertificateFiles
from endpoints import registry
from endpoints.activation import forms, services
from endpoints.activation import status as activation
from endpoints.activation.status import Need
from endpoints.errors import NotActivatedError
from endpoints.gridftp.login import GsiLogin
from endpoints.models import Endpoint
from identity.gsi.x509 import X509Credential
from identity.hidden import Secret
from identity.models import User
from identity.vault import store as vault
from tests.integration.activated import (
    activate,
    filled,
    proxy_of,
    push,
    requirements_of,
    signed,
)
from tests.integration.cast import all_at_once, make_endpoint
from tests.integration.rest import Api, assert_error

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("trusting")]

_E = "endpoint/<str:endpoint>"


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


# ---- what is asked for


def test_an_endpoint_without_security_needs_nothing(api: Api, ep1: Endpoint) -> None:
    found = requirements_of(api, "ep1")
    assert (found["activated"], found["expires_in"], found["expire_time"]) == (True, -1, None)
    assert {row["type"] for row in found["DATA"]} == {"password"}, "an account there, if the user has one"
    assert found["auto_activation_supported"] is True
    for action in ("autoactivate", "autoactivate?if_expires_in=10", "activate"):
        answer = api.post(f"/endpoint/ep1/{action}", {})
        assert (answer.status, answer.code, answer.body["expires_in"]) == (200, "AlreadyActivated", -1)
    assert_error(activate(api, "ep1", "proxy", proxy="x"), 400, "ClientError.BadRequest")


def test_a_user_may_give_a_name_and_a_password_for_an_ftp_server(api: Api, alice: User, ep1: Endpoint) -> None:
    answer = activate(api, "ep1", "password", username="alice", password="secret of alice")
    assert (answer.status, answer.code) == (200, "Activated.PasswordCredential")
    assert requirements_of(api, "ep1")["activated"]
    login = activation.logins(alice.pk, ep1).at("dtn", 21, "")
    assert (login.user, login.password) == (b"alice", b"secret of alice")
    assert "secret of alice" not in f"{login!r} {login.key} {answer.body}"
    assert api.post("/endpoint/ep1/deactivate", {}).code == "Deactivated"
    assert activation.logins(alice.pk, ep1).at("dtn", 21, "").user == b"anonymous"


def test_an_operator_may_refuse_passwords_that_travel_in_clear(api: Api, ep1: Endpoint, settings: Any) -> None:
    settings.CLEAR_PASSWORDS = False
    assert requirements_of(api, "ep1")["DATA"] == []
    assert_error(activate(api, "ep1", "password", username="a", password="b"), 400, "ClientError.BadRequest")


@pytest.mark.parametrize(
    ("scheme", "forms"),
    [
        ("gsiftp", ["myproxy", "delegate_proxy", "proxy"]),
        ("sshftp", ["ssh_key"]),
        ("sftp", ["ssh_key"]),
        ("ftp", ["password"]),
    ],
)
def test_the_scheme_of_the_servers_decides_which_forms_there_are(
    api: Api, alice: User, scheme: str, forms: list[str]
) -> None:
    make_endpoint(alice, "place", scheme=scheme)
    found = requirements_of(api, "place")
    assert list(dict.fromkeys(row["type"] for row in found["DATA"])) == forms
    assert found["activated"] is (scheme == "ftp")
    for row in found["DATA"]:
        assert not (row["private"] and row["value"])
        secret = row["name"] in ("passphrase", "password", "proxy", "private_key", "code")
        assert row["private"] is secret


def test_the_servers_that_the_owner_names_are_filled_in(api: Api, gsi: Endpoint) -> None:
    fields = {"myproxy_server": "MyProxy.example.org", "myproxy_dn": "/O=Grid/CN=myproxy"}
    assert api.put("/endpoint/gsi", fields).status == 200
    shown = api.get("/endpoint/gsi").body
    assert (shown["myproxy_server"], shown["myproxy_dn"]) == ("myproxy.example.org:7512", "/O=Grid/CN=myproxy")
    rows = {(row["type"], row["name"]): row["value"] for row in requirements_of(api, "gsi")["DATA"]}
    assert rows["myproxy", "hostname"] == "myproxy.example.org:7512"
    assert rows["myproxy", "server_dn"] == "/O=Grid/CN=myproxy"
    assert rows["myproxy", "passphrase"] is None


# ---- a proxy that is pushed


def test_a_pushed_proxy_activates_until_it_expires(api: Api, gsi: Endpoint, alices: CertificateFiles) -> None:
    proxy = proxy_of(alices, hours=2)
    answer = push(api, "gsi", proxy)
    assert (answer.status, answer.code) == (200, "Activated.ClientProxyCredential")
    assert answer.body["subject"] == proxy.identity
    assert 7100 < answer.body["expires_in"] <= 7200
    shown = api.get("/endpoint/gsi").body
    assert (shown["activated"], shown["expire_time"]) == (True, answer.body["expire_time"])
    assert datetime.fromisoformat(shown["expire_time"]) == proxy.expires_at
    [listed] = api.get("/endpoint_search", filter_scope="my-endpoints").body["DATA"]
    # A second may have passed between the two answers.
    assert {**listed, "expires_in": None} == {**shown, "expires_in": None}
    assert api.post("/endpoint/gsi/autoactivate").code == "AlreadyActivated"


def test_the_login_of_an_activated_endpoint_has_the_users_credential(
    alice: User, api: Api, gsi: Endpoint, alices: CertificateFiles, settings: Any
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
    assert found.at("trusted.EXAMPLE.org", 2811, "").delegate  # type: ignore[attr-defined]
    # Any account on that host could run a server with a certificate of its own, and register that one's subject.
    assert not found.at("trusted.example.org", 5000, "/O=Grid/CN=Mallory").delegate  # type: ignore[attr-defined]
    assert "PRIVATE" not in repr(found)


def test_an_endpoint_is_active_as_long_as_its_credential_lives(
    alice: User, api: Api, gsi: Endpoint, alices: CertificateFiles
) -> None:
    proxy = proxy_of(alices)
    push(api, "gsi", proxy)
    moment = proxy.expires_at - timedelta(seconds=1)
    assert activation.activation_status(alice.pk, gsi, moment).active
    later = activation.activation_status(alice.pk, gsi, proxy.expires_at)
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
    api: Api, gsi: Endpoint, alices: CertificateFiles, seconds: str, code: str
) -> None:
    push(api, "gsi", proxy_of(alices, hours=1))
    answer = api.post(f"/endpoint/gsi/autoactivate?if_expires_in={seconds}")
    assert (answer.status, answer.code, answer.body["activated"]) == (200, code, True)
    assert bool(answer.body["DATA"]) is (code == "AutoActivationFailed")
    assert_error(api.post("/endpoint/gsi/autoactivate?if_expires_in=x"), 400, "ClientError.BadRequest")


def test_without_a_credential_autoactivation_says_what_would_be_needed(api: Api, gsi: Endpoint) -> None:
    answer = api.post("/endpoint/gsi/autoactivate")
    assert (answer.status, answer.code) == (200, "AutoActivationFailed")
    assert (answer.body["activated"], answer.body["expires_in"], answer.body["expire_time"]) == (False, 0, None)
    assert {row["type"] for row in answer.body["DATA"]} == {"myproxy", "delegate_proxy", "proxy"}


def test_a_deactivated_endpoint_has_no_credential_any_more(
    alice: User, api: Api, gsi: Endpoint, alices: CertificateFiles
) -> None:
    push(api, "gsi", proxy_of(alices))
    answer = api.post("/endpoint/gsi/deactivate")
    assert (answer.status, answer.code, answer.body["activated"]) == (200, "Deactivated", False)
    assert not vault.find_all(alice.pk, [vault.endpoint_binding(gsi.pk)])
    assert api.post("/endpoint/gsi/deactivate").code == "Deactivated"
    assert_error(api.get("/operation/endpoint/gsi/ls"), 400, "ClientError.ActivationRequired")


# ---- delegation: a signing request goes out, a proxy comes back


def test_a_proxy_is_delegated_by_a_signing_request(
    alice: User, api: Api, gsi: Endpoint, alices: CertificateFiles
) -> None:
    wanted = requirements_of(api, "gsi")
    [text] = [row["value"] for row in wanted["DATA"] if row["name"] == "certificate_request"]
    [key] = [row["value"] for row in wanted["DATA"] if row["name"] == "public_key"]
    request = x509.load_pem_x509_csr(text.encode())
    assert request.is_signature_valid
    assert request.public_key() == load_pem_public_key(key.encode())
    answer = api.post("/endpoint/gsi/activate", filled(wanted, "delegate_proxy", proxy_chain=signed(wanted, alices)))
    assert (answer.status, answer.code) == (200, "Activated.ClientProxyCredential")
    login = activation.logins(alice.pk, gsi).at("gsi.example.org", 2811, "")
    assert isinstance(login, GsiLogin)
    assert login.credential.identity == alices.subject
    assert login.credential.key.public_key() == request.public_key()


def test_a_chain_whose_certificates_follow_without_a_line_end_is_read(
    api: Api, gsi: Endpoint, alices: CertificateFiles
) -> None:
    """The old command line client of the Transfer API joins certificates in this way."""
    wanted = requirements_of(api, "gsi")
    chain = signed(wanted, alices).replace("CERTIFICATE-----\n-----BEGIN", "CERTIFICATE----------BEGIN")
    assert activate(api, "gsi", "delegate_proxy", proxy_chain=chain).code == "Activated.ClientProxyCredential"


def test_the_key_of_a_delegation_waits_for_one_proxy_and_no_second(
    api: Api, gsi: Endpoint, alices: CertificateFiles
) -> None:
    wanted = requirements_of(api, "gsi")
    assert requirements_of(api, "gsi")["DATA"] == wanted["DATA"]
    limited = signed(wanted, alices, limited=True)
    assert_error(
        activate(api, "gsi", "delegate_proxy", proxy_chain=limited), 400, "ClientError.CredentialRefused.LimitedProxy"
    )
    chain = signed(wanted, alices)
    assert activate(api, "gsi", "delegate_proxy", proxy_chain=chain).status == 200
    assert_error(activate(api, "gsi", "delegate_proxy", proxy_chain=chain), 400, "ClientError.ActivationExpired")
    assert requirements_of(api, "gsi")["DATA"] != wanted["DATA"]


def test_a_proxy_for_another_key_is_refused(api: Api, gsi: Endpoint, bob: User, alices: CertificateFiles) -> None:
    make_endpoint(bob, "gsi", scheme="gsiftp")
    requirements_of(api, "gsi")
    of_bobs_key = signed(requirements_of(Api(bob), "gsi"), alices)
    answer = activate(api, "gsi", "delegate_proxy", proxy_chain=of_bobs_key)
    assert_error(answer, 400, "ClientError.CredentialRefused.KeyMismatch")


def test_the_key_of_a_delegation_never_leaves(api: Api, gsi: Endpoint) -> None:
    assert "PRIVATE" not in str(requirements_of(api, "gsi"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM identity_pendingsecret t")
        assert "PRIVATE" not in str(cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_of_several_proxies_for_one_key_that_come_at_once_one_is_taken(
    api: Api, alice: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    chain = signed(requirements_of(api, "gsi"), alices)
    given = [forms.GivenField("delegate_proxy", "proxy_chain", Secret(chain))]
    results = all_at_once([lambda: services.activate(alice, "gsi", given)] * 4)
    assert sorted(type(one).__name__ for one in results) == ["ActivationResult"] + ["RefusedError"] * 3
    assert activation.activation_status(alice.pk, gsi).active


@pytest.mark.django_db(transaction=True)
def test_activations_and_deactivations_at_once_end_in_one_of_both(
    api: Api, alice: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    given = [forms.GivenField("proxy", "proxy", Secret(proxy_of(alices).to_pem().decode()))]
    actions = [lambda: services.activate(alice, "gsi", given), lambda: services.deactivate(alice, "gsi")] * 3
    results = all_at_once(actions)
    assert {type(one).__name__ for one in results} == {"ActivationResult"}
    assert len(vault.find_all(alice.pk, [vault.endpoint_binding(gsi.pk)])) <= 1


# ---- ssh keys


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


# ---- whom a credential serves


@pytest.fixture
def shared(alice: User, bob: User) -> tuple[Endpoint, Endpoint]:
    """Two endpoints of two owners that name one MyProxy server, each in its own way."""
    one, two = make_endpoint(alice, "one", scheme="gsiftp"), make_endpoint(bob, "two", scheme="gsiftp", public=True)
    registry.update(alice, "one", {"myproxy_server": "myproxy.example.org"})
    registry.update(bob, "two", {"myproxy_server": "MYPROXY.example.org:7512"})
    return one, two


def _keep(user: User, identity: CertificateFiles, *, hours: float = 1.0) -> None:
    """Store a credential as a logon at that MyProxy server does."""
    proxy = proxy_of(identity, hours=hours)
    bound_to = vault.myproxy_binding("myproxy.example.org", 7512)
    vault.store(
        user, bound_to, vault.CredentialKind.X509, proxy.to_pem(), subject=proxy.identity, expires_at=proxy.expires_at
    )


def test_a_credential_of_a_server_serves_every_endpoint_that_names_it(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: CertificateFiles
) -> None:
    _keep(alice, alices)
    for name in ("one", "bob%23two"):
        answer = api.post(f"/endpoint/{name}/autoactivate?if_expires_in=600")
        assert (answer.code, answer.body["subject"]) == ("AutoActivated.CachedCredential", alices.subject)
        assert api.post(f"/endpoint/{name}/autoactivate?if_expires_in=600").code == "AlreadyActivated"
        assert api.get(f"/endpoint/{name}").body["activated"]
        assert api.post(f"/endpoint/{name}/autoactivate?if_expires_in=7200").code == "AutoActivationFailed"
    registry.update(alice, "one", {"myproxy_server": "other.example.org"})
    assert not api.get("/endpoint/one").body["activated"]


def test_deactivating_one_of_them_forgets_the_credential_of_all(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: CertificateFiles
) -> None:
    _keep(alice, alices)
    assert api.post("/endpoint/bob%23two/deactivate").code == "Deactivated"
    assert not api.get("/endpoint/one").body["activated"]


def test_what_was_given_for_an_endpoint_itself_comes_before_what_it_shares(
    api: Api,
    alice: User,
    shared: tuple[Endpoint, Endpoint],
    alices: CertificateFiles,
    identity_of: Callable[..., CertificateFiles],
) -> None:
    _keep(alice, alices, hours=10)
    robot = identity_of("robot")
    assert push(api, "one", proxy_of(robot)).body["subject"] == robot.subject
    assert api.post("/endpoint/one/autoactivate").body["subject"] == robot.subject
    assert api.post("/endpoint/bob%23two/autoactivate").body["subject"] == alices.subject
    later = datetime.now(UTC) + timedelta(hours=2)
    found = activation.activation_status(alice.pk, Endpoint.objects.get(pk=shared[0].pk), later)
    assert found.credential is not None
    assert found.credential.subject == alices.subject


def test_a_shared_one_that_lives_longer_takes_the_place_of_one_that_is_nearly_over(
    api: Api,
    alice: User,
    shared: tuple[Endpoint, Endpoint],
    alices: CertificateFiles,
    identity_of: Callable[..., CertificateFiles],
) -> None:
    _keep(alice, alices, hours=10)
    push(api, "one", proxy_of(identity_of("robot"), hours=1))
    assert api.post("/endpoint/one/autoactivate?if_expires_in=600").code == "AlreadyActivated"
    answer = api.post("/endpoint/one/autoactivate?if_expires_in=7200")
    assert (answer.code, answer.body["subject"]) == ("AutoActivated.CachedCredential", alices.subject)
    assert api.post("/endpoint/one/autoactivate?if_expires_in=7200").code == "AlreadyActivated"
    assert api.post("/endpoint/one/autoactivate?if_expires_in=72000").code == "AutoActivationFailed"


def test_a_credential_that_came_after_the_one_an_endpoint_was_activated_with_is_a_cached_one(
    api: Api, alice: User, shared: tuple[Endpoint, Endpoint], alices: CertificateFiles
) -> None:
    def autoactivate() -> str:
        return str(api.post("/endpoint/one/autoactivate").code)

    _keep(alice, alices)
    assert [autoactivate(), autoactivate()] == ["AutoActivated.CachedCredential", "AlreadyActivated"]
    _keep(alice, alices, hours=2)  # the same one, renewed: the endpoint was active all the time
    assert autoactivate() == "AlreadyActivated"
    api.post("/endpoint/one/deactivate")
    assert autoactivate() == "AutoActivationFailed"
    _keep(alice, alices)
    assert autoactivate() == "AutoActivated.CachedCredential"
    push(api, "one", proxy_of(alices))
    assert autoactivate() == "AlreadyActivated"
    vault.forget(alice, vault.endpoint_binding(shared[0].pk))  # as when it has expired
    assert [autoactivate(), autoactivate()] == ["AutoActivated.CachedCredential", "AlreadyActivated"]


def test_one_users_credential_never_serves_another(
    alice: User, bob: User, charlie: User, shared: tuple[Endpoint, Endpoint], alices: CertificateFiles
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
    api: Api, alice: User, bob: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    registry.update(alice, "gsi", {"public": True})
    for user in (alice, bob):
        assert push(Api(user), "alice%23gsi", proxy_of(alices)).status == 200
    assert api.delete("/endpoint/gsi").status == 200
    for user in (alice, bob):
        assert not vault.find_all(user.pk, [vault.endpoint_binding(gsi.pk)])


def test_an_endpoint_that_is_closed_to_others_leaves_no_credential_of_theirs_behind(
    api: Api, alice: User, bob: User, gsi: Endpoint, alices: CertificateFiles
) -> None:
    """They could not take it back any more."""
    registry.update(alice, "gsi", {"public": True})
    for user in (alice, bob):
        assert push(Api(user), "alice%23gsi", proxy_of(alices)).status == 200
    registry.update(alice, "gsi", {"description": "the same"})
    assert vault.find_all(bob.pk, [vault.endpoint_binding(gsi.pk)])
    registry.update(alice, "gsi", {"public": False})
    assert vault.find_all(alice.pk, [vault.endpoint_binding(gsi.pk)])
    assert not vault.find_all(bob.pk, [vault.endpoint_binding(gsi.pk)])


@pytest.mark.parametrize("gone", [{"deleted_at": datetime.now(UTC)}, {"public": False}])
def test_a_credential_that_comes_when_its_endpoint_is_gone_is_not_kept(
    bob: User, gsi: Endpoint, alices: CertificateFiles, monkeypatch: pytest.MonkeyPatch, gone: dict[str, Any]
) -> None:
    Endpoint.objects.filter(pk=gsi.pk).update(public=True)
    parse = X509Credential.parse

    def slowly(pem: bytes) -> Any:
        Endpoint.objects.filter(pk=gsi.pk).update(**gone)
        return parse(pem)

    monkeypatch.setattr(X509Credential, "parse", slowly)
    assert push(Api(bob), str(gsi.pk), proxy_of(alices)).code == "EndpointNotFound"
    assert not vault.find_all(bob.pk, [vault.endpoint_binding(gsi.pk)])


def test_a_credential_of_the_wrong_kind_is_none(api: Api, alice: User, ssh: Endpoint, ssh_key: tuple[str, str]) -> None:
    """The owner of the endpoint changes the protocol of its server after the activation."""
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
    api: Api, ep1: Endpoint, gsi: Endpoint, alices: CertificateFiles
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


# ---- how much the database is asked


def test_a_page_of_endpoints_costs_one_look_into_the_vault(
    api: Api, alice: User, alices: CertificateFiles, django_assert_num_queries: Any
) -> None:
    for number in range(4):
        make_endpoint(alice, f"gsi{number}", scheme="gsiftp")
        push(api, f"gsi{number}", proxy_of(alices))
        # The token, the endpoints, their servers, the credentials, the tasks, the primary identities of the owners.
        with django_assert_num_queries(6):
            rows = api.get("/endpoint_search", filter_scope="my-endpoints").body["DATA"]
        assert [row["activated"] for row in rows] == [True] * (number + 1)
