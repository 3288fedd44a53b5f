"""WAYBILL_MAIL: what it may say, what is refused, and that nothing of a password is shown."""

from __future__ import annotations

from typing import Any

import pytest

from transferapi.config import ConfigError, load
from transferapi.config.mail import parse

PASSWORD = "s3cret:@/?#word"
QUOTED = "s3cret%3A%40%2F%3F%23word"


def smtp(url: str) -> dict[str, Any]:
    found = parse(url)
    assert found.pop("EMAIL_BACKEND") == "django.core.mail.backends.smtp.EmailBackend"
    assert found.pop("EMAIL_TIMEOUT") == 15
    return {name.removeprefix("EMAIL_"): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        (f"smtp://me:{QUOTED}@mail.example.org", 587, True, False),
        (f"smtp://me:{QUOTED}@mail.example.org:2525", 2525, True, False),
        (f"smtps://me:{QUOTED}@mail.example.org", 465, False, True),
    ],
)
def test_servers_with_a_password_are_spoken_to_in_secret(url: str, port: int, tls: bool, ssl: bool) -> None:
    assert smtp(url) == {
        "HOST": "mail.example.org",
        "PORT": port,
        "HOST_USER": "me",
        "HOST_PASSWORD": PASSWORD,
        "USE_TLS": tls,
        "USE_SSL": ssl,
    }


def test_a_relay_without_encryption_gets_no_password() -> None:
    assert smtp("smtp://localhost:25?starttls=no")["USE_TLS"] is False
    assert smtp("smtp://[::1]:25?starttls=no")["HOST"] == "::1"
    with pytest.raises(ValueError, match="STARTTLS"):
        parse(f"smtp://me:{QUOTED}@localhost:25?starttls=no")


def test_files_and_the_console() -> None:
    assert parse("file:///srv/my%20mails") == {
        "EMAIL_BACKEND": "django.core.mail.backends.filebased.EmailBackend",
        "EMAIL_FILE_PATH": "/srv/my mails",
    }
    assert parse("console:") == {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.org",
        f"http://me:{QUOTED}@mail.example.org",
        f"smtp://me:{QUOTED}@",
        f"smtp://me:{QUOTED}@mail.example.org:port",
        f"smtp://me:{QUOTED}@mail.example.org:70000",
        f"smtp://me:{QUOTED}@mail.example.org?tls=yes",
        f"smtp://me:{QUOTED}@mail.example.org?starttls=maybe",
        "smtp://me:s3cret/word@mail.example.org",
        "file://host/folder",
        "file:folder",
        "console:x",
    ],
)
def test_what_it_may_not_be_is_reported_at_the_start_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({"WAYBILL_MAIL": url})
    assert "WAYBILL_MAIL: " in str(refused.value)
    assert "s3cret" not in str(refused.value)
