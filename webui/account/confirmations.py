"""Forms of the account page ask for a confirmation before something is removed, and for a recent sign-in.

A confirmation is asked for in a dialog, or on a page without scripts. A stolen session, or one that was left open, must
not make a way in that outlives it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from webui.forms import question
from webui.page import ACCOUNT, to_sign_in
from webui.sign_in.session_start import signed_in_recently

P = ParamSpec("P")
R = TypeVar("R")
#: The field with the name of the thing, as the page shows it.
CALLED = "called"
#: Characters of a name in a question.
_MOST = 200


@dataclass(frozen=True, slots=True)
class Confirmation:
    """title: may hold %(name)s. act: what the button says."""

    section: str
    title: str | Promise
    text: str | Promise
    act: str | Promise

    def title_of(self, name: str) -> str:
        return str(self.title) % {"name": name[:_MOST]}


_REMOVE = _("Remove")
CONFIRMATIONS = {
    "token": Confirmation("tokens", _("Revoke %(name)s?"), _("Scripts that use it stop working at once."), _("Revoke")),
    "app": Confirmation(
        "apps", _("Delete %(name)s?"), _("All of its tokens end, also those that other people gave it."), _("Delete")
    ),
    "given": Confirmation(
        "given",
        _("Take back what %(name)s may do?"),
        _("Its tokens end at once. You can allow it again."),
        _("Take back"),
    ),
    "certificate": Confirmation(
        "certificates",
        _("Remove this subject?"),
        _("Programs with such a certificate do not get in any more."),
        _REMOVE,
    ),
    "identity": Confirmation(
        "identities",
        _("Unlink %(name)s?"),
        _("It signs you in no more, and what is shared with it is not shared with you any more."),
        _("Unlink"),
    ),
    "ssh_key": Confirmation(
        "ssh-keys", _("Remove the key %(name)s?"), _("It signs you in no more, also not in open sessions."), _REMOVE
    ),
    "passkey": Confirmation("passkeys", _("Remove the passkey %(name)s?"), _("It signs you in no more."), _REMOVE),
    "password_alone": Confirmation(
        "passkeys",
        _("Sign in with your password alone?"),
        _("A stolen password then signs somebody in."),
        _("Turn it off"),
    ),
    "sessions": Confirmation(
        "sessions", _("End all other sessions?"), _("Whoever uses them has to sign in again."), _("End them")
    ),
    "webhook": Confirmation(
        "webhooks", _("Remove this webhook?"), _("Messages that wait for it are not sent."), _REMOVE
    ),
    "credential": Confirmation(
        "credentials",
        _("Remove this credential?"),
        _("Tasks that need it wait until you give another one."),
        _REMOVE,
    ),
}


def ask(request: HttpRequest, kind: str) -> HttpResponse | None:
    """The page with the question; None where the reader has answered it."""
    one = CONFIRMATIONS[kind]
    title = one.title_of(request.POST.get(CALLED, ""))
    return question(request, title, str(one.text), str(one.act), f"{ACCOUNT}#{one.section}")


def asking(kind: str) -> Callable[[Callable[Concatenate[HttpRequest, P], R]], Callable[..., R | HttpResponse]]:
    """Decorate what a form does: the question comes first."""

    def decorate(act: Callable[Concatenate[HttpRequest, P], R]) -> Callable[..., R | HttpResponse]:
        @functools.wraps(act)
        def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponse:
            return ask(request, kind) or act(request, *args, **kwargs)

        return wrapped

    return decorate


def again(section: str) -> HttpResponseRedirect:
    """Lead to the sign-in page, and back to this section."""
    return to_sign_in(f"{ACCOUNT}#{section}", again=True)


def recently_signed_in(
    section: str,
) -> Callable[[Callable[Concatenate[HttpRequest, P], R]], Callable[..., R | HttpResponseRedirect]]:
    """Decorate what a form of this section does, for a user who is signed in: an older sign-in is renewed first."""

    def decorate(act: Callable[Concatenate[HttpRequest, P], R]) -> Callable[..., R | HttpResponseRedirect]:
        @functools.wraps(act)
        def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponseRedirect:
            return act(request, *args, **kwargs) if signed_in_recently(request) else again(section)

        return wrapped

    return decorate


@dataclass(frozen=True)
class Shown:
    """Values that the page shows only once: (label, value) pairs."""

    title: str
    text: str
    values: list[tuple[str, str]] = field(repr=False)
