"""The callbacks of the OAuth2 server: the toolkit's validator, with this service's storage.

Codes, tokens and secrets are stored as digests; a token is valid for one resource server; `clients` decides what an
application may do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from oauth2_provider.models import Application, Grant, RefreshToken
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749 import errors

from identity import audit
from identity.audit import What
from identity.hidden import digest_of
from identity.models import SignIn
from identity.sign_in_proof import SignInProof

from . import clients, issue, openid, scopes, token_values

#: The header in which the consent page passes the address at which the user reached this service.
HERE = "X-Waybill-Here"


class Validator(OAuth2Validator):  # type: ignore[misc]  # the toolkit is not typed
    # ---- clients

    def _load_application(self, client_id: str | None, request: Any) -> Application | None:
        if request.client is None or request.client.client_id != client_id:
            request.client = clients.find(client_id or "")
        return request.client

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        if _credentials(request) is not None:
            return True
        application = self._load_application(request.client_id, request)
        return application is None or clients.is_confidential(application)

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        given = _credentials(request)
        found = clients.authenticate(*given) if given else None
        if found is None or (request.client_id and request.client_id != found.client_id):
            return False
        request.client = found
        return True

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        if grant_type == "client_credentials":
            return clients.may_act_alone(client)
        return grant_type in ("authorization_code", "refresh_token") and clients.may_ask_users(client)

    def validate_response_type(
        self, client_id: str, response_type: str, client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        return response_type == "code" and clients.may_ask_users(client)

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        return clients.allows_redirect(request.client, redirect_uri, request.headers.get(HERE, ""))

    def is_pkce_required(self, client_id: str, request: Any) -> bool:
        """Required of a client without a secret (RFC 9700 section 2.1.1); a confidential client authenticates instead.

        Also required when the token request has a verifier: somebody has then removed the challenge (section 4.8.2).
        """
        if request.client is None or not clients.is_confidential(request.client):
            return True
        return request.code_verifier is not None

    def validate_scopes(
        self, client_id: str, scopes_: Sequence[str], client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        if flaw := scopes.flaw(scopes_):
            raise errors.InvalidScopeError(description=flaw, request=request)
        return True

    # ---- codes

    def _grant(self, code: str, application: Application | None) -> Grant | None:
        found: Grant | None = (
            Grant.objects.select_related("user")
            .filter(code=token_values.checksum(code), application=application)
            .first()
        )
        return found

    def save_authorization_code(
        self, client_id: str, code: Mapping[str, str], request: Any, *_: Any, **__: Any
    ) -> None:
        """`proof` comes from `authorization.grant`: when and how the user authenticated."""
        lifetime = timedelta(seconds=oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
        proof: SignInProof = request.proof
        offline = getattr(request, "access_type", None) == "offline" or scopes.OFFLINE in request.scopes
        Grant.objects.create(
            application=request.client,
            user=request.user,
            code=token_values.checksum(code["code"]),
            expires=datetime.now(UTC) + lifetime,
            redirect_uri=request.redirect_uri,
            scope=" ".join(request.scopes),
            code_challenge=request.code_challenge or "",
            code_challenge_method=request.code_challenge_method or "",
            nonce=request.nonce or "",
            claims=json.dumps(
                {
                    "offline": offline,
                    "authenticated_at": proof.at.timestamp(),
                    "way": proof.way,
                    "identity": proof.identity,
                    "requested": request.requested,
                }
            ),
        )
        issue.bound_codes(request.user)
        audit.record(What.CONSENT_GIVEN, request.user, _facts(request.client, request.scopes))

    def get_authorization_code_scopes(self, client_id: str, code: str, redirect_uri: str, request: Any) -> list[str]:
        """Called before the client is known; it only selects the handler of the request."""
        scope = Grant.objects.filter(code=token_values.checksum(code)).values_list("scope", flat=True).first()
        return (scope or "").split()

    def validate_code(self, client_id: str, code: str, client: Application, request: Any, *_: Any, **__: Any) -> bool:
        grant = self._grant(code, client)
        if grant is None:
            self._alarm(code, client)
            return False
        if grant.is_expired() or not grant.user.is_active:
            return False
        request.grant = grant
        request.scopes = grant.scope.split()
        request.user = grant.user
        request.nonce = grant.nonce or None
        request.authenticated_at = json.loads(grant.claims)["authenticated_at"]
        return True

    def _alarm(self, code: str, client: Application) -> None:
        """A second use of a code means that it was stolen: end the sign-in that it started (RFC 6749 section 4.1.2)."""
        used = SignIn.objects.filter(code_digest=digest_of(code), application=client).first()
        if used is not None:
            audit.record(What.CODE_USED_AGAIN, used.user, _facts(client, []))
            issue.end(used)

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Application, request: Any, *_: Any, **__: Any
    ) -> bool:
        return bool(request.grant.redirect_uri == redirect_uri)

    def get_default_redirect_uri(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> str:
        grant = getattr(request, "grant", None)
        registered = request.client.redirect_uris.split()
        if grant is not None:
            # The token request left it out: it is then the only registered one.
            return grant.redirect_uri if registered == [grant.redirect_uri] else ""
        return registered[0] if len(registered) == 1 else ""

    def get_code_challenge(self, code: str, request: Any) -> str | None:
        return request.grant.code_challenge or None

    def get_code_challenge_method(self, code: str, request: Any) -> str | None:
        return request.grant.code_challenge_method or None

    def get_authorization_code_nonce(self, client_id: str, code: str, redirect_uri: str, request: Any) -> str | None:
        return request.grant.nonce or None

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """The code was deleted when the tokens were created."""

    # ---- tokens

    def validate_refresh_token(
        self, refresh_token: str, client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        found = issue.find_renewal(refresh_token)
        if found is None or found.application_id != client.pk:
            return False
        if found.revoked is not None:
            self._used_again(found)
            return False
        request.renewal = found
        request.user = found.user
        return issue.is_good(found)

    def _used_again(self, renewal: RefreshToken) -> None:
        """A refresh token that rotates and is used twice was stolen: end the whole sign-in (RFC 9700 section 4.14.2).
        A client whose tokens stay may repeat a request after its token was revoked."""
        if clients.rotates(renewal.application):
            for sign_in in SignIn.objects.filter(pk__in=[renewal.token_family]):
                issue.end(sign_in)

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> str:
        return str(request.renewal.access_token.scope)

    def rotate_refresh_token(self, request: Any) -> bool:
        """Only where the client asked for it: programs store a refresh token once and share it between processes."""
        return clients.rotates(request.client)

    def is_within_original_scope(
        self, request_scopes: Sequence[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Called when the request names scopes beyond those of the refresh token. A client may name all scopes of its
        sign-in: the answer then has those of this token's resource server."""
        own = request.renewal.access_token.scope.split()
        whole = SignIn.objects.filter(pk=request.renewal.token_family).values_list("scope", flat=True).first()
        wanted = [name for name in request_scopes if name in own]
        if not wanted or not set(request_scopes) <= set((whole or "").split()):
            return False
        request.scopes = wanted
        return True

    def save_bearer_token(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
        """Store the tokens, and rewrite the response into the form that clients of several APIs expect."""
        makers = {
            "client_credentials": self._for_itself,
            "authorization_code": self._for_code,
            "refresh_token": self._for_renewal,
        }
        id_token = token.pop("id_token", None)
        issued = makers[request.grant_type](token, request)
        token.clear()
        token.update(issued[0].document(), other_tokens=[one.document() for one in issued[1:]])
        if id_token is not None:
            token["id_token"] = id_token

    def _for_itself(self, token: Mapping[str, Any], request: Any) -> list[issue.IssuedTokens]:
        with transaction.atomic():
            _record_once(request, "client_credentials")
            return issue.access(request.client, request.client.user, request.scopes, first=token["access_token"])

    def _for_code(self, token: Mapping[str, Any], request: Any) -> list[issue.IssuedTokens]:
        grant = request.grant
        with transaction.atomic():
            # Only one of several concurrent requests with the same code deletes it.
            used, _ = Grant.objects.filter(pk=grant.pk).delete()
            if used:
                return self._sign_in(grant, token["access_token"])
        self._alarm(request.code, request.client)
        raise errors.InvalidGrantError(request=request)

    def _sign_in(self, grant: Grant, first: str) -> list[issue.IssuedTokens]:
        facts = json.loads(grant.claims)
        # A code of the version before this has none.
        requested = facts.get("requested", "")
        sign_in = SignIn.objects.create(
            user=grant.user,
            application=grant.application,
            scope=grant.scope,
            requested=requested if "[" in requested else None,
            code_digest=bytes.fromhex(grant.code),
            authenticated_at=datetime.fromtimestamp(facts["authenticated_at"], UTC),
            # Codes of older processes do not have these.
            way=facts.get("way", ""),
            identity=facts.get("identity", ""),
        )
        for oldest in issue.sign_ins_beyond(grant.user):
            issue.end(oldest)
        audit.record(What.TOKENS_GIVEN, grant.user, _facts(grant.application, grant.scope.split(), "code"))
        # `updated` shows that a user has signed in with this client.
        Application.objects.filter(pk=grant.application_id).update(updated=datetime.now(UTC))
        return issue.access(
            grant.application,
            grant.user,
            grant.scope.split(),
            first=first,
            sign_in=sign_in.pk,
            refresh=facts["offline"],
        )

    def _for_renewal(self, token: Mapping[str, Any], request: Any) -> list[issue.IssuedTokens]:
        rotated = token["refresh_token"] if self.rotate_refresh_token(request) else None
        with transaction.atomic():
            issued = issue.renew(request.renewal, request.scopes, token["access_token"], rotated)
        if issued is None:
            self._used_again(request.renewal)
            raise errors.InvalidGrantError(request=request)
        _record_once(request, "refresh_token")
        # Also one that stays valid is in the answer: clients would take a missing one for revoked.
        return [replace(issued, refresh_token=token["refresh_token"])]

    # ---- OpenID Connect

    def validate_silent_login(self, request: Any) -> bool:
        """The consent page checks whether a user is signed in."""
        return True

    def validate_silent_authorization(self, request: Any) -> bool:
        return True

    def get_id_token(self, token: dict[str, Any], token_handler: Any, request: Any) -> str:
        """`finalize_id_token` makes it."""
        return ""

    def refresh_id_token(self, request: Any) -> bool:
        """With a new access token, too, for clients that show the user from it (OpenID Connect Core section 12.2)."""
        return True

    def finalize_id_token(
        self, id_token: dict[str, Any], token: dict[str, Any], token_handler: Any, request: Any
    ) -> str | None:
        if request.grant_type not in ("authorization_code", "refresh_token") or not openid.is_configured():
            return None
        if request.grant_type == "authorization_code":
            at, redirect_uris = request.authenticated_at, [request.grant.redirect_uri]
        else:
            sign_in = SignIn.objects.filter(pk=request.renewal.token_family).first()
            if sign_in is None:
                return None
            at, redirect_uris = sign_in.authenticated_at.timestamp(), request.client.redirect_uris.split()
        by = openid.algorithm(request.client, redirect_uris)
        start = {**id_token, "aud": request.client.client_id}
        first: str = token["access_token"]
        return openid.signed(start, request.user, request.scopes, at, first, by)


def _record_once(request: Any, grant: str) -> None:
    """A program may ask for tokens as often as it likes."""
    client, user = request.client, request.client.user if grant == "client_credentials" else request.user
    facts = _facts(client, request.scopes, grant)
    audit.record_once(What.TOKENS_GIVEN, user, f"{client.client_id}:{grant}", facts, way="client")


def _facts(application: Application, names: Sequence[str], grant: str = "") -> audit.Facts:
    return {**clients.facts(application), "scopes": " ".join(names), "grant": grant}


def _credentials(request: Any) -> tuple[str, str] | None:
    return clients.credentials(request.headers.get("Authorization", ""), dict(request.decoded_body or ()))
