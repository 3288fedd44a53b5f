"""The credentials of a slice, from the vault: which it sees, whose sessions they open, and which cannot be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, Side
from endpoints.gridftp.login import ANONYMOUS, GsiLogin
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.sharing import access
from identity.clock import moment
from identity.models import Credential, User
from identity.vault import store as vault
from identity.vault.keys import new_key, parse_keys
from tests.integration.activated import proxy_of
from tests.integration.cast import take
from tests.integration.shared import give as share_with
from tests.integration.shared import make_share
from tests.integration.tasks.test_renewal import unchecked
from tests.store_connections import close_connections
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import Forecast, ForecastWork
from transferapi.tasks.models import Event
from transferapi.tasks.worker import renewal, slice_end
from workers import credentials
from workers.credentials import VaultCredentials
from workers.sessions.pool import Address, SessionKey
from workers.sessions.server_addresses import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("trusting")]

T = TypeVar("T")
ADDRESS = Address("192.0.2.1", 2811)
PLACE = Place("gsi.example.org", 2811)
VERBS = {Side.SOURCE: Permission.TRANSFER_FROM, Side.DESTINATION: Permission.TRANSFER_TO}
ENDS = tuple(VERBS)


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    """Close the connections of the store's threads before and after the test, whose database is dropped."""
    close_connections()
    yield
    close_connections()


class Slice:
    """A credential provider for a task of this user, and the beginnings of keys that it said are over."""

    def __init__(self, user: User, *endpoints: Endpoint) -> None:
        self.forgotten: list[str] = []
        self.task = unchecked(user, *endpoints)
        self.grant = take(self.task)
        ends = {side: access.of(user, end, verb) for (side, verb), end in zip(VERBS.items(), endpoints, strict=False)}
        self.wallet = VaultCredentials(self.grant, ends, self.forgotten.append)

    def door(self, side: Side = Side.SOURCE, place: Place = PLACE) -> SessionKey:
        return self.wallet.session_key(side, ADDRESS, place)


def run(main: Awaitable[T]) -> T:
    async def wait() -> T:
        return await main

    return asyncio.run(wait())


def give(user: User, endpoint: Endpoint, identity: CertificateFiles, *, hours: float = 1.0) -> vault.CredentialInfo:
    proxy = proxy_of(identity, hours=hours)
    return vault.store(
        user,
        vault.endpoint_binding(endpoint.pk),
        vault.CredentialKind.X509,
        proxy.to_pem(),
        subject=proxy.identity,
        expires_at=proxy.expires_at,
    )


def test_it_sees_what_is_there_what_is_new_and_what_is_gone(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles
) -> None:
    slice_ = Slice(alice, gsi1, gsi2)
    seen = run(slice_.wallet.statuses())
    assert [seen[side].missing for side in ENDS] == [renewal.NONE_VALID] * 2
    first = give(alice, gsi1, alices)
    seen = run(slice_.wallet.statuses())
    assert (seen[Side.SOURCE].stored_at, seen[Side.SOURCE].expires_at) == (first.stored_at, first.expires_at)
    assert seen[Side.DESTINATION].missing
    second = give(alice, gsi1, alices)
    assert run(slice_.wallet.statuses())[Side.SOURCE].stored_at == second.stored_at
    assert slice_.forgotten == []
    vault.forget(alice, second.bound_to)
    assert run(slice_.wallet.statuses())[Side.SOURCE].missing
    assert slice_.forgotten == [f"{alice.pk} {second.id} "]
    slice_.wallet.clear()
    assert len(slice_.forgotten) == 2, "again when the slice has given its sessions back"


