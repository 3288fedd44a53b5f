"""The options that set the fields of an endpoint. `endpoints.fields` checks the values."""

from __future__ import annotations

from typing import Any

from transferapi.shell.options import Arguments, Option, flag, number, on_off, option


def _text(name: str, about: str, *, metavar: str = "TEXT") -> Option:
    return option(f"--{name}", metavar=metavar, about=about)


def _switch(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="on|off", about=about, read=on_off)


def _number(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="N", about=about, read=number(1, 10**6))


FIELD_OPTIONS = (
    option("-n", "--display-name", metavar="NAME", about="the name that people read"),
    flag("--public", about="all users see it, and may use it within the limits of its servers", default=None),
    flag("--private", key="public", value=False, about="only you and those with a role see it", default=None),
    _text("description", "what it is for"),
    _text("organization", "the organization that runs it"),
    _text("department", "the department that runs it"),
    _text("keywords", "words by which it is found"),
    _text("contact-email", "the address of the people who run it", metavar="ADDRESS"),
    _text("contact-info", "how else they are reached"),
    _text("info-link", "a page about it", metavar="URL"),
    _text("default-directory", "where a listing without a path begins", metavar="PATH"),
    _text("myproxy-server", "the MyProxy server that its users get credentials from", metavar="HOST[:PORT]"),
    _text("myproxy-dn", "subject of that server's certificate, if not its host name", metavar="DN"),
    _text("oauth-server", "the OAuth server that its users get credentials from", metavar="URL"),
    _text("jump-host", "of ssh servers: the endpoint through whose server they are reached", metavar="ENDPOINT"),
    _text("data-ports", "of ssh servers: the ports at which our server awaits data", metavar="LOW-HIGH"),
    _text("network-use", "normal, minimal, aggressive or custom", metavar="WORD"),
    _number("max-concurrency", "with custom: the most sessions of one task"),
    _number("preferred-concurrency", "with custom: the sessions with which a task begins"),
    _number("max-parallelism", "with custom: the most streams of one session"),
    _number("preferred-parallelism", "with custom: the streams with which a session begins"),
    _switch("force-encryption", "every transfer from or to it is encrypted"),
    _switch("force-verify", "every transfer from or to it compares checksums"),
    _switch("disable-verify", "no transfer from or to it compares checksums"),
    _switch("allow-guest-collections", "its users may share folders of it"),
)


def given(arguments: Arguments) -> dict[str, Any]:
    """The fields of the document that the line sets."""
    return {key: arguments[key] for key in dict.fromkeys(one.key for one in FIELD_OPTIONS) if key in arguments.given}
