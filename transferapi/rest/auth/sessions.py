"""A user's passkeys and the open sessions of the pages: listed and ended. A browser alone can add a passkey."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from identity import passkeys, sessions
from transferapi.rest.http.base import result
from transferapi.rest.openapi import description

from . import account_documents as documents
from .account import AccountView


class Passkeys(AccountView):
    @description.operation("List your passkeys", answer="passkey_list")
    def get(self, request: Request) -> Response:
        return Response(documents.PASSKEY_LIST.of(passkeys.of(self.user)))


class PasskeyDetail(AccountView):
    @description.operation("Sign in by this passkey no more", answer="result")
    def delete(self, request: Request, passkey: str) -> Response:
        passkeys.remove(self.user, passkey)
        return result(request, "Deleted", "The passkey is removed")


class Sessions(AccountView):
    @description.operation("List your open sessions of the pages", answer="session_list")
    def get(self, request: Request) -> Response:
        found = sessions.open_sessions(self.user, request._request.session.session_key or "")
        return Response(documents.SESSION_LIST.of(found))


class SessionDetail(AccountView):
    @description.operation("End a session of the pages", answer="result")
    def delete(self, request: Request, session: str) -> Response:
        sessions.end(self.user, session)
        return result(request, "Deleted", "The session has ended")
