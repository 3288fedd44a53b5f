"""Agents are set up with a one-time key, get certificates from the service's own authority, and are revoked."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from endpoints import registry
from endpoints.connect import authority, certificates, setup, setup_keys
from endpoints.connect.errors import (
    CERTIFICATE_REQUEST,
    NO_AGENT,
    SETUP_KEY_EXPIRED,
    SETUP_KEY_UNKNOWN,
    SETUP_KEY_USED,
    AgentRefusedError,
)
from endpoints.connect.setup import RENEWAL, AgentVersion, Issued
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.errors import EndpointNotFoundError, NotPermittedError
from endpoints.gridftp.agent.keys import AgentKey
from endpoints.models import Agent, AgentAuthority
from endpoints.permissions import Permission, may
from identity.clock import moment
from identity.hidden import Secret
from identity.models import User
from identity.vault import rotation
from identity.vault.keys import new_key, parse_keys
from tests.integration.cast import make_endpoint
from tests.refusals import raises_refusal

PROGRAM = AgentVersion("1.0", "Linux")


@pytest.fixture
def key(alice: User) -> IssuedSetupKey:
    _, key = setup_keys.create_endpoint(alice, {"name": "laptop", "is_globus_connect": True})
    assert key is not None
    return key


def held(key: IssuedSetupKey) -> dict[str, str]:
    text = key.text.value.removeprefix("wb1.")
    found: dict[str, str] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return found


def secret(key: IssuedSetupKey) -> Secret:
    return Secret(held(key)["s"])


def set_up(key: IssuedSetupKey, pair: AgentKey, now: datetime | None = None) -> Issued:
    return setup.set_up(secret(key), pair.request("agent"), PROGRAM, now)


def renew(pair: AgentKey, chain: str, now: datetime | None = None) -> Issued:
    signature = base64.b64encode(pair.sign(RENEWAL + chain.encode())).decode()
    return setup.renew(chain, signature, PROGRAM, now)


def refusal(chain: str, now: datetime | None = None) -> str:
    with pytest.raises(AgentRefusedError) as refused:
        certificates.agent_of(chain, now)
    return refused.value.flaw


def test_a_setup_key_and_a_request_become_a_certificate(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    issued = set_up(key, pair)
    assert certificates.agent_of(issued.chain) == issued.agent
    leaf, issuer = x509.load_pem_x509_certificates(issued.chain.encode())
    leaf.verify_directly_issued_by(issuer)
    assert leaf.public_key() == certificates.public_key(issued.agent)
    agent = Agent.objects.get()
    assert (agent.version, agent.platform, agent.certificate_serial) == ("1.0", "Linux", f"{leaf.serial_number:x}")


def test_only_digests_of_the_secrets_are_stored(key: IssuedSetupKey) -> None:
    agent = Agent.objects.get()
    assert held(key)["s"].encode() not in bytes(agent.setup_key_hash or b"")
    set_up(key, AgentKey.new())
    row = AgentAuthority.objects.get()
    assert b"PRIVATE" not in bytes(row.sealed)
    assert "PRIVATE" not in row.certificate
    assert held(key)["s"] not in repr(key)


def test_the_same_machine_may_ask_again_after_a_lost_answer(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    first = set_up(key, pair)
    again = set_up(key, pair)
    assert first.chain != again.chain
    assert certificates.agent_of(first.chain) == certificates.agent_of(again.chain)


def test_another_machine_cannot_use_the_key_again(key: IssuedSetupKey) -> None:
    issued = set_up(key, AgentKey.new())
    with raises_refusal(SETUP_KEY_USED):
        set_up(key, AgentKey.new())
    certificates.agent_of(issued.chain)


def test_a_wrong_secret_and_one_of_another_service_are_unknown(key: IssuedSetupKey) -> None:
    for wrong in ("", "x" * 43, "\ud800", held(key)["s"].lower()):
        with raises_refusal(SETUP_KEY_UNKNOWN):
            setup.set_up(Secret(wrong), AgentKey.new().request("agent"), PROGRAM)


def test_a_setup_key_expires(key: IssuedSetupKey) -> None:
    with raises_refusal(SETUP_KEY_EXPIRED):
        set_up(key, AgentKey.new(), key.expires_at)
    set_up(key, AgentKey.new(), key.expires_at - timedelta(seconds=1))


def test_a_new_key_replaces_the_old_one_and_the_agent_goes_on_until_it_is_used(
    key: IssuedSetupKey, alice: User
) -> None:
    old = set_up(key, AgentKey.new())
    first, second = (setup_keys.new_key(alice, "laptop") for _ in range(2))
    with raises_refusal(SETUP_KEY_UNKNOWN):
        set_up(first, AgentKey.new())
    certificates.agent_of(old.chain)
    new = set_up(second, AgentKey.new())
    assert refusal(old.chain) == "unknown"
    certificates.agent_of(new.chain)


def test_revoking_refuses_the_agent_and_its_unused_keys_at_once(key: IssuedSetupKey, alice: User) -> None:
    pair = AgentKey.new()
    issued = set_up(key, pair)
    unused = setup_keys.new_key(alice, "laptop")
    setup.revoke(alice, "laptop")
    assert refusal(issued.chain) == "revoked"
    with pytest.raises(AgentRefusedError):
        renew(pair, issued.chain)
    for dead in (key, unused):
        with raises_refusal(SETUP_KEY_UNKNOWN):
            set_up(dead, pair)
    set_up(setup_keys.new_key(alice, "laptop"), pair)
    certificates.agent_of(issued.chain)  # the same key pair, set up again


def test_a_deleted_endpoint_has_no_agent(key: IssuedSetupKey, alice: User) -> None:
    issued = set_up(key, AgentKey.new())
    registry.delete(alice, "laptop")
    assert refusal(issued.chain) == "revoked"
    with raises_refusal(SETUP_KEY_UNKNOWN):
        set_up(key, AgentKey.new())


def test_the_agent_of_a_locked_user_is_refused(key: IssuedSetupKey, alice: User) -> None:
    issued = set_up(key, AgentKey.new())
    alice.is_active = False
    alice.save()
    assert refusal(issued.chain) == "revoked"


def test_a_certificate_is_renewed_by_a_signature_of_its_key(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    first = set_up(key, pair)
    later = moment() + timedelta(days=200)
    second = renew(pair, first.chain, later)
    much_later = later + timedelta(days=300)
    assert refusal(first.chain, much_later) == "expired"
    certificates.agent_of(second.chain, much_later)


def test_nobody_else_renews_it(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    chain = set_up(key, pair).chain
    for wrong in ("", "!", base64.b64encode(pair.sign(chain.encode())).decode()):
        with pytest.raises(AgentRefusedError):
            setup.renew(chain, wrong, PROGRAM)
    with pytest.raises(AgentRefusedError):
        renew(AgentKey.new(), chain)


def test_an_expired_certificate_is_not_renewed(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    issued = set_up(key, pair)
    with pytest.raises(AgentRefusedError) as refused:
        renew(pair, issued.chain, moment() + certificates.LIFETIME + timedelta(hours=1))
    assert refused.value.flaw == "expired"


def test_a_certificate_of_an_authority_that_is_not_ours_is_foreign(key: IssuedSetupKey) -> None:
    issued = set_up(key, AgentKey.new())
    authority.retire(authority.rotate().pk)
    assert refusal(issued.chain) == "foreign"
    for garbage in ("", "x" * 100_000, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\udcff"):
        assert refusal(garbage) == "foreign"


def test_after_a_rotation_old_certificates_hold_and_new_ones_come_from_the_new_authority(key: IssuedSetupKey) -> None:
    pair = AgentKey.new()
    old = set_up(key, pair)
    row = authority.rotate()
    certificates.agent_of(old.chain)
    assert renew(pair, old.chain).chain.endswith(row.certificate)


def test_the_key_of_the_authority_survives_a_new_key_of_the_vault(key: IssuedSetupKey, settings: Any) -> None:
    set_up(key, AgentKey.new())
    before = authority.newest().key.private_numbers()
    [old] = settings.VAULT_KEYS
    settings.VAULT_KEYS = [*parse_keys(new_key()), old]
    assert rotation.rotate().resealed == 1
    settings.VAULT_KEYS = settings.VAULT_KEYS[:1]
    assert authority.newest().key.private_numbers() == before


@pytest.mark.parametrize(
    "text", ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----"]
)
def test_garbage_is_no_request(key: IssuedSetupKey, text: str) -> None:
    with raises_refusal(CERTIFICATE_REQUEST):
        setup.set_up(secret(key), text, PROGRAM)
    assert Agent.objects.get().setup_used_at is None, "the key can still be used"


def test_requests_with_weak_keys_and_wrong_signatures_are_refused(key: IssuedSetupKey) -> None:
    for other in (ec.generate_private_key(ec.SECP192R1()), rsa.generate_private_key(65537, 2048)):
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(other, SHA256())
        with raises_refusal(CERTIFICATE_REQUEST, match="P-256"):
            setup.set_up(secret(key), request.public_bytes(Encoding.PEM).decode(), PROGRAM)
    mine, theirs = AgentKey.new(), AgentKey.new()
    der = x509.load_pem_x509_csr(mine.request("agent").encode()).public_bytes(Encoding.DER)
    swapped = x509.load_der_x509_csr(der.replace(mine.public_der(), theirs.public_der()))
    with raises_refusal(CERTIFICATE_REQUEST, match="signature"):
        setup.set_up(secret(key), swapped.public_bytes(Encoding.PEM).decode(), PROGRAM)


def test_two_endpoints_do_not_share_a_key_pair(key: IssuedSetupKey, alice: User) -> None:
    pair = AgentKey.new()
    set_up(key, pair)
    _, other = setup_keys.create_endpoint(alice, {"name": "second", "is_globus_connect": True})
    assert other is not None
    with raises_refusal(CERTIFICATE_REQUEST, match="Another endpoint"):
        set_up(other, pair)


def test_what_a_program_says_of_itself_is_cut(key: IssuedSetupKey) -> None:
    setup.set_up(secret(key), AgentKey.new().request("agent"), AgentVersion("1\n2" * 100, "\0" * 500))
    agent = Agent.objects.get()
    assert (len(agent.version), len(agent.platform), agent.version[:3]) == (64, 128, "1?2")


def test_only_administrators_make_keys_and_revoke(key: IssuedSetupKey, bob: User, charlie: User) -> None:
    key.endpoint.public = True
    key.endpoint.save()
    for call in (setup_keys.new_key, setup.revoke):
        with pytest.raises(NotPermittedError):
            call(bob, "alice#laptop")
    key.endpoint.public = False
    key.endpoint.save()
    with pytest.raises(EndpointNotFoundError):
        setup_keys.new_key(charlie, "alice#laptop")


def test_an_endpoint_with_servers_has_no_agent(alice: User) -> None:
    make_endpoint(alice, "dtn")
    for call in (setup_keys.new_key, setup.revoke):
        with raises_refusal(NO_AGENT):
            call(alice, "dtn")


def test_others_see_a_public_laptop_and_read_nothing_of_it(key: IssuedSetupKey, alice: User, bob: User) -> None:
    """`globus gcp create mapped` makes a public endpoint, unless --private is given."""
    endpoint = registry.update(alice, "laptop", {"public": True, "allow_guest_collections": True})
    assert {verb for verb in Permission if may(bob, verb, endpoint)} == {Permission.VIEW}
    assert all(may(alice, verb, endpoint) for verb in Permission)
