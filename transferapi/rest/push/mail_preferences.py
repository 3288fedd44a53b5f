"""Whether the user wants mails. An extension of ours."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View
from transferapi.rest.openapi import description
from transferapi.tasks.notify import mail_preferences

from . import documents


class MailPreference(View):
    @description.operation("Show whether you get mails", answer="mail_preference")
    def get(self, request: Request) -> Response:
        return Response(documents.MAIL_PREFERENCE.document(mail_preferences.enabled(self.user)))

    @description.operation("Choose whether you get mails", body="mail_preference", answer="mail_preference")
    def put(self, request: Request) -> Response:
        enabled = documents.MAIL_PREFERENCE_REQUEST.read(request.data)["enabled"]
        mail_preferences.choose(self.user, enabled=enabled)
        return Response(documents.MAIL_PREFERENCE.document(enabled))
