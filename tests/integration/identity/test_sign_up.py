"""Sign-up: one rule of who may make an account, a mail that proves the address, and nothing said about accounts."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from identity import password_sign_in, sign_up
from identity.clock import moment
from identity.error_categories import InvalidFieldError, NotFoundError, Refusal
from identity.hidden import Secret
from identity.models import AuditEvent, Invitation, SignUpRequest, User
from identity.password_sign_in import PasswordRefusedError, TooManyAttemptsError
from identity.sign_up import Applicant
from identity.sign_up_policy import SignUpPolicy, parse
from identity.users import NOT_STAFF
from tests.database import is_waiting
from tests.integration.cast import all_at_once
from tests.integration.tasks.test_mails import configure
from tests.refusals import raises_refusal
from tests.servers.mail_server import MailServer
from tests.waiting import eventually
from transferapi.tasks.notify.mails import sign_up as sign_up_mails

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
ADDRESS, PASSWORD = "carol@example.org", Secret("wet paper on a roof 7")


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    server = MailServer()
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    settings.PUBLIC_URL = "http://testserver"
    settings.SIGN_UP = parse("open")
    yield server
    server.close()


def code_in(server: MailServer) -> Secret:
    [code] = re.findall(r"http://testserver/signup/link\?code=(\S+)", str(server.mails[-1].get_content()))
    return Secret(str(code))


def carol(**more: Any) -> Applicant:
    return Applicant(**{"username": "carol", "full_name": "Carol Doe", "address": ADDRESS, "is_proven": True, **more})


# ---- the rule


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("closed", SignUpPolicy()),
        ("open", SignUpPolicy(parse("open").kind)),
        (
            "domain: Example.org, a.example.net",
            SignUpPolicy(parse("domain:x.org").kind, ("example.org", "a.example.net")),
        ),
    ],
)
def test_the_setting_is_read(text: str, policy: SignUpPolicy) -> None:
    assert parse(text) == policy


@pytest.mark.parametrize(
    "text", ["", "yes", "domain", "domain:", "open:x.org", "domain:localhost", "domain:a b.org", "domain:@x.org"]
)
def test_a_wrong_setting_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="domain"):
        parse(text)


@pytest.mark.parametrize(
    ("policy", "applicant", "error"),
    [
        ("closed", carol(), sign_up.SIGN_UP_CLOSED),
        ("invitation", carol(), sign_up.INVITATION_REQUIRED),
        ("domain:example.net", carol(), sign_up.DOMAIN_REFUSED),
        ("domain:example.org", carol(address="carol@evil.example.org"), sign_up.DOMAIN_REFUSED),
        ("domain:example.org", carol(address="carol@example.org@example.net"), sign_up.DOMAIN_REFUSED),
        ("domain:example.org", carol(is_proven=False), sign_up.ADDRESS_NOT_PROVEN),
        ("domain:example.org", carol(address=""), sign_up.DOMAIN_REFUSED),
        ("open", carol(is_proven=False), sign_up.ADDRESS_NOT_PROVEN),
        ("open", carol(username="alice"), sign_up.NameRefusedError),
        ("open", carol(username="carol@example.org"), sign_up.NameRefusedError),
        ("open", carol(username="root"), sign_up.NameRefusedError),
        ("open", carol(username="Carol"), sign_up.NameRefusedError),
        ("open", carol(username="c#ep"), sign_up.NameRefusedError),
        ("open", carol(username="ali\u0441e"), sign_up.NameRefusedError),
        ("open", carol(full_name="a\nb"), sign_up.NameRefusedError),
        ("open", carol(full_name="a" * 151), sign_up.NameRefusedError),
        ("open", carol(), None),
        ("domain:example.org", carol(), None),
        ("domain:example.org", carol(address="Carol@EXAMPLE.org"), None),
    ],
)
def test_one_rule_decides_who_makes_an_account(
    alice: User, settings: Any, policy: str, applicant: Applicant, error: Refusal | type[Exception] | None
) -> None:
    settings.SIGN_UP = parse(policy)
    if error is None:
        made = sign_up.sign_up(applicant)
        assert (made.username, made.email, made.has_usable_password(), made.is_staff) == (
            "carol",
            ADDRESS,
            False,
            False,
        )
        return
    with raises_refusal(error):
        sign_up.sign_up(applicant)
    assert not User.objects.exclude(username="alice").exists()


def test_an_existing_name_in_other_letters_is_taken(settings: Any) -> None:
    settings.SIGN_UP = parse("open")
    User.objects.create(username="Carol")
    with pytest.raises(sign_up.NameRefusedError):
        sign_up.sign_up(carol())


# ---- invitations


@pytest.fixture
def invited(settings: Any) -> Secret:
    settings.SIGN_UP = parse("invitation")
    return code_of(sign_up.invite(None))


def code_of(made: tuple[Invitation, Secret]) -> Secret:
    return Secret(made[1].value.partition("code=")[2])


def test_an_invitation_admits_one_person_once(invited: Secret) -> None:
    user = sign_up.sign_up(carol(), invited)
    row = Invitation.objects.get()
    assert (row.used_by, row.used_at is not None) == (user, True)
    with pytest.raises(sign_up.InvitationRefusedError):
        sign_up.sign_up(carol(username="dave", address="dave@example.org"), invited)


def test_a_refused_account_does_not_use_the_invitation_up(invited: Secret) -> None:
    with pytest.raises(sign_up.NameRefusedError):
        sign_up.sign_up(carol(username="root"), invited)
    assert sign_up.sign_up(carol(), invited).username == "carol"


def test_an_invitation_ends(invited: Secret) -> None:
    with pytest.raises(sign_up.InvitationRefusedError):
        sign_up.sign_up(carol(), invited, moment() + timedelta(days=8))
    sign_up.take_back_invitation(None, Invitation.objects.get().pk)
    with pytest.raises(sign_up.InvitationRefusedError):
        sign_up.sign_up(carol(), invited)


@pytest.mark.parametrize(("address", "is_proven"), [("eve@example.org", True), (ADDRESS, False), ("", False)])
def test_an_invitation_for_an_address_serves_nobody_else(settings: Any, address: str, is_proven: bool) -> None:
    settings.SIGN_UP = parse("invitation")
    bound = code_of(sign_up.invite(None, "Carol@example.org"))
    with pytest.raises(sign_up.InvitationRefusedError):
        sign_up.sign_up(carol(address=address, is_proven=is_proven), bound)
    assert sign_up.sign_up(carol(), bound).email == ADDRESS


@pytest.mark.parametrize("code", ["", "x", "x" * 43, "x" * 9000, "\0", "\udcff"])
def test_a_code_that_is_none_admits_nobody(settings: Any, code: str) -> None:
    settings.SIGN_UP = parse("open")
    with pytest.raises(sign_up.InvitationRefusedError):
        sign_up.sign_up(carol(), Secret(code))


def test_an_invitation_admits_beside_domains_but_not_where_sign_up_is_closed(settings: Any) -> None:
    settings.SIGN_UP = parse("domain:example.net")
    invited = code_of(sign_up.invite(None))
    settings.SIGN_UP = parse("closed")
    with raises_refusal(sign_up.SIGN_UP_CLOSED):
        sign_up.sign_up(carol(), invited)
    with raises_refusal(sign_up.SIGN_UP_CLOSED):
        sign_up.invite(None)
    settings.SIGN_UP = parse("domain:example.net")
    assert sign_up.sign_up(carol(), invited).username == "carol"


def test_only_staff_invite(alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SIGN_UP = parse("invitation")
    for call in (
        lambda: sign_up.invite(alice),
        lambda: sign_up.list_invitations(alice),
        lambda: sign_up.take_back_invitation(alice, "x"),
    ):
        with raises_refusal(NOT_STAFF):
            call()
    alice.is_staff = True
    made, _ = sign_up.invite(alice, days=1)
    assert sign_up.list_invitations(alice) == [made]
    for bad in ({"days": 0}, {"days": 91}, {"email": "nobody"}):
        with pytest.raises(InvalidFieldError):
            sign_up.invite(alice, **bad)
    monkeypatch.setattr(sign_up, "MAX_INVITATIONS", 1)
    with raises_refusal(sign_up.TOO_MANY_INVITATIONS):
        sign_up.invite(alice)
    for wrong in ("x", str(alice.pk)):
        with pytest.raises(NotFoundError):
            sign_up.take_back_invitation(alice, wrong)


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_uses_of_one_invitation_one_succeeds(invited: Secret) -> None:
    def use(number: int) -> bool:
        try:
            sign_up.sign_up(carol(username=f"carol{number}", address=f"c{number}@example.org"), invited)
        except sign_up.InvitationRefusedError:
            return False
        return True

    assert sorted(all_at_once([partial(use, number) for number in range(4)])) == [False, False, False, True]
    assert Invitation.objects.get().used_by == User.objects.get(username__startswith="carol")


# ---- by mail


def test_an_address_is_proven_by_a_link_and_then_there_is_an_account(server: MailServer) -> None:
    sign_up.ask(" Carol@example.org", "192.0.2.1")
    assert not User.objects.filter(username="carol").exists()
    assert sign_up_mails.send_due() == 1
    assert server.recipients == [["rcpt TO:<carol@example.org>"]]
    code = code_in(server)
    assert sign_up.find_address(code, "192.0.2.1") == ADDRESS
    user = sign_up.finish(code, "carol", "Carol Doe", PASSWORD)
    assert (user.email, user.get_full_name(), user.is_active) == (ADDRESS, "Carol Doe", True)
    assert password_sign_in.sign_in("carol", PASSWORD, "") == user
    assert not SignUpRequest.objects.exists()
    with pytest.raises(sign_up.SignUpLinkLapsedError):
        sign_up.finish(code, "carol2", "", PASSWORD)


def test_the_code_is_in_the_mail_and_nowhere_else(server: MailServer) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    sign_up_mails.send_due()
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM identity_signuprequest t")
        assert code_in(server).value not in str(cursor.fetchall())


@pytest.mark.parametrize(("active", "words"), [(True, "You have one already: alice."), (False, "is deactivated")])
def test_an_address_with_an_account_gets_a_hint_and_the_form_says_the_same(
    alice: User, server: MailServer, active: bool, words: str
) -> None:
    alice.email, alice.is_active = "Alice@Example.org", active
    alice.save()
    sign_up.ask("alice@example.org", "192.0.2.1")
    assert sign_up_mails.send_due() == 1
    text = str(server.mails[-1].get_content())
    assert words in text
    assert "/signup/link" not in text


def test_an_account_made_meanwhile_ends_the_link(alice: User, server: MailServer) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    sign_up_mails.send_due()
    alice.email = ADDRESS
    alice.save()
    with pytest.raises(sign_up.SignUpLinkLapsedError):
        sign_up.finish(code_in(server), "carol", "", PASSWORD)
    assert not User.objects.filter(username="carol").exists()


def test_a_refused_password_or_name_leaves_the_link_as_it_is(server: MailServer) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    sign_up_mails.send_due()
    code = code_in(server)
    with pytest.raises(PasswordRefusedError):
        sign_up.finish(code, "carol", "", Secret("short"))
    with pytest.raises(sign_up.NameRefusedError):
        sign_up.finish(code, "root", "", PASSWORD)
    assert not User.objects.filter(username="carol").exists()
    assert sign_up.finish(code, "carol", "", PASSWORD).username == "carol"


def test_the_rule_is_asked_again_when_the_account_is_made(server: MailServer, settings: Any) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    sign_up_mails.send_due()
    settings.SIGN_UP = parse("closed")
    with raises_refusal(sign_up.SIGN_UP_CLOSED):
        sign_up.finish(code_in(server), "carol", "", PASSWORD)


def test_a_stranger_who_asks_for_the_address_takes_nobodys_invitation_away(server: MailServer, settings: Any) -> None:
    """The stranger has another invitation, and uses it up after the request."""
    settings.SIGN_UP = parse("invitation")
    mine, theirs = (code_of(sign_up.invite(None, email)) for email in (ADDRESS, ""))
    sign_up.ask(ADDRESS, "192.0.2.1", mine)
    SignUpRequest.objects.update(asked_at=moment() - sign_up.SPACING)
    sign_up.ask(ADDRESS, "198.51.100.1", theirs)
    sign_up.sign_up(carol(username="mallory", address="mallory@example.org"), theirs)
    sign_up_mails.send_due()
    user = sign_up.finish(code_in(server), "carol", "", PASSWORD)
    assert Invitation.objects.get(email=ADDRESS).used_by == user


def test_a_mailbox_is_not_flooded_and_the_first_link_still_serves(server: MailServer) -> None:
    for number in range(20):
        sign_up.ask(ADDRESS, f"192.0.2.{number}")
    sign_up_mails.send_due()
    assert len(server.mails) == 1
    code = code_in(server)
    sign_up.ask(ADDRESS, "198.51.100.1")
    assert sign_up_mails.send_due() == 0
    assert sign_up.find_address(code, "") == ADDRESS
    SignUpRequest.objects.update(asked_at=moment() - sign_up.SPACING)
    sign_up.ask(ADDRESS, "198.51.100.1")
    assert sign_up_mails.send_due() == 1


def test_requests_are_bounded_by_network_in_number_and_by_day(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(sign_up.MOST_OF_A_NETWORK):
        sign_up.ask(f"c{number}@example.org", "192.0.2.1")
    with pytest.raises(TooManyAttemptsError):
        sign_up.ask(ADDRESS, "192.0.2.1")
    for bound in ("MOST_A_DAY", "MOST_WAITING"):
        with monkeypatch.context() as patch:
            patch.setattr(sign_up, bound, sign_up.MOST_OF_A_NETWORK)
            with raises_refusal(sign_up.TOO_MANY_SIGN_UPS):
                sign_up.ask(ADDRESS, "192.0.2.2")
    sign_up.ask(ADDRESS, "192.0.2.3")


def test_strangers_use_up_no_bound_of_who_is_invited(server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of many networks fill the day; an invitation still admits, for a few addresses."""
    monkeypatch.setattr(sign_up, "MOST_A_DAY", 2)
    monkeypatch.setattr(sign_up, "MOST_WAITING", 2)
    for number in range(2):
        sign_up.ask(f"s{number}@evil.example", f"192.0.2.{number}")
    with raises_refusal(sign_up.TOO_MANY_SIGN_UPS):
        sign_up.ask("dora@example.org", "198.51.100.1")
    code = code_of(sign_up.invite(None))
    for number in range(sign_up.MOST_OF_AN_INVITATION):
        sign_up.ask(f"c{number}@example.org", f"198.51.100.{number}", code)
    with raises_refusal(sign_up.TOO_MANY_SIGN_UPS):
        sign_up.ask(ADDRESS, "198.51.100.99", code)
    sign_up.ask("c0@example.org", "198.51.100.99", code)
    sign_up.ask(ADDRESS, "198.51.100.99", code_of(sign_up.invite(None)))
    assert SignUpRequest.objects.filter(email=ADDRESS).exists()


