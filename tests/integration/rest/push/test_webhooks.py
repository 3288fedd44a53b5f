"""Webhooks: every change of state is delivered at least once, signed; a receiver that does not answer costs little."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from deploy.endpoint.authority import CertificateFiles
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint
from identity.clock import moment
from identity.models import User
from identity.vault import rotation
from identity.vault import store as vault
from identity.vault.keys import new_key, parse_keys
from tests.gridftp.authority import Authority
from tests.integration.cast import all_at_once, make_user, submit, submit_delete, take
from tests.integration.rest import Api, assert_error
from tests.integration.tasks.test_mails import fail, succeed
from tests.integration.tasks.test_renewal import ENDED, unchecked
from tests.secrets_search import search
from tests.servers.lying_https import LyingServer, Script, answer, drip
from tests.servers.rebinding_names import RebindingNames
from tests.waiting import eventually
from transferapi.tasks import moves
from transferapi.tasks.models import Delivery, Mail, Task, Webhook
from transferapi.tasks.notify import deliveries, webhooks
from transferapi.tasks.notify.deliveries import DeliveryJob, DeliveryResult
from transferapi.tasks.worker import slice_end
from workers import webhook_sender

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TAKEN, FAILS = DeliveryResult(204), DeliveryResult(500, "It answered with status 500.")


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings: Any) -> None:
    settings.ALLOW_WEBHOOKS = parse_openings("127.0.0.1/32")


@pytest.fixture
def receiver() -> Iterator[Callable[..., LyingServer]]:
    """`receiver(b"HTTP/1.1 ...")` or `receiver(script)`: a server that says that."""
    running: list[LyingServer] = []

    def start(said: bytes | Script, identity: CertificateFiles | None = None) -> LyingServer:
        script = said if callable(said) else lambda _: iter([said])
        running.append(LyingServer(script, identity).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads of a worker, for this test only; their database connections end with them."""
    with ThreadPoolExecutor(webhook_sender.PARALLEL) as pool, ThreadPoolExecutor(1) as rounds:
        monkeypatch.setattr(webhook_sender, "_pool", pool)
        monkeypatch.setattr(webhook_sender, "_rounds", rounds)
        yield
        Webhook.objects.all().delete()
        eventually(lambda: not webhook_sender._under_way)
        rounds.submit(lambda: connection.close()).result(60)


def hook(user: User, url: str = "https://1.1.1.1/", *statuses: str) -> Webhook:
    return webhooks.create(user, url, statuses)[0]


def send_due(now: datetime | None = None) -> list[DeliveryResult]:
    """Send the due deliveries as a worker does, but one after the other."""
    outcomes = []
    for job in deliveries.claim(100, now=now):
        outcomes.append(deliveries.attempt(job, now or datetime.now(UTC)))
        deliveries.settle(job, outcomes[-1], now)
    return outcomes


def claimed(now: datetime) -> DeliveryJob:
    [job] = deliveries.claim(100, now=now)
    return job


def told(user: User) -> list[str]:
    rows = Delivery.objects.filter(webhook__owner=user).order_by("made_at", "pk")
    return [row.body["type"] for row in rows]


