"""Forms of the account page that only a recent sign-in may send.

A stolen session, or one that was left open, must not make a way in that outlives it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponseRedirect

from webui.page import ACCOUNT, to_sign_in
from webui.sign_in.session_start import signed_in_recently

P = ParamSpec("P")
R = TypeVar("R")


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
