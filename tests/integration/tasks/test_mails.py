"""Mails: one for each change that its user wants to hear of, never a flood, and no mail server holds anything up."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from endpoints import registry
from endpoints.models import Endpoint
from identity import languages
from identity.clock import moment
from identity.models import User
from tests.integration.cast import all_at_once, later, make_endpoint, make_user, submit, submit_delete, take
from tests.integration.tasks.test_renewal import ENDED, give, put_to_bed, share_myproxy, unchecked
from tests.servers.mail_server import MailServer
from tests.waiting import eventually
from transferapi.config import mail as mail_settings
from transferapi.tasks import moves
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import Forecast, ForecastWork
from transferapi.tasks.models import Mail, Task
from transferapi.tasks.notify import mail_sender, mail_server, smtp
from transferapi.tasks.notify.mails import task as task_mails
from transferapi.tasks.notify.smtp import SENDING_SECONDS
from transferapi.tasks.records import FoundFile, SettledFile, Settlement
from transferapi.tasks.upkeep import figures, tallies
from transferapi.tasks.worker import renewal, scan_results, settling, slice_end
from workers.rounds import JOBS

ADDRESS = "alice@example.org"


@pytest.fixture
def alice(db: None) -> User:
    user = make_user("alice")
    user.email = ADDRESS
    user.save()
    return user


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    """A mail server that takes all, configured as an operator would."""
    server = MailServer()
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    yield server
    server.close()


def configure(settings: Any, url: str, timeout: float = 1.0) -> None:
    """Set the mail settings as WAYBILL_MAIL does, with a shorter timeout."""
    for name, value in mail_settings.parse(url).items():
        setattr(settings, name, value)
    settings.EMAIL_TIMEOUT = timeout
    settings.DEFAULT_FROM_EMAIL = "waybill@data.example.org"


def succeed(task: Task) -> None:
    """A worker moves its files, one for each item."""
    grant = take(task)
    items = scan_results.unscanned(task.pk, grant.epoch, 100)
    found = [(item, FoundFile(item.source_path, item.destination_path, 5, None)) for item in items]
    rows = scan_results.file_items_scanned(task.pk, grant.epoch, found)
    settling.write(task.pk, grant.epoch, Settlement(settled=[SettledFile(row, row.size) for row in rows]))
    slice_end.finish(task.pk, grant.epoch)


def fail(task: Task, code: str = "QUOTA_EXCEEDED", why: str = "The quota is used up.") -> None:
    grant = take(task)
    slice_end.fail(task.pk, grant.epoch, code, why)


def subjects() -> list[str]:
    return list(Mail.objects.order_by("id").values_list("subject", flat=True))


def test_a_success_is_reported_with_counts_and_where_to_look(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, ("/a", "/b"), ("/c", "/d"), label="nightly run")
    succeed(task)
    mail = Mail.objects.get()
    assert mail.subject == 'Waybill: the transfer "nightly run" succeeded'
    assert 'Your transfer from alice#ep1 to alice#ep2 ("nightly run") has succeeded.' in mail.body
    assert "files moved: 2\n" in mail.body
    assert "bytes: 10 of 10\n" in mail.body
    assert f"/v0.10/task/{task.pk}\n" in mail.body


def test_a_failure_is_reported_with_its_reason_and_what_to_do(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    fail(task)
    mail = Mail.objects.get()
    assert mail.subject == 'Waybill: the transfer "from to to" failed'
    assert "The quota is used up. (QUOTA_EXCEEDED)" in mail.body
    assert "submit the rest again" in mail.body
    assert f"/task/{task.pk}/event_list" in mail.body


def test_a_task_past_its_deadline_is_reported_whoever_ends_it(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    submit(alice, ep1, ep2, deadline=later(60))
    assert moves.expire_overdue(now=later(61)) == 1
    assert "(EXPIRED)" in Mail.objects.get().body


def test_who_cancels_a_task_knows_it(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    moves.cancel(alice, submit(alice, ep1, ep2).pk)
    running = submit(alice, ep1, ep2)
    fail(running, "CANCELED", "Canceled by the user.")
    assert subjects() == []


def test_a_deletion_is_reported_as_one(alice: User, ep1: Endpoint) -> None:
    grant = take(task := submit_delete(alice, ep1))
    slice_end.fail(task.pk, grant.epoch, "PERMISSION_DENIED", "It may not be.")
    assert subjects() == ["Waybill: Deletion of old failed"]
    assert "files deleted: 0" in Mail.objects.get().body


@pytest.mark.parametrize(
    ("option", "happen"),
    [
        ("notify_on_succeeded", succeed),
        ("notify_on_failed", fail),
        ("notify_on_inactive", lambda task: slice_end.suspend(task.pk, take(task).epoch, ENDED)),
    ],
)
def test_who_does_not_want_to_hear_of_it_does_not(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, option: str, happen: Callable[[Task], None]
) -> None:
    happen(unchecked(alice, gsi1, gsi2, options={option: False}))
    assert subjects() == []
    others = dict.fromkeys(("notify_on_succeeded", "notify_on_failed", "notify_on_inactive"), False)
    happen(unchecked(alice, gsi1, gsi2, options=others | {option: True}))
    assert len(subjects()) == 1


def test_who_has_no_address_gets_none(bob: User, alice: User) -> None:
    source, destination = (make_endpoint(bob, name) for name in ("one", "two"))
    succeed(submit(bob, source, destination))
    assert subjects() == []


def test_what_is_rolled_back_is_not_reported(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)

    def fail_then_break() -> None:
        with transaction.atomic():
            moves.fail(task.pk, moves.QUEUED, "X", "x", moment())
            assert subjects()
            raise IntegrityError

    with pytest.raises(IntegrityError):
        fail_then_break()
    assert subjects() == []


# ---- languages


@pytest.fixture
def german(alice: User) -> User:
    alice.language = "de"
    alice.save()
    return alice


def test_a_mail_is_in_the_language_of_its_reader_and_events_stay_english(
    german: User, bob: User, ep1: Endpoint, ep2: Endpoint, gsi1: Endpoint
) -> None:
    succeed(submit(german, ep1, ep2, label="nightly run"))
    fail(submit(german, ep1, ep2))
    put_to_bed(german, gsi1, ep2)
    done, failed, waits = Mail.objects.order_by("id")
    assert done.subject == 'Waybill: die Übertragung "nightly run" war erfolgreich'
    assert "übertragene Dateien: 1\n" in done.body
    assert "Der Grund: The quota is used up. (QUOTA_EXCEEDED)" in failed.body
    assert waits.subject.endswith("wartet auf Zugangsdaten für alice#gsi1")
    assert "Aktivieren Sie alice#gsi1" in waits.body
    assert "Die Zugangsdaten sind abgelaufen." in waits.body
    assert waits.task is not None
    assert str(waits.task.nice_status_details).startswith("The task waits for a credential")


def test_a_page_in_german_writes_events_and_the_mails_of_others_in_english(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    """A credential that is given on a German page moves the wait of a task to its other endpoint."""
    task = put_to_bed(alice, gsi2, gsi1)
    with languages.speaking("de"):
        assert task.waits_at is not None
        give(alice, task.waits_at)
        renewal.resume_waiting()
    task.refresh_from_db()
    assert task.phase == "suspended"
    assert str(task.nice_status_details).startswith("The task waits for a credential")
    assert all(" waits for a credential for " in subject for subject in subjects())
    assert len(subjects()) == 2


# ---- waiting for a credential


def test_a_hundred_tasks_that_wait_for_one_credential_are_one_mail(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    share_myproxy(gsi1, gsi2)
    registry.update(alice, "gsi1", {"oauth_server": "https://oauth.example.org/oauth2"})
    gsi1.refresh_from_db()
    plain = make_endpoint(alice, "plain", scheme="ftp")
    for number in range(50):
        put_to_bed(alice, gsi1 if number % 2 else gsi2, plain)
    mail = Mail.objects.get()
    assert re.fullmatch("Waybill: .* waits for a credential for alice#gsi2", mail.subject)
    assert "MyProxy server myproxy.example.org:7512" in mail.body
    assert "there is no further mail about them" in mail.body


def test_each_wave_is_reported(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    give(alice, gsi2, seconds=None)
    for wave in range(1, 4):
        held = None
        for _ in range(3):
            put_to_bed(alice, gsi1, gsi2, had=held)
        assert len(subjects()) == wave
        held = give(alice, gsi1)
        assert renewal.resume_waiting() == 3
        # A worker takes each again, and the new credential ends, too.
        for task in Task.objects.filter(phase="queued"):
            moves.cancel(alice, task.pk)


def test_each_credential_and_each_user_is_reported(alice: User, bob: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    bob.email = "bob@example.org"
    bob.save()
    plain = make_endpoint(alice, "plain", scheme="ftp", public=True)
    for user in (alice, bob):
        for endpoint in (gsi1, gsi2):
            for _ in range(2):
                put_to_bed(user, endpoint, plain)
    assert Mail.objects.filter(user=alice).count() == 2
    assert Mail.objects.filter(user=bob).count() == 2


def test_one_who_comes_to_wait_long_after_all_others_are_gone_gets_a_notice(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    moves.cancel(alice, put_to_bed(alice, gsi1, gsi2).pk)
    put_to_bed(alice, gsi1, gsi2)
    put_to_bed(alice, gsi1, gsi2)
    assert len(subjects()) == 2


def test_an_owner_who_changes_the_servers_all_the_time_sends_no_flood(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    give(alice, gsi2, seconds=None)
    task = put_to_bed(alice, gsi1, gsi2)
    for number in range(task_mails.MAX_WAITS + 5):
        gsi1.servers.update(scheme="ftp")
        assert renewal.resume_waiting() == 1
        gsi1.servers.update(scheme="gsiftp")
        Endpoint.objects.filter(pk=gsi1.pk).update(myproxy_server=f"myproxy{number}.example.org:7512")
        grant = take(task)
        slice_end.suspend(grant.task_id, grant.epoch, ENDED, None)
    assert Mail.objects.count() == task_mails.MAX_WAITS


@pytest.mark.django_db(transaction=True)
def test_tasks_that_come_to_wait_at_the_same_moment_are_one_mail(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    ids = [make_endpoint(alice, f"e{number}", public=True, scheme="gsiftp") for number in range(3)]
    share_myproxy(*ids)
    tasks = [unchecked(alice, endpoint, gsi2) for endpoint in ids]
    grants = [take(task) for task in tasks]
    results = all_at_once([partial(slice_end.suspend, grant.task_id, grant.epoch, ENDED) for grant in grants])
    assert results == [None] * 3
    assert len(subjects()) == 1


def test_a_credential_that_will_not_last_is_reported_once_for_all_tasks(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        forecasts, "during", lambda *_: Forecast(ForecastWork(1, 1), 7000.0, 7200.0, 9000.0, "a test", 0)
    )
    held = give(alice, gsi1, seconds=60)
    for _ in range(3):
        task = unchecked(alice, gsi1, gsi2)
        grant = take(task)
        assert renewal.foresee(task.pk, grant.epoch, gsi1, held)
        slice_end.release(task.pk, grant.epoch, later(3600))
    mail = Mail.objects.get()
    assert mail.subject.endswith("will need a new credential")
    assert "takes about 2 hours" in mail.body
    assert f"/endpoint/{gsi1.pk}/activate" in mail.body


# ---- what a hostile text can do


@pytest.mark.parametrize(
    "text", ["a\r\nBcc: eve@example.org", "a\nBcc: eve@example.org", "a\u2028b", "a\x85b", "\x00\x1b[2J", "x" * 5000]
)
def test_no_text_begins_another_header(text: str) -> None:
    line = task_mails.subject_line(text)
    assert line.isprintable()
    assert len(line) <= task_mails.MAX_SUBJECT


def test_the_words_of_a_server_stay_in_the_body(alice: User, ep1: Endpoint, ep2: Endpoint, server: MailServer) -> None:
    words = "550 no\r\n.\r\nQUIT\r\nBcc: eve@example.org\r\n\r\nSubject: you have won"
    fail(submit(alice, ep1, ep2, label="from: alice"), "UNKNOWN", words)
    assert mail_sender.send_due() == 1
    (message,) = server.mails
    assert message["Bcc"] is None
    assert message["To"] == ADDRESS
    assert message["Subject"] == 'Waybill: the transfer "from: alice" failed'
    assert len(server.recipients[0]) == 1
    assert "Bcc: eve@example.org" in message.get_content()


def test_an_address_that_is_none_is_given_up_without_a_word_to_the_server(
    alice: User, ep1: Endpoint, ep2: Endpoint, server: MailServer
) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org\r\nBcc: eve@example.org")
    succeed(submit(User.objects.get(pk=alice.pk), ep1, ep2))
    assert mail_sender.send_due() == 0
    assert server.mails == []


# ---- sending


def test_a_mail_is_sent_once(alice: User, ep1: Endpoint, ep2: Endpoint, server: MailServer) -> None:
    succeed(submit(alice, ep1, ep2))
    assert mail_sender.send_due() == 1
    assert mail_sender.send_due(now=later(10**6)) == 0
    (message,) = server.mails
    assert (message["From"], message["To"]) == ("waybill@data.example.org", ADDRESS)
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "text/plain"
    assert Mail.objects.get().sent_at is not None


@pytest.mark.parametrize("mode", ["down", "refuse", "busy", "hang"])
def test_a_mail_is_tried_for_three_days_and_then_given_up_and_counted(
    alice: User, ep1: Endpoint, ep2: Endpoint, mode: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = MailServer(mode)
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no", timeout=0.1)
    if mode == "down":
        server.close()
    succeed(submit(alice, ep1, ep2))
    tallies.flush()
    before = counted("mails_given_up")
    begun, tries = Mail.objects.get().created_at, 0
    with caplog.at_level(logging.INFO):
        while (due := Mail.objects.get().next_try_at) is not None:
            assert tries < 200
            assert mail_sender.send_due(now=due) == 0
            assert mail_sender.send_due(now=due) == 0, "not before its time"
            tries += 1
            assert Mail.objects.get().attempts == tries
            now = due
    assert mail_sender.GIVE_UP <= now - begun <= mail_sender.GIVE_UP + timedelta(hours=1)
    assert "is given up after 3 days" in caplog.text
    assert Mail.objects.get().sent_at is None
    tallies.flush()
    assert counted("mails_given_up") == before + 1
    if mode != "down":
        server.close()


def test_mails_do_not_pile_up_where_there_are_fewer_attempts_than_new_mails(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Each mail was given up by an attempt of its own only: of a hanging server's, a worker has some 1,000 a day."""
    configure(settings, "smtp://127.0.0.1:9")
    for _ in range(6):
        fail(submit(alice, ep1, ep2))
    oldest = list(Mail.objects.order_by("pk").values_list("pk", flat=True))[:5]
    age = mail_sender.TOO_OLD + timedelta(minutes=1)
    Mail.objects.filter(pk__in=oldest).update(created_at=moment() - age)
    tallies.flush()
    before = counted("mails_given_up")
    for job in JOBS:
        for step in job.steps if job.name in ("mails", "tidy") else ():
            step()
    assert Mail.objects.filter(next_try_at__isnull=False).exclude(pk__in=oldest).count() == 1, "it has its three days"
    assert not Mail.objects.filter(pk__in=oldest, next_try_at__isnull=False).exists()
    tallies.flush()
    assert counted("mails_given_up") - before == 5
    assert caplog.text.count("is given up after") == 5