@pytest.mark.django_db(transaction=True)
def test_an_invitation_that_is_used_at_this_moment_is_not_taken_back(server: MailServer) -> None:
    """Staff would believe that nobody has an account by it."""
    code = code_of(sign_up.invite(None))
    row, used = Invitation.objects.get(), threading.Event()
    outcome: list[object] = []

    def meanwhile() -> None:
        try:
            used.wait(30)
            sign_up.take_back_invitation(None, row.pk)
            outcome.append("taken back")
        except NotFoundError as error:
            outcome.append(type(error))
        finally:
            connection.close()

    other = threading.Thread(target=meanwhile)
    other.start()
    with transaction.atomic():
        user = sign_up.sign_up(carol(), code)
        used.set()
        eventually(is_waiting)
    other.join(30)
    assert outcome == [NotFoundError]
    assert Invitation.objects.get().used_by == user
    assert not AuditEvent.objects.filter(what="invitation_taken_back").exists()


def test_guesses_of_links_are_bounded(server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_up, "MOST_LOOKS", 2)
    for _ in range(2):
        with pytest.raises(sign_up.SignUpLinkLapsedError):
            sign_up.find_address(Secret("x" * 43), "192.0.2.1")
    with pytest.raises(TooManyAttemptsError):
        sign_up.find_address(Secret("x" * 43), "192.0.2.1")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "x@",
        "@x.org",
        "a b@x.org",
        "x@x.org\nBcc: y@x.org",
        "x@x.org,y@x.org",
        "\0@x.org",
        "é@x.org",
        f"{'x' * 250}@x.org",
    ],
)
def test_what_is_no_address_gets_no_mail(server: MailServer, address: str) -> None:
    with pytest.raises(sign_up.AddressRefusedError):
        sign_up.ask(address, "192.0.2.1")
    assert not SignUpRequest.objects.exists()


def test_a_request_that_nobody_confirms_is_deleted(server: MailServer) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    sign_up.delete_expired(moment() + sign_up.LIFETIME + timedelta(seconds=1))
    assert not SignUpRequest.objects.exists()


def test_a_mail_server_that_is_down_is_tried_for_three_days(server: MailServer, settings: Any) -> None:
    sign_up.ask(ADDRESS, "192.0.2.1")
    configure(settings, "smtp://127.0.0.1:1?starttls=no")
    begun, tries = moment(), 0
    while (due := SignUpRequest.objects.get().next_try_at) is not None:
        assert tries < 200
        claimed = sign_up.claim_mail(due)
        assert claimed is not None
        assert sign_up.claim_mail(due) is None, "not by two workers"
        sign_up.delete_expired(due)
        tries += 1
        is_given_up, now = sign_up.mail_failed(claimed.request_id, due), due
    assert is_given_up
    assert sign_up.GIVE_UP - timedelta(minutes=1) < now - begun < sign_up.GIVE_UP + timedelta(hours=1)
    SignUpRequest.objects.update(next_try_at=begun)
    assert sign_up_mails.send_due() == 0