def parse(request: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body


# ---- events that are delivered


def test_every_change_of_state_is_reported_and_nothing_else(
    alice: User, ep1: Endpoint, ep2: Endpoint, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    hook(alice)
    succeed(submit(alice, ep1, ep2))
    fail(submit(alice, ep1, ep2))
    moves.cancel(alice, submit_delete(alice, ep1).pk)
    sleeping = unchecked(alice, gsi1, gsi2)
    slice_end.suspend(sleeping.pk, take(sleeping).epoch, ENDED)
    moves.resume(alice, sleeping.pk)
    assert told(alice) == ["task.succeeded", "task.failed", "task.failed", "task.inactive", "task.active"]


def test_a_webhook_hears_of_the_statuses_that_it_asked_for(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice, "https://1.1.1.1/", "FAILED")
    succeed(submit(alice, ep1, ep2))
    fail(submit(alice, ep1, ep2))
    assert told(alice) == ["task.failed"]


def test_a_pause_and_its_end_are_reported(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice, "https://1.1.1.1/", "ACTIVE")
    task = submit(alice, ep1, ep2)
    moves.pause(task.pk, moves.QUEUED, moves.PauseReason("PAUSED", "Wait."), T0)
    moves.unpause(task.pk, T0 + timedelta(seconds=1))
    succeed(task)
    assert told(alice) == ["task.paused", "task.unpaused"]


def test_a_webhook_reports_no_tasks_of_others(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(bob)
    succeed(submit(alice, ep1, ep2))
    assert not Delivery.objects.exists()


def test_what_is_rolled_back_is_not_reported(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice)
    task = submit(alice, ep1, ep2)

    def fail_then_break() -> None:
        with transaction.atomic():
            moves.fail(task.pk, moves.QUEUED, "X", "x", moment())
            assert told(alice) == ["task.failed"]
            raise IntegrityError

    with pytest.raises(IntegrityError):
        fail_then_break()
    assert told(alice) == []


def test_what_is_reported_names_the_task_and_no_path(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice)
    task = submit(alice, ep1, ep2, ("/secret-plans/a", "/secret-plans/b"), label="nightly run")
    fail(task, why="Nothing at /secret-plans/a.")
    delivery = Delivery.objects.get()
    facts = delivery.body["task"]
    assert "secret-plans" not in json.dumps(delivery.body)
    assert delivery.body["id"] == str(delivery.pk)
    assert (facts["task_id"], facts["status"], facts["label"]) == (str(task.pk), "FAILED", "nightly run")
    assert (facts["source_endpoint"], facts["destination_endpoint"]) == ("alice#ep1", "alice#ep2")
    assert facts["fatal_error_code"] == "QUOTA_EXCEEDED"
    document = Api(alice).get(f"/task/{task.pk}").body
    same = set(facts) & set(document)
    assert len(same) > 15
    assert {name: facts[name] for name in same} == {name: document[name] for name in same}, "as in the task's document"


# ---- how it is sent


def test_it_is_sent_with_a_signature_that_anybody_can_check(
    alice: User, ep1: Endpoint, ep2: Endpoint, receiver: Callable[..., LyingServer]
) -> None:
    server = receiver(answer("204 No Content"))
    _, secret = webhooks.create(alice, f"{server.url}/in%20here?for=alice")
    succeed(submit(alice, ep1, ep2))
    assert send_due() == [TAKEN]
    [request] = server.heard
    first, headers, body = parse(request)
    assert first == "POST /in%20here?for=alice HTTP/1.1"
    assert headers["content-type"] == "application/json"
    # The check of the signature as docs/push.md describes it to receivers.
    key = base64.b64decode(secret.value.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    assert json.loads(body)["id"] == headers["webhook-id"]
    row = Delivery.objects.get()
    assert (row.delivered_at is not None, row.next_try_at, row.last_status, row.attempts) == (True, None, 204, 1)


def test_each_try_has_the_same_id_and_the_same_body(
    alice: User, ep1: Endpoint, ep2: Endpoint, receiver: Callable[..., LyingServer]
) -> None:
    server = receiver(answer("500 Oops"))
    hook(alice, server.url)
    succeed(submit(alice, ep1, ep2))
    for hours in (0, 1, 2):
        assert send_due(datetime.now(UTC) + timedelta(hours=hours)) == [FAILS]
    tries = [parse(request) for request in server.heard]
    assert len({headers["webhook-id"] for _, headers, _ in tries}) == 1
    assert len({body for _, _, body in tries}) == 1
    assert len({headers["webhook-signature"] for _, headers, _ in tries}) == 3, "each is signed for its own time"


LIES: dict[str, tuple[bytes | Script, str]] = {
    "redirects": (answer("302 Found", Location="http://127.0.0.1:1/"), "redirect (302)"),
    "refuses": (answer("403 Forbidden", b"no"), "status 403"),
    "speaks no HTTP": (b"220 welcome\r\n\r\n", "not HTTP"),
    "never ends": (lambda _: iter([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 65536] * 8]), "far too long"),
    "hangs up": (b"", "not HTTP"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_receiver_that_lies_is_tried_again(
    alice: User, ep1: Endpoint, ep2: Endpoint, receiver: Callable[..., LyingServer], lie: str
) -> None:
    said, why = LIES[lie]
    row = hook(alice, receiver(said).url)
    succeed(submit(alice, ep1, ep2))
    [outcome] = send_due()
    assert why in outcome.error
    waiting = Delivery.objects.get()
    assert (waiting.delivered_at, waiting.next_try_at is not None, waiting.last_error) == (None, True, outcome.error)
    row.refresh_from_db()
    assert (row.failures, row.last_error, row.disabled_at) == (1, outcome.error, None)


@pytest.mark.parametrize(
    "script", [lambda _: drip(b"HTTP/1.1 200 OK\r\n" * 100, seconds=0.1), lambda _: iter(_pauses())]
)
def test_a_receiver_that_hangs_is_left(
    alice: User,
    ep1: Endpoint,
    ep2: Endpoint,
    receiver: Callable[..., LyingServer],
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "REQUEST_SECONDS", 0.5)
    hook(alice, receiver(script).url)
    succeed(submit(alice, ep1, ep2))
    [outcome] = send_due()
    assert "did not answer within" in outcome.error


def _pauses() -> Iterator[bytes]:
    for _ in range(20):
        time.sleep(0.1)
        yield b""


def test_a_receiver_that_is_not_there_is_tried_again(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice, "http://127.0.0.1:1/")
    succeed(submit(alice, ep1, ep2))
    [outcome] = send_due()
    assert "cannot be reached" in outcome.error


def test_the_certificate_of_a_receiver_must_be_of_an_authority_of_the_system(
    alice: User,
    ep1: Endpoint,
    ep2: Endpoint,
    receiver: Callable[..., LyingServer],
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = receiver(answer("200 OK"), host_of(authority))
    hook(alice, server.url)
    succeed(submit(alice, ep1, ep2))
    [outcome] = send_due()
    assert "certificate is not accepted" in outcome.error
    assert server.heard == []
    monkeypatch.setenv("SSL_CERT_DIR", str(authority.certificates))
    assert send_due(datetime.now(UTC) + timedelta(hours=1)) == [DeliveryResult(200)]


# ---- when it is sent again, and when no more


def test_the_pauses_grow_until_it_is_given_up_after_a_day(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice)
    webhooks.send_test(alice, str(Webhook.objects.get().pk), now=T0)
    now, pauses = T0, []
    while (row := Delivery.objects.get()).next_try_at:
        pauses.append((row.next_try_at - now).total_seconds())
        now = row.next_try_at
        Webhook.objects.update(not_before=None)
        deliveries.settle(claimed(now), FAILS, now)
    assert 4 <= pauses[1] <= 6
    assert all(2880 <= pause <= 4320 for pause in pauses[-3:])
    assert 22 <= (now - T0) / timedelta(hours=1) < 24
    assert Delivery.objects.get().delivered_at is None
    assert Api(alice).get(f"/webhook/{Webhook.objects.get().pk}/delivery_list").body["DATA"][0]["status"] == "GIVEN_UP"


def test_a_webhook_that_fails_makes_a_pause_and_one_that_answers_ends_it(alice: User) -> None:
    row = hook(alice)
    for _ in range(2):
        webhooks.send_test(alice, str(row.pk), now=T0)
    first, second = deliveries.claim(10, now=T0)
    deliveries.settle(first, FAILS, T0)
    webhooks.send_test(alice, str(row.pk), now=T0)
    Webhook.objects.update(not_before=T0 + timedelta(seconds=5))
    assert deliveries.claim(10, now=T0) == [], "what else there is waits too"
    deliveries.settle(second, TAKEN, T0)
    assert len(deliveries.claim(10, now=T0)) == 1
    row.refresh_from_db()
    assert (row.failures, row.failing_since, row.last_error) == (0, None, "")


def test_the_pause_of_a_webhook_has_a_bound(alice: User) -> None:
    row = hook(alice)
    Webhook.objects.update(failures=1000, failing_since=T0)
    webhooks.send_test(alice, str(row.pk), now=T0)
    deliveries.settle(claimed(T0), FAILS, T0)
    row.refresh_from_db()
    assert row.not_before == T0 + timedelta(seconds=deliveries.LONGEST_SILENCE)


def test_one_that_says_it_is_gone_gets_nothing_more(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    row = hook(alice)
    for _ in range(2):
        webhooks.send_test(alice, str(row.pk), now=T0)
    deliveries.settle(deliveries.claim(1, now=T0)[0], DeliveryResult(410, "It answered with status 410."), T0)
    row.refresh_from_db()
    assert row.disabled_at == T0
    assert not Delivery.objects.filter(next_try_at__isnull=False).exists()
    succeed(submit(alice, ep1, ep2))
    assert told(alice) == ["webhook.test"] * 2
    assert_error(Api(alice).post(f"/webhook/{row.pk}/test"), 409, "Conflict")


def test_one_that_fails_for_days_is_disabled_and_its_owner_gets_a_mail(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    row = hook(alice, "https://1.1.1.1/hook?token=secret")
    for days in (0, 2.9, 3):
        assert not Mail.objects.exists()
        now = T0 + timedelta(days=days)
        Delivery.objects.all().delete()
        webhooks.send_test(alice, str(row.pk), now=now)
        deliveries.settle(claimed(now), FAILS, now)
    row.refresh_from_db()
    assert row.disabled_at == T0 + timedelta(days=3)
    mail = Mail.objects.get()
    assert mail.subject == "Waybill: a webhook of yours was disabled"
    assert "https://1.1.1.1/hook has failed" in mail.body
    assert "status 500" in mail.body
    assert "token" not in mail.body


def test_one_that_is_enabled_again_begins_anew(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    row = hook(alice)
    webhooks.update(alice, str(row.pk), enabled=False)
    Webhook.objects.update(failures=9, failing_since=T0, not_before=T0, last_error="x")
    succeed(submit(alice, ep1, ep2))
    assert told(alice) == []
    document = Api(alice).put(f"/webhook/{row.pk}", {"enabled": True}).body
    assert (document["enabled"], document["failing_since"], document["last_error"]) == (True, None, None)
    succeed(submit(alice, ep1, ep2))
    assert told(alice) == ["task.succeeded"]
    assert len(deliveries.claim(1)) == 1


def test_a_user_who_was_shut_out_gets_no_delivery(alice: User) -> None:
    webhooks.send_test(alice, str(hook(alice).pk))
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert deliveries.claim(10) == []


def test_what_is_of_long_ago_is_forgotten_in_parts(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "FORGET_AT_ONCE", 2)
    row = hook(alice)
    for days in (0, 0, 0, 20):
        webhooks.send_test(alice, str(row.pk), now=T0 + timedelta(days=days))
    assert [webhooks.forget_old(T0 + timedelta(days=31)) for _ in range(3)] == [2, 1, 0]
    assert Delivery.objects.count() == 1


def test_a_webhook_keeps_its_newest_messages_only(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MAX_KEPT", 3)
    busy, other, of_bob = hook(alice), hook(alice, "https://1.1.1.1/", "FAILED"), hook(bob)
    for number in range(2):
        webhooks.send_test(bob, str(of_bob.pk), now=T0)
        webhooks.send_test(alice, str(other.pk), now=T0 + timedelta(days=number))
    for _ in range(3):
        succeed(submit(alice, ep1, ep2))
    assert Delivery.objects.filter(webhook=busy).count() == 3
    oldest = Delivery.objects.filter(webhook=busy).earliest("made_at")
    fail(submit(alice, ep1, ep2))
    assert not Delivery.objects.filter(pk=oldest.pk).exists()
    webhooks.send_test(alice, str(busy.pk))
    counted = [Delivery.objects.filter(webhook=row).count() for row in (busy, other, of_bob)]
    assert counted == [3, 3, 2]
    # A message that is deleted while it is sent is settled without an error.
    job = deliveries.claim(1)[0]
    Delivery.objects.all().delete()
    deliveries.settle(job, DeliveryResult(200))


# ---- many at a time


def test_what_one_worker_has_claimed_no_other_one_takes(alice: User) -> None:
    row = hook(alice)
    webhooks.send_test(alice, str(row.pk), now=T0)
    assert len(deliveries.claim(10, now=T0)) == 1
    assert deliveries.claim(10, now=T0 + timedelta(seconds=deliveries.CLAIM_SECONDS - 1)) == []
    assert len(deliveries.claim(10, now=T0 + timedelta(seconds=deliveries.CLAIM_SECONDS))) == 1


@pytest.mark.django_db(transaction=True)
def test_of_workers_that_claim_at_once_each_gets_something_else(alice: User, bob: User) -> None:
    for user in (alice, bob):
        row = hook(user)
        for _ in range(2):
            webhooks.send_test(user, str(row.pk), now=T0)
    jobs = [job.id for got in all_at_once([lambda: deliveries.claim(4, now=T0)] * 4) for job in got]
    assert len(jobs) == len(set(jobs))
    assert set(Delivery.objects.filter(next_try_at__gt=T0).values_list("pk", flat=True)) == set(jobs)


def test_one_user_takes_no_more_than_a_fair_share(alice: User, bob: User) -> None:
    ours, theirs = hook(alice), hook(bob)
    for second in range(5):
        webhooks.send_test(alice, str(ours.pk), now=T0 + timedelta(seconds=second))
    webhooks.send_test(bob, str(theirs.pk), now=T0 + timedelta(seconds=9))
    now = T0 + timedelta(seconds=10)
    assert [job.owner_id for job in deliveries.claim(10, now=now)] == [alice.pk] * 2 + [bob.pk]
    assert deliveries.claim(10, busy=[alice.pk], now=now) == []
    assert deliveries.claim(0, now=now) == []


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_hangs_holds_up_nobody_else(
    alice: User, bob: User, receiver: Callable[..., LyingServer], threads: None
) -> None:
    slow, quick = receiver(lambda _: iter(_pauses())), receiver(answer("200 OK"))
    for _ in range(20):
        webhooks.send_test(alice, str(hook_once(alice, slow.url).pk))
    for _ in range(5):
        webhooks.send_test(bob, str(hook_once(bob, quick.url).pk))
    webhook_sender.begin_round()
    eventually(lambda: Delivery.objects.filter(webhook__owner=bob, delivered_at__isnull=False).count() == 5)
    assert not Delivery.objects.filter(webhook__owner=alice, delivered_at__isnull=False).exists()


def hook_once(user: User, url: str) -> Webhook:
    return Webhook.objects.filter(owner=user).first() or hook(user, url)


# ---- what users do with them


@pytest.mark.parametrize(
    "url",
    [
        "ftp://1.1.1.1/",
        "https://alice:secret@1.1.1.1/",
        "https://1.1.1.1/#x",
        "https://1.1.1.1/a b",
        "https://1.1.1.1/?\r\nX: y",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/",
        "http://1.1.1.1/",
        "https://1.1.1.1/" + "x" * 2048,
        "",
    ],
)
def test_an_address_that_is_none_or_that_nobody_may_be_sent_to_is_refused(alice: User, url: str) -> None:
    answer = Api(alice).post("/webhook", {"url": url})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("url: ")


def test_a_name_that_gets_a_private_address_after_its_check_leads_nowhere_else(
    alice: User, receiver: Callable[..., LyingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each attempt one answer counts: the one that passed the gate is connected to."""
    server = receiver(answer("204 No Content"))
    port = server.port
    with socket.create_server(("127.0.0.2", port)) as inside:
        inside.settimeout(0.2)
        names = RebindingNames(monkeypatch, "127.0.0.1", "127.0.0.1", "127.0.0.2")
        webhooks.send_test(alice, str(hook(alice, f"http://rebind.example.org:{port}/").pk))
        assert send_due() == [TAKEN]
        assert (names.asked, len(server.heard)) == (2, 1)
        with pytest.raises(TimeoutError):
            inside.accept()


@pytest.mark.parametrize("later", ["127.0.0.2", "10.0.0.1", "169.254.169.254"])
def test_a_name_that_gets_a_private_address_after_its_registration_is_refused_at_each_attempt(
    alice: User, receiver: Callable[..., LyingServer], monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    port = receiver(answer("204 No Content")).port
    with socket.create_server(("127.0.0.2", port)) as inside:
        inside.settimeout(0.2)
        RebindingNames(monkeypatch, "127.0.0.1", later)
        webhooks.send_test(alice, str(hook(alice, f"http://rebind.example.org:{port}/").pk))
        for hours in range(3):
            [outcome] = send_due(datetime.now(UTC) + timedelta(hours=hours))
            assert "address; the operator of this service has not allowed" in outcome.error
        with pytest.raises(TimeoutError):
            inside.accept()


def test_http_is_for_networks_that_the_operator_has_allowed(alice: User, settings: Any) -> None:
    row = hook(alice, "http://127.0.0.1:8080/")
    webhooks.send_test(alice, str(row.pk))
    settings.ALLOW_WEBHOOKS = parse_openings("127.0.0.1:8443")
    # ALLOW_TARGETS does not apply to webhooks: a GridFTP server may read a POST as commands.
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1")
    [outcome] = send_due()
    assert "has not allowed port 8080" in outcome.error


def test_a_name_that_has_no_address_yet_is_looked_up_when_something_is_sent(alice: User) -> None:
    webhooks.send_test(alice, str(hook(alice, "https://no-such-host.invalid/").pk))
    [outcome] = send_due()
    assert outcome == DeliveryResult(None, "This name has no address.")


def test_a_user_has_so_many_and_no_more(alice: User) -> None:
    for number in range(webhooks.MAX_WEBHOOKS):
        hook(alice, f"https://1.1.1.1/{number}")
    assert_error(Api(alice).post("/webhook", {"url": "https://1.1.1.1/"}), 409, "ClientError.LimitExceeded")
    assert len(Api(alice).get("/webhook_list").body["DATA"]) == webhooks.MAX_WEBHOOKS


def test_the_secret_is_shown_once(alice: User) -> None:
    api = Api(alice)
    made = api.post("/webhook", {"url": "https://1.1.1.1/", "statuses": ["FAILED", "SUCCEEDED", "FAILED"]})
    assert made.status == 201
    assert made.body["secret"].startswith("whsec_")
    shown = api.get(f"/webhook/{made.body['id']}").body
    assert (shown["url"], shown["statuses"]) == ("https://1.1.1.1/", ["SUCCEEDED", "FAILED"])
    assert made.body["secret"] not in json.dumps([shown, api.get("/webhook_list").body])


def test_unknown_statuses_are_refused_by_name(alice: User) -> None:
    answer = Api(alice).post("/webhook", {"url": "https://1.1.1.1/", "statuses": ["FAILED", "BORED"]})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("statuses[1]: ")
    assert_error(Api(alice).post("/webhook", {"url": "https://1.1.1.1/", "statuses": "FAILED"}), 400)


def test_a_webhook_is_changed_and_deleted(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    api, row = Api(alice), hook(alice)
    succeed(submit(alice, ep1, ep2))
    changed = api.put(f"/webhook/{row.pk}", {"url": "https://1.0.0.1/x", "statuses": ["FAILED"]}).body
    assert (changed["url"], changed["statuses"]) == ("https://1.0.0.1/x", ["FAILED"])
    assert_error(api.put(f"/webhook/{row.pk}", {"url": "https://10.0.0.1/"}), 400)
    [listed] = api.get(f"/webhook/{row.pk}/delivery_list").body["DATA"]
    assert (listed["type"], listed["status"], listed["attempts"]) == ("task.succeeded", "WAITING", 0)
    assert api.delete(f"/webhook/{row.pk}").status == 200
    assert not Delivery.objects.exists()
    for path in (f"/webhook/{row.pk}", "/webhook/none", f"/webhook/{row.pk}/delivery_list"):
        assert_error(api.get(path), 404, "ClientError.NotFound")


def test_nobody_fills_the_queue_by_trying(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_WAITING", 2)
    row = hook(alice)
    assert [Api(alice).post(f"/webhook/{row.pk}/test").status for _ in range(3)] == [202, 202, 400]


# ---- the secret


def test_a_new_key_of_the_vault_seals_the_secrets_anew(alice: User, settings: Any) -> None:
    old = parse_keys(new_key())
    settings.VAULT_KEYS = old
    row = hook(alice)
    before = webhooks.signing_key(row).value
    settings.VAULT_KEYS = (*parse_keys(new_key()), *old)
    assert rotation.rotate().resealed == 1
    settings.VAULT_KEYS = settings.VAULT_KEYS[:1]
    row.refresh_from_db()
    assert webhooks.signing_key(row).value == before
    assert vault.status().rows == {settings.VAULT_KEYS[0].name: 1}


def test_a_secret_opens_in_its_own_row_only(alice: User, bob: User) -> None:
    one, other = hook(alice), hook(bob)
    Webhook.objects.filter(pk=other.pk).update(sealed_secret=bytes(one.sealed_secret))
    webhooks.send_test(bob, str(other.pk))
    [outcome] = send_due()
    assert "was changed, and cannot be decrypted" in outcome.error
    assert vault.status().broken == 1


@pytest.mark.django_db(transaction=True)
def test_the_secret_is_nowhere_to_be_found(
    alice: User, receiver: Callable[..., LyingServer], database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for said in (answer("204 No Content"), answer("500 Oops"), b"nonsense"):
        row, secret = webhooks.create(alice, receiver(said).url)
        webhooks.send_test(alice, str(row.pk))
        send_due()
        key = webhooks.signing_key(row).value
        kept: dict[str, bytes | str] = {"the secret": secret.value, "the key": key}
        shown = {"the log": caplog.text, "what it shows of itself": repr([row, secret, vars(row)])}
        assert search(kept, database=database_url, texts=shown) == []


def test_without_a_key_of_the_vault_there_are_no_webhooks(alice: User, settings: Any) -> None:
    settings.VAULT_KEYS = ()
    answer = Api(alice).post("/webhook", {"url": "https://1.1.1.1/"})
    assert_error(answer, 501, "ServiceError.VaultKeyNotConfigured")


def test_a_task_that_is_deleted_takes_its_deliveries_along(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    hook(alice)
    task = submit(alice, ep1, ep2)
    succeed(task)
    Task.objects.filter(pk=task.pk).delete()
    assert not Delivery.objects.exists()


def test_a_webhook_that_is_deleted_while_it_is_reported_is_no_error() -> None:
    user = make_user("dora")
    row = hook(user)
    webhooks.send_test(user, str(row.pk), now=T0)
    job = claimed(T0)
    webhooks.delete(user, str(row.pk))
    deliveries.settle(job, FAILS, T0)