def counted(name: str, *labels: str) -> float:
    """A counter of `/metrics`."""
    return figures._tallies()[name].get(labels, 0.0)


@pytest.mark.parametrize(
    ("mode", "reason"), [("down", "connection"), ("busy", "refused"), ("hang", "connection"), ("refuse", "recipient")]
)
def test_a_mail_server_that_fails_is_named_once_and_its_return_too(
    alice: User,
    ep1: Endpoint,
    ep2: Endpoint,
    mode: str,
    reason: str,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mail_server, "_fails_since", None)
    server = MailServer("take" if mode == "down" else mode)
    away = f"smtp://127.0.0.1:{1 if mode == 'down' else server.port}?starttls=no"
    for _ in range(3):
        succeed(submit(alice, ep1, ep2))
    tallies.flush()
    before = counted("mail_failures", reason)
    configure(settings, away, timeout=0.1)
    with caplog.at_level(logging.WARNING, "transferapi.tasks.notify.mail_server"):
        for _ in range(3):
            mail_sender.send_due()
        server.mode = "take"
        configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no", timeout=10.0)
        mail_sender.send_due(now=later(3600))
    said = [one.getMessage() for one in caplog.records if one.name.endswith("mail_server")]
    if reason == "recipient":
        assert said == [], "this server works"
    else:
        fails, works = said
        assert fails.startswith("the mail server 127.0.0.1 port ")
        assert f"takes no mails ({reason}: " in fails
        assert "takes mails again after" in works
    tallies.flush()
    assert counted("mail_failures", reason) == before + 3
    server.close()