def test_endpoints_without_security_are_none_of_its_business(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    slice_ = Slice(alice, ep1, ep2)
    assert run(slice_.wallet.statuses()) == {}
    door = slice_.door()
    assert door == SessionKey(ADDRESS)
    assert door.key == ANONYMOUS.key
    assert run(door.login()) is ANONYMOUS


def test_keys_distinguish_users_credentials_versions_and_names(
    alice: User, bob: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles
) -> None:
    keys = []
    mine, his = Slice(alice, gsi1, gsi2), Slice(bob, gsi1, gsi2)
    for user, slice_ in ((alice, mine), (bob, his), (alice, mine)):
        give(user, gsi1, alices)
        give(user, gsi2, alices)
        run(slice_.wallet.statuses())
        places = [PLACE, Place("gsi.example.org", 2811, "/CN=other"), Place("alias.example.org", 2811)]
        keys += [slice_.door(side, place).key for side in ENDS for place in places]
    assert len(set(keys)) == len(keys) == 18
    again = Slice(alice, gsi1, gsi2)
    run(again.wallet.statuses())
    assert again.door().key == keys[12], "another task of the same user comes by the same door"
    assert not any("PRIVATE" in key or "BEGIN" in key for key in keys)


def test_a_door_opens_with_the_users_own_credential_and_the_registered_name(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles
) -> None:
    give(alice, gsi1, alices)
    slice_ = Slice(alice, gsi1, gsi2)
    run(slice_.wallet.statuses())
    login = run(slice_.door().login())
    assert isinstance(login, GsiLogin)
    assert login.credential.identity == alices.subject
    assert login.host_name == "gsi.example.org"


def test_a_shared_endpoint_opens_with_the_credential_of_its_owner_and_no_other(
    alice: User, bob: User, gsi1: Endpoint, gsi2: Endpoint, identity_of: Callable[..., CertificateFiles]
) -> None:
    share = make_share(gsi1, "share")
    share_with(share, bob)
    slice_ = Slice(bob, share, gsi1)
    his = give(bob, gsi1, identity_of("bob"))
    seen = run(slice_.wallet.statuses())
    assert (seen[Side.SOURCE].missing, seen[Side.DESTINATION].stored_at) == (renewal.NONE_VALID, his.stored_at)
    hers = give(alice, gsi1, identity_of("alice"))
    assert run(slice_.wallet.statuses())[Side.SOURCE].stored_at == hers.stored_at
    logins = [run(slice_.door(side).login()) for side in ENDS]
    subjects = [login.credential.identity for login in logins if isinstance(login, GsiLogin)]
    assert subjects == [identity_of(name).subject for name in ("alice", "bob")]
    assert slice_.door(Side.SOURCE).key != slice_.door(Side.DESTINATION).key
    own = Slice(alice, gsi1, gsi2)
    run(own.wallet.statuses())
    assert own.door().key == slice_.door().key, "what keeps it in its folder is the guard's to add"
    vault.forget(alice, hers.bound_to)
    run(slice_.wallet.statuses())
    assert slice_.forgotten == [f"{alice.pk} {hers.id} "]


def fault_of(door: SessionKey) -> Any:
    with pytest.raises(FaultError) as failed:
        run(door.login())
    return failed.value.fault


def test_what_was_taken_away_a_moment_ago_opens_nothing(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles
) -> None:
    held = give(alice, gsi1, alices)
    slice_ = Slice(alice, gsi1, gsi2)
    assert fault_of(slice_.door()).kind is Kind.NO_CREDENTIALS, "before the first look"
    run(slice_.wallet.statuses())
    vault.forget(alice, held.bound_to)
    fault = fault_of(slice_.door())
    assert (fault.kind, fault.side) == (Kind.NO_CREDENTIALS, Side.SOURCE)


def test_a_vault_that_cannot_open_it_says_so_and_nothing_more(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles, settings: Any
) -> None:
    give(alice, gsi1, alices)
    slice_ = Slice(alice, gsi1, gsi2)
    run(slice_.wallet.statuses())
    for keys in (parse_keys(new_key()), ()):
        settings.VAULT_KEYS = keys
        fault = fault_of(slice_.door())
        assert (fault.kind, fault.side, fault.scope) == (Kind.INTERNAL_ERROR, Side.SOURCE, FaultScope.ENDPOINT)
        assert "operator" in fault.advice
        assert fault.retryable, "the task goes on by itself when the key is there again"


def test_a_credential_that_was_changed_where_it_is_kept_is_asked_for_anew(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles
) -> None:
    give(alice, gsi1, alices)
    sealed = bytes(Credential.objects.get().sealed)
    Credential.objects.update(sealed=sealed[:-1] + bytes([sealed[-1] ^ 1]))
    slice_ = Slice(alice, gsi1, gsi2)
    run(slice_.wallet.statuses())
    fault = fault_of(slice_.door())
    assert (fault.kind, fault.side) == (Kind.NO_CREDENTIALS, Side.SOURCE)
    assert "activate the endpoint again" in fault.advice


def test_it_looks_ahead_now_and_then(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, alices: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "during", lambda *_: Forecast(ForecastWork(1, 1), 1e5, 1e5, 1e5, "a test", 0))
    monkeypatch.setattr(credentials, "FORESEE", 0.0)
    give(alice, gsi1, alices)
    give(alice, gsi2, alices, hours=100)
    slice_ = Slice(alice, gsi1, gsi2)
    for _ in range(3):
        run(slice_.wallet.statuses())
    told = Event.objects.filter(task=slice_.task, code="CREDENTIAL_EXPIRES_SOON")
    assert [event.description.split(" ")[3] for event in told] == ["alice#gsi1"]
    slice_end.release(slice_.task.pk, slice_.grant.epoch, moment())
    give(alice, gsi1, alices, hours=2)
    with pytest.raises(LeaseLostError):
        run(slice_.wallet.statuses())
