"""The address that signs the sample user in: once, within minutes, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from identity import one_time_link
from identity.models import User
from tests.integration.cast import all_at_once
from tests.integration.pages import Browser
from webui.sign_in.one_time import FILE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice", "redis_server")]


@pytest.fixture
def link(settings: Any, tmp_path: Path) -> Callable[[], str]:
    """Write a link for alice, and return its path."""
    settings.CONFIG = replace(settings.CONFIG, home=tmp_path)
    settings.ALLOWED_HOSTS = ["*"]

    def make() -> str:
        code, text = one_time_link.new_link("alice")
        assert code not in text
        (tmp_path / FILE).write_text(text)
        return f"/signin/once?code={code}"

    return make


def local(**environ: str) -> Browser:
    return Browser(**{"HTTP_HOST": "127.0.0.1:8000", "REMOTE_ADDR": "127.0.0.1", **environ})


def test_the_link_signs_in_once(link: Callable[[], str]) -> None:
    address, browser = link(), local()
    answer = browser.get(address)
    assert (answer.status_code, answer.headers["Referrer-Policy"]) == (302, "no-referrer")
    assert browser.get("/account").status_code == 200
    assert "alice" in browser.text
    other = local()
    assert other.get(address).status_code == 403
    assert other.get("/account").headers["Location"].startswith("/signin")


@pytest.mark.parametrize(
    "environ",
    [
        {"REMOTE_ADDR": "192.0.2.1"},
        {"REMOTE_ADDR": ""},
        {"HTTP_HOST": "waybill.example.org"},
        {"HTTP_HOST": "rebound.example.org:8000"},
    ],
)
def test_it_is_worth_nothing_elsewhere_and_stays_good_here(link: Callable[[], str], environ: dict[str, str]) -> None:
    address = link()
    assert local(**environ).get(address).status_code == 403
    assert local().get(address).status_code == 302


def test_the_page_of_a_refusal_gives_the_code_to_nobody(link: Callable[[], str]) -> None:
    address, browser = link(), local(REMOTE_ADDR="192.0.2.1")
    assert browser.get(address).headers["Referrer-Policy"] == "no-referrer"
    assert address.partition("=")[2] not in browser.page


def test_a_wrong_code_uses_nothing_up(link: Callable[[], str]) -> None:
    address = link()
    for code in ("", "x", "é\udc80".encode("utf-8", "surrogateescape").decode("latin-1"), "x" * 5000):
        assert local().client.get("/signin/once", {"code": code}).status_code == 403
    assert local().get(address).status_code == 302


def test_an_old_link_and_one_of_a_user_who_may_not_sign_in_are_refused(
    link: Callable[[], str], monkeypatch: pytest.MonkeyPatch, alice: User
) -> None:
    monkeypatch.setattr(one_time_link, "LIFETIME", -1)
    assert local().get(link()).status_code == 403
    monkeypatch.setattr(one_time_link, "LIFETIME", 60)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert local().get(link()).status_code == 403


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"digest": 1, "expires": "x"}', None])
def test_a_file_that_makes_no_sense_lets_nobody_in(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    assert one_time_link.use(tmp_path / FILE, "x") is None


def test_of_many_who_come_at_once_one_gets_in(tmp_path: Path) -> None:
    code, text = one_time_link.new_link("alice")
    (tmp_path / FILE).write_text(text)
    found = all_at_once([lambda: one_time_link.use(tmp_path / FILE, code)] * 8)
    assert sorted(map(str, found)) == ["None"] * 7 + ["alice"]
