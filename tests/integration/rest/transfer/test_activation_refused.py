"""Credentials that activation refuses, each with its own reason, and no secret in any answer or log."""

from __future__ import annotations

import logging
import traceback
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from deploy.endpoint.authority import CertificateFiles
from endpoints.activation import forms, services
from endpoints.models import Endpoint
from identity.gsi.proxies import sign_proxy
from identity.gsi.x509 import X509Credential
from identity.hidden import Secret
from identity.models import User
from identity.vault.errors import VaultKeyNotConfiguredError
from identity.vault.keys import new_key, parse_keys
from tests.gridftp.authority import Authority
from tests.gridftp.grid import credential_of
from tests.integration.activated import (
    activate,
    document,
    proxy_of,
    push,
    requirements_of,
    signed,
)
from tests.integration.rest import Api, assert_error
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("trusting")]


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


# ---- credentials that are not good enough


def _long_lived(identity: CertificateFiles) -> str:
    return credential_of(identity).to_pem().decode()


def _without_key(identity: CertificateFiles) -> str:
    return proxy_of(identity).certificate.public_bytes(Encoding.PEM).decode()


def _other_key(identity: CertificateFiles) -> str:
    one, other = proxy_of(identity), proxy_of(identity)
    return X509Credential(one.certificate, other.key, one.chain).to_pem().decode()


def _encrypted_key(identity: CertificateFiles) -> str:
    key = load_pem_private_key(identity.key.read_bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"of the key"))
    return identity.certificate.read_text() + pem.decode()


def _without_chain(identity: CertificateFiles) -> str:
    return proxy_of(identity).to_pem().decode().rpartition("-----BEGIN CERT")[0]


_REFUSED: dict[str, tuple[Callable[[CertificateFiles], str], str]] = {
    "not PEM": (lambda _: "hello", "MalformedCredential"),
    "cut short": (lambda one: proxy_of(one).to_pem().decode()[:700], "MalformedCredential"),
    "without its key": (_without_key, "MalformedCredential"),
    "with another key": (_other_key, "KeyMismatch"),
    "with an encrypted key": (_encrypted_key, "Passphrase"),
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
    api: Api, gsi: Endpoint, alices: CertificateFiles, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make, flaw = _REFUSED[name]
    text = make(alices)
    answer = activate(api, "gsi", "proxy", proxy=text)
    assert_error(answer, 400, f"ClientError.CredentialRefused.{flaw}")
    _assert_untold(text, str(answer.body) + caplog.text)
    assert not api.get("/endpoint/gsi").body["activated"]


def test_a_proxy_of_an_authority_that_is_not_trusted_is_refused(
    api: Api, gsi: Endpoint, other_authority: Authority, identity_of: Callable[..., CertificateFiles]
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
    api: Api, gsi: Endpoint, alices: CertificateFiles, settings: Any
) -> None:
    """The toolkit's servers make keys as long as the user's, and of RSA: 256 bits of it are too few for anybody."""
    issuer, key = credential_of(alices), generate_private_key(SECP256R1())
    proxy = sign_proxy(issuer, key.public_key(), lifetime=timedelta(hours=1), now=datetime.now(UTC))
    credential = X509Credential(proxy, key, (issuer.certificate,))
    settings.DELEGATE_TO = ("gsi.example.org",)
    assert_error(push(api, "gsi", credential), 400, "ClientError.CredentialRefused.NoRsaKey")
    settings.DELEGATE_TO = ("other.example.org",)
    assert push(api, "gsi", credential).status == 200


def _assert_untold(text: str, shown: str) -> None:
    """No line of a file, but for those that all such files have, is shown."""
    for line in text.splitlines():
        assert line.startswith("-----") or len(line) < 20 or line not in shown


def test_one_form_at_a_time_is_filled_in(api: Api, gsi: Endpoint, alices: CertificateFiles) -> None:
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


# ---- the vault


def test_without_a_vault_key_nothing_is_taken(api: Api, gsi: Endpoint, alices: CertificateFiles, settings: Any) -> None:
    settings.VAULT_KEYS = ()
    assert_error(push(api, "gsi", proxy_of(alices)), 501, "ServiceError.VaultKeyNotConfigured")
    assert_error(api.get("/endpoint/gsi/activation_requirements"), 501, "ServiceError.VaultKeyNotConfigured")


def test_a_vault_key_that_was_changed_asks_for_a_new_activation(
    api: Api, gsi: Endpoint, alices: CertificateFiles, settings: Any
) -> None:
    push(api, "gsi", proxy_of(alices))
    settings.VAULT_KEYS = parse_keys(new_key())
    answer = api.get("/operation/endpoint/gsi/ls")
    assert_error(answer, 400, "ClientError.ActivationRequired.VaultKeyMissing")
    assert push(api, "gsi", proxy_of(alices)).status == 200
    assert_error(api.get("/operation/endpoint/gsi/ls"), 502)


def test_no_secret_is_shown(
    api: Api, gsi: Endpoint, alices: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
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
    alices: CertificateFiles,
    ssh_key: tuple[str, str],
    settings: Any,
    form: str,
) -> None:
    """Local variables of our functions, as a debugger or a log would show them, hold no secret if the vault refuses."""
    place, values = "gsi", {"proxy": proxy_of(alices).to_pem().decode()}
    if form == "delegate_proxy":
        values = {"proxy_chain": signed(requirements_of(api, "gsi"), alices)}
    if form == "ssh_key":
        place, values = "ssh", {"username": "g", "private_key": ssh_key[0], "passphrase": "ssh passphrase"}
    given = [forms.GivenField(form, name, Secret(value)) for name, value in values.items()]
    secrets = {line for value in values.values() for line in value.splitlines() if len(line) > 10} - {
        "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----",
    }  # fmt: skip
    settings.VAULT_KEYS = ()
    with pytest.raises(VaultKeyNotConfiguredError) as caught:
        services.activate(alice, place, given)
    frames = [
        frame for frame, _ in traceback.walk_tb(caught.tb) if f"{CHECKOUT}/endpoints/" in frame.f_code.co_filename
    ]
    assert len(frames) >= 2
    shown = "".join(repr(value) for frame in frames for value in frame.f_locals.values())
    assert not [line for line in secrets if line in shown]
