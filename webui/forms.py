"""Forms in the sections of a page: one wrapper runs the change, and shows a refusal where the form stands."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from endpoints.error_meanings import meaning
from endpoints.errors import StepUpRequiredError
from identity.error_categories import CategorizedError
from transferapi.tasks.errors import RequestError

from .page import show, signed_in
from .sign_in import step_up

P = ParamSpec("P")
#: A change: returns a sentence that describes it, or the page to go to.
Change = Callable[Concatenate[HttpRequest, str, P], str | HttpResponse]


class SectionedPage(Protocol):
    """A page of one thing. refusal: the section of the page, and a sentence."""

    def __call__(
        self, request: HttpRequest, ref: str, /, *, refusal: tuple[str, str] | None = None, status: int = 200
    ) -> HttpResponse: ...


def submission_id(request: HttpRequest) -> uuid.UUID:
    """The id in the form: a second press of its button finds the same task. Raises RequestError."""
    try:
        return uuid.UUID(request.POST.get("submission_id", "")[:45])
    except ValueError:
        raise RequestError("submission_id", _("Load the page again, then try once more.")) from None


#: The field of a form whose question was answered.
CONFIRMED = "confirmed"


class SectionRefusal(tuple[str, str]):
    """The section of a page, and the sentence there. step_up: the demand, where another sign-in would help."""

    step_up: StepUpRequiredError | None = None


def refused(section: str, error: CategorizedError) -> tuple[SectionRefusal, int]:
    """The refusal as a section of a page shows it, and the status of the answer."""
    status, _code, message = meaning(error, "")
    if not isinstance(error, StepUpRequiredError):
        return SectionRefusal((section, message)), status
    refusal = SectionRefusal((section, step_up.sentence(error)))
    refusal.step_up = error
    return refusal, status


def question(request: HttpRequest, title: str, text: str, act: str, back: str) -> HttpResponse | None:
    """A page that asks before something is done; None where the reader has answered it.

    act: what its button says. back: the page without the change. The page sends the fields of the form again.
    """
    if request.POST.get(CONFIRMED) == "yes":
        return None
    fields = [(name, value) for name in request.POST if name != "csrfmiddlewaretoken"
              for value in request.POST.getlist(name)]  # fmt: skip
    context = {"title": title, "text": text, "act": act, "back_to": back, "fields": fields, "confirmed": CONFIRMED}
    return show(request, "confirm.html", context)


def change_of(page: SectionedPage, path: str, name: str) -> Callable[[Change[P]], Callable[..., HttpResponse]]:
    """Decorate the change that a form of section `name` asks for, on the page of one thing below `path`.

    An error of the domain shows the page again, with the error in the section; success leads back to the section.
    """

    def decorate(change: Change[P]) -> Callable[..., HttpResponse]:
        @functools.wraps(change)
        def wrapped(request: HttpRequest, /, ref: uuid.UUID, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            try:
                said = change(request, str(ref), *args, **kwargs)
            except CategorizedError as error:
                refusal, status = refused(name, error)
                return page(request, str(ref), refusal=refusal, status=status)
            if isinstance(said, HttpResponse):
                return said
            messages.success(request, said)
            return HttpResponseRedirect(f"{path}/{ref}#{name}")

        return signed_in(require_POST(wrapped))

    return decorate
