"""The refusal of changes during maintenance, which the command and the SDK of Globus show as a sentence."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from endpoints.error_meanings import ApiError

from .error_pages import plain
from .http.errors import RETRY_AFTER

CODE = "ServiceUnavailable.Maintenance"


class MaintenanceMode(ApiError):  # noqa: N818 - as the other errors of requests
    """message: that of the operator."""

    def __init__(self, message: str) -> None:
        super().__init__(503, CODE, message)


def refusal(request: HttpRequest, message: str) -> HttpResponse:
    """The answer for a request that changes something."""
    return refused(plain(request, 503, CODE, message))


def refused(answer: HttpResponse) -> HttpResponse:
    """The same answer, which says when to try again."""
    answer["Retry-After"] = str(RETRY_AFTER)
    # Django logs each 503 that has not this mark as an error.
    vars(answer)["_has_been_logged"] = True
    return answer
