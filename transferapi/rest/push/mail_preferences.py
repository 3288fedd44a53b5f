"""Whether the user wants mails, and in which language. An extension of ours."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from identity import languages
from transferapi.rest.http.base import View
from transferapi.rest.openapi import description
from transferapi.tasks.notify import mail_preferences

from . import documents


class MailPreferenceView(View):
    @description.operation("Show whether you get mails, and their language", answer="mail_preference")
    def get(self, request: Request) -> Response:
        return Response(documents.MAIL_PREFERENCE.document(self.user))

    @description.operation(
        "Choose whether you get mails, and their language", body="mail_preference", answer="mail_preference"
    )
    def put(self, request: Request) -> Response:
        wanted = documents.MAIL_PREFERENCE_REQUEST.read(request.data)
        if wanted["language"] is not None:
            languages.choose(self.user, wanted["language"])
        mail_preferences.choose(self.user, enabled=wanted["enabled"])
        return Response(documents.MAIL_PREFERENCE.document(self.user))
