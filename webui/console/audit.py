"""The records of what was done, and the sessions of a user, for staff."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from endpoints.error_meanings import meaning
from identity import audit_export, deactivation, users
from identity import sessions as open_sessions
from identity.audit import What
from identity.audit_export import Selection
from identity.error_categories import CategorizedError
from identity.models import AuditEvent, User
from identity.users import check_staff
from transferapi.rest.http.long_answers import paced
from transferapi.tasks.errors import RequestError
from webui.account.sessions import device_words
from webui.forms import question, refused
from webui.page import problem, signed_in, signed_in_stream, user_of

from .page import AUDIT, USERS, show_section, staff_only

#: Rows of one page, and characters of a value in the address.
ROWS, MAX_VALUE = 100, 150
FORMS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
_FILTERS = ("user", "what", "since", "until")


@dataclass(frozen=True)
class AuditFilter:
    """The filters of the address, as they were typed. before: the id of the row after which the page begins."""

    user: str
    what: str
    since: str
    until: str
    before: str

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in _FILTERS)

    def address(self, **changes: object) -> str:
        """The query of the same rows with other values."""
        values = {name: getattr(self, name) for name in (*_FILTERS, "before")} | changes
        return f"?{urlencode({name: value for name, value in values.items() if value})}"

    def selection(self) -> Selection:
        """Raises RequestError."""
        return Selection(_time("since", self.since), _time("until", self.until), _user_id(self.user), self.what)

    @property
    def last(self) -> int | None:
        """A position that we did not give leads to the newest rows."""
        return int(self.before) if self.before.isascii() and self.before.isdecimal() and len(self.before) < 19 else None


@signed_in
@staff_only
@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    asked, rows, refusal, status = _asked(request), list[AuditEvent](), None, 200
    try:
        rows = audit_export.page(user_of(request), asked.selection(), asked.last, ROWS + 1)
    except CategorizedError as error:
        refusal, status = refused("list", error)
    has_more, rows = len(rows) > ROWS, rows[:ROWS]
    context = {
        "asked": asked,
        "times": {name: _field_value(getattr(asked, name)) for name in ("since", "until")},
        "rows": [_shown(row) for row in rows],
        "acts": sorted(((name, str(words)) for name, words in ACTS.items()), key=lambda one: one[1].casefold()),
        "first": asked.address(before="") if asked.before else "",
        "later": asked.address(before=rows[-1].pk) if has_more else "",
        "downloads": [(form, asked.address(before="")) for form in FORMS],
        "refusal": refusal,
    }
    return show_section(request, AUDIT, "audit.html", context, status)


@signed_in_stream
@require_safe
def download(request: HttpRequest, form: str) -> HttpResponseBase:
    """All rows of the filter, the oldest first. It is written while it is read."""
    actor = user_of(request)
    try:
        check_staff(actor)
        parts = audit_export.export(actor, _asked(request).selection(), form)
    except CategorizedError:
        # The page says why.
        return audit(request)
    answer = StreamingHttpResponse(paced(part.encode() for part in parts), content_type=FORMS[form])
    answer["Content-Disposition"] = f'attachment; filename="audit.{form}"'
    answer["Cache-Control"] = "no-store"
    return answer


def _asked(request: HttpRequest) -> AuditFilter:
    values = {name: request.GET.get(name, "").strip()[:MAX_VALUE] for name in (*_FILTERS, "before")}
    return AuditFilter(**{**values, "what": values["what"].replace("\0", "")})


def _user_id(text: str) -> uuid.UUID | None:
    """The user with this name or id; the id finds also a deleted one. Raises RequestError."""
    if not text:
        return None
    if found := users.named(text):
        return found.pk
    try:
        return uuid.UUID(text)
    except ValueError:
        raise RequestError("user", _("There is no user with this name.")) from None


def _time(name: str, text: str) -> datetime | None:
    """A time in UTC. Raises RequestError."""
    try:
        found = datetime.fromisoformat(text) if text else None
        return found.astimezone(UTC) if found and found.tzinfo else found and found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise RequestError(name, _("Expected a time such as 2027-01-31T12:00.")) from None


def _field_value(text: str) -> str:
    """The time as a field of browsers takes it; "" for a time that is none."""
    try:
        found = _time("", text)
    except RequestError:
        return ""
    return found.strftime("%Y-%m-%dT%H:%M") if found else ""


def _shown(row: AuditEvent) -> dict[str, Any]:
    return {"row": row, "act": act_words(row.what), "way": way_words(row.way), "details": row.details.items()}


@signed_in
@staff_only
@require_safe
def sessions(request: HttpRequest, user: uuid.UUID) -> HttpResponse:
    found = _find(request, user)
    if isinstance(found, HttpResponse):
        return found
    rows = [
        {"session": one, "device": device_words(one.browser), "way": way_words(one.way)}
        for one in open_sessions.open_sessions(found, request.session.session_key or "")
    ]
    return show_section(request, USERS, "sessions.html", {"whose": found, "rows": rows, "title": _("Sessions")})


@signed_in
@staff_only
@require_POST
def end_all(request: HttpRequest, user: uuid.UUID) -> HttpResponse:
    """End all sessions of the user, also the present one where staff end their own."""
    found = _find(request, user)
    if isinstance(found, HttpResponse):
        return found
    here = f"{USERS}/{found.pk}/sessions"
    title = _("End all sessions of %(name)s?") % {"name": found.username}
    text = _("The browsers are signed out at once. API tokens, applications and ssh keys keep their access.")
    if ask := question(request, title, text, _("End them"), here):
        return ask
    ended = deactivation.end_sessions(user_of(request), found)
    said = ngettext("One session has ended.", "%(ended)d sessions have ended.", ended) % {"ended": ended}
    messages.success(request, said)
    return HttpResponseRedirect(here)


def _find(request: HttpRequest, user: uuid.UUID) -> User | HttpResponse:
    try:
        return deactivation.find(user_of(request), user)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("No such user"), message)


#: Acts of `identity.audit.What`, then the changes of `identity.signals.account_changed`.
ACTS = {
    What.SIGNED_IN: gettext_lazy("Signed in"),
    What.SIGN_IN_REFUSED: gettext_lazy("A sign-in was refused"),
    What.SIGNED_OUT: gettext_lazy("Signed out"),
    What.CONSENT_GIVEN: gettext_lazy("Access given to an application"),
    What.CONSENT_WITHDRAWN: gettext_lazy("Access of an application taken back"),
    What.TOKENS_GIVEN: gettext_lazy("Tokens given to an application"),
    What.TOKEN_TAKEN_BACK: gettext_lazy("Token of an application taken back"),
    What.CODE_USED_AGAIN: gettext_lazy("Authorization code used twice"),
    What.SIGNED_UP: gettext_lazy("Signed up"),
    What.INVITED: gettext_lazy("Invitation made"),
    What.INVITATION_TAKEN_BACK: gettext_lazy("Invitation withdrawn"),
    What.USER_ADDED: gettext_lazy("User added"),
    What.USER_CHANGED: gettext_lazy("User changed"),
    What.USER_DEACTIVATED: gettext_lazy("User deactivated"),
    What.USER_ACTIVATED: gettext_lazy("User reactivated"),
    What.USER_DELETED: gettext_lazy("User deleted"),
    What.USER_TAKEN_OVER: gettext_lazy("User taken over by a directory"),
    What.GROUP_ADDED: gettext_lazy("Group of a directory added"),
    What.GROUP_DELETED: gettext_lazy("Group of a directory deleted"),
    What.MEMBERS_CHANGED: gettext_lazy("Members of a directory's group changed"),
    What.SCIM_TOKEN_MADE: gettext_lazy("Token of a directory made"),
    What.SCIM_TOKEN_REVOKED: gettext_lazy("Token of a directory revoked"),
    What.RESTORED: gettext_lazy("Restored from a backup"),
    What.SESSION_ENDED: gettext_lazy("Sessions ended"),
    What.RECOVERY_SENT: gettext_lazy("Mail for a new password sent"),
    What.CLIENT_ADMITTED: gettext_lazy("Program admitted"),
    What.CLIENT_REMOVED: gettext_lazy("Program no longer admitted"),
    What.ROLE_GIVEN: gettext_lazy("Role given"),
    What.ROLE_TAKEN_BACK: gettext_lazy("Role taken back"),
    What.ACCESS_GIVEN: gettext_lazy("Access rule made"),
    What.ACCESS_CHANGED: gettext_lazy("Access rule changed"),
    What.ACCESS_TAKEN_BACK: gettext_lazy("Access rule removed"),
    What.AUDIT_EXPORTED: gettext_lazy("Audit log exported"),
    "password_changed": gettext_lazy("Password changed"),
    "address_changed": gettext_lazy("Mail address changed"),
    "passkey_added": gettext_lazy("Passkey added"),
    "passkey_removed": gettext_lazy("Passkey removed"),
    "passkeys_removed": gettext_lazy("All passkeys removed"),
    "passkey_copied": gettext_lazy("Passkey seems to be copied"),
    "second_factor_on": gettext_lazy("Passkey after the password: on"),
    "second_factor_off": gettext_lazy("Passkey after the password: off"),
    "codes_on": gettext_lazy("One-time codes: on"),
    "codes_off": gettext_lazy("One-time codes: off"),
    "recovery_codes_new": gettext_lazy("New recovery codes"),
    "ssh_key_added": gettext_lazy("Ssh key added"),
    "ssh_key_removed": gettext_lazy("Ssh key removed"),
    "token_made": gettext_lazy("API token made"),
    "token_revoked": gettext_lazy("API token revoked"),
    "application_made": gettext_lazy("Application made"),
    "application_changed": gettext_lazy("Application changed"),
    "application_removed": gettext_lazy("Application deleted"),
    "secret_added": gettext_lazy("Secret of an application made"),
    "secret_removed": gettext_lazy("Secret of an application deleted"),
    "subject_added": gettext_lazy("Certificate subject added"),
    "subject_removed": gettext_lazy("Certificate subject removed"),
    "identity_linked": gettext_lazy("Identity linked"),
    "identity_unlinked": gettext_lazy("Identity unlinked"),
}
WAYS = {
    "password": gettext_lazy("Password"),
    "code": gettext_lazy("Password and one-time code"),
    "second": gettext_lazy("Password and passkey"),
    "passkey": gettext_lazy("Passkey"),
    "provider": gettext_lazy("Another provider"),
    "certificate": gettext_lazy("Certificate"),
    "link": gettext_lazy("Link of the operator"),
    "ssh": gettext_lazy("Password over ssh"),
    "ssh key": gettext_lazy("Ssh key"),
}


def act_words(what: str) -> str:
    return str(ACTS.get(what, what))


def way_words(way: str) -> str:
    return str(WAYS.get(way, way))
