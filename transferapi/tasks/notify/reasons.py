"""Reasons in mails, which come from workers, in the language of the reader. One that is not here stays English."""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

#: The sentences as the code has them; a test finds those that it does not have any more.
KNOWN = (
    # transferapi/tasks/worker/renewal.py, workers/engine/credentials.py, endpoints/gridftp/login.py
    _("There is none that is valid now."),
    _("The credential has expired."),
    _("The credential was revoked by its authority."),
    # workers/engine/slice.py, transferapi/tasks/moves.py
    _("The deadline has passed."),
    _("The task was not done by its deadline."),
)


def said(text: str) -> str:
    """The sentence in the language that is active."""
    return gettext(text) if text else ""