def test_recipients_that_are_refused_keep_no_other_mail_from_its_time(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    server = MailServer("refuse")
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    for _ in range(4):
        succeed(submit(alice, ep1, ep2))
    mail_sender.send_due()
    assert sorted(Mail.objects.values_list("attempts", flat=True)) == [1, 1, 1, 1]
    server.close()


def test_a_mail_server_that_comes_back_gets_it(alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any) -> None:
    server = MailServer("busy")
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    succeed(submit(alice, ep1, ep2))
    assert mail_sender.send_due() == 0
    server.mode = "take"
    assert mail_sender.send_due(now=later(mail_sender.FIRST_PAUSE + 1)) == 1
    assert len(server.mails) == 1
    server.close()


def test_a_server_that_is_down_is_not_asked_for_each_mail_in_turn(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    server = MailServer("busy")
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    for _ in range(5):
        succeed(submit(alice, ep1, ep2))
    mail_sender.send_due()
    assert server.connections == 1
    server.close()


@pytest.mark.django_db(transaction=True)
def test_many_senders_send_each_mail_once(alice: User, ep1: Endpoint, ep2: Endpoint, server: MailServer) -> None:
    for _ in range(6):
        succeed(submit(alice, ep1, ep2))

    def as_a_process_of_its_own() -> int:
        sent = 0
        while (mail := mail_sender._claim(None)) is not None:
            sent += not mail_sender._try(mail, None)
        return sent

    results = all_at_once([as_a_process_of_its_own] * 4)
    assert sum(results) == 6
    assert len(server.mails) == 6
    assert len({message["Message-ID"] for message in server.mails}) == 6


@pytest.mark.django_db(transaction=True)
def test_a_server_that_hangs_takes_one_thread_of_a_process(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    server = MailServer("hang")
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no", timeout=20.0)
    succeed(submit(alice, ep1, ep2))
    from django.db import connection

    def send() -> None:
        mail_sender.send_due()
        connection.close()

    hanging = threading.Thread(target=send)
    hanging.start()
    eventually(lambda: server.connections == 1)
    assert mail_sender.send_due(now=later(10**6)) == 0
    assert server.connections == 1
    server.close()
    hanging.join(30)
    assert not hanging.is_alive()


@pytest.mark.django_db(transaction=True)
def test_a_mail_that_is_being_sent_slowly_is_sent_by_no_other_worker(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    """The server takes longer for its reply than for any other, and the mail is accepted: it must not go out again."""
    server = MailServer("late")
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no", timeout=0.2)
    succeed(submit(alice, ep1, ep2))
    from django.db import connection

    def send() -> None:
        mail_sender.send_due()
        connection.close()

    sending = threading.Thread(target=send)
    sending.start()
    eventually(lambda: len(server.mails) == 1)
    assert mail_sender._claim(later(SENDING_SECONDS + 30)) is None
    # Longer than the timeout of a reply: who gives up here sends it twice.
    sending.join(0.5)
    server.late.set()
    sending.join(30)
    assert not sending.is_alive()
    assert Mail.objects.get().sent_at is not None
    server.mode = "take"
    assert mail_sender.send_due(now=later(10**6)) == 0
    assert len(server.mails) == 1
    server.close()


@pytest.mark.parametrize(
    ("mode", "scheme"), [("drip", "smtp://127.0.0.1:{}?starttls=no"), ("hang", "smtps://127.0.0.1:{}")]
)
def test_a_server_that_never_comes_to_an_end_is_left_in_time(
    settings: Any, monkeypatch: pytest.MonkeyPatch, mode: str, scheme: str
) -> None:
    monkeypatch.setattr(smtp, "SENDING_SECONDS", 0.3)
    server = MailServer(mode)
    configure(settings, scheme.format(server.port), timeout=20.0)
    assert mail_sender.deliver("subject", "body", ADDRESS, "1")
    server.late.set()
    server.close()


def test_a_password_does_not_go_to_a_server_without_encryption(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = MailServer(offers=("AUTH PLAIN LOGIN",))
    configure(settings, f"smtp://user:open-sesame@127.0.0.1:{server.port}")
    succeed(submit(alice, ep1, ep2))
    assert mail_sender.send_due() == 0
    assert server.mails == []
    assert "open-sesame" not in caplog.text
    server.close()


def test_mails_go_to_a_folder_where_that_is_configured(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, tmp_path: Path
) -> None:
    configure(settings, f"file://{tmp_path}/mails")
    succeed(submit(alice, ep1, ep2))
    assert mail_sender.send_due() == 1
    (file,) = (tmp_path / "mails").iterdir()
    assert "has succeeded." in file.read_text()


def test_a_user_whose_address_is_gone_meanwhile_gets_no_mail(
    alice: User, ep1: Endpoint, ep2: Endpoint, server: MailServer
) -> None:
    succeed(submit(alice, ep1, ep2))
    User.objects.update(email="")
    mail_sender.send_due()
    assert server.connections == 0
    assert Mail.objects.get().next_try_at is None


def test_old_mails_are_forgotten_and_those_to_be_sent_are_not(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(2):
        succeed(submit(alice, ep1, ep2))
    first = Mail.objects.order_by("id")[0]
    Mail.objects.filter(pk=first.pk).update(next_try_at=None)
    assert mail_sender.forget_old() == 0
    assert mail_sender.forget_old(now=moment() + mail_sender.KEEP + timedelta(days=1)) == 1
