"""Pages for what Django itself refuses."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from .page import problem


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without the token of its session (CSRF_FAILURE_VIEW)."""
    text = "This form is too old, or did not come from us. Go back, load the page again, and try once more."
    return problem(request, 403, "Not done", text)
