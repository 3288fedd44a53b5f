"""The documents of Auth: users as identities, and applications."""

from __future__ import annotations

from identity.provider.applications import MAX_NAME, MAX_REDIRECT_URIS

from .schema import (
    FLAG,
    MAYBE_FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_UUID,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    each,
    list_of,
    one_of,
    ref,
    taken,
    told_plain,
)

_TEXTS = list_of(TEXT)
_PROVIDER = {"identity_provider": UUID, "identity_provider_display_name": TEXT, "organization": MAYBE_TEXT}
_KIND = one_of("confidential_client", "public_installed_client")
_LINKS = told_plain(each("privacy_policy terms_and_conditions", MAYBE_TEXT))
_REDIRECT_URIS = about(
    f"https, or http on the loopback interface (with any port then); at most {MAX_REDIRECT_URIS}", list_of(TEXT)
)
_NAME = about(f"one line of at most {MAX_NAME} characters", TEXT)
_CLIENT: dict[str, Schema] = {
    "template_id": about("of a program that registers itself: no token is wanted then", MAYBE_TEXT),
    "name": _NAME,
    "public_client": about("it has no secret, for it could not keep one", MAYBE_FLAG),
    "client_type": {**one_of("confidential_client", "client_identity", "public_installed_client"), "nullable": True},
    "redirect_uris": {**_REDIRECT_URIS, "nullable": True},
}

ANSWERS_AUTH: dict[str, Schema] = {
    "userinfo": told_plain(
        {
            "sub": UUID,
            **each("name preferred_username", TEXT),
            "email": MAYBE_TEXT,
            **_PROVIDER,
            "identity_set": list_of(
                told_plain(
                    {
                        "sub": UUID,
                        **each("username name", TEXT),
                        "email": MAYBE_TEXT,
                        **_PROVIDER,
                        "last_authentication": MAYBE_NUMBER,
                    }
                )
            ),
        },
        sometimes="name preferred_username email identity_set " + " ".join(_PROVIDER),
    ),
    "identity": told_plain(
        {
            "id": UUID,
            **each("username name", TEXT),
            "email": about("your own only", MAYBE_TEXT),
            "organization": MAYBE_TEXT,
            "identity_provider": UUID,
            "identity_type": one_of("login"),
            "status": about("closed: this user cannot sign in any more", one_of("used", "closed")),
        }
    ),
    "identity_answer": told_plain({"identity": ref("identity")}),
    "identities": told_plain({"identities": list_of(ref("identity"))}),
    "identity_provider": told_plain(
        {"id": UUID, **each("name short_name", TEXT), "domains": _TEXTS, "alternative_names": _TEXTS}
    ),
    "identity_providers": told_plain({"identity_providers": list_of(ref("identity_provider"))}),
    "consent": told_plain(
        {
            "id": about("a number in this list", NUMBER),
            **each("client scope effective_identity", UUID),
            "scope_name": TEXT,
            "dependency_path": list_of(NUMBER),
            "status": one_of("approved"),
            **each("created updated last_used", TIME),
            **each("allows_refresh auto_approved atomically_revocable", FLAG),
        }
    ),
    "consents": told_plain({"consents": list_of(ref("consent"))}),
    "client": told_plain(
        {
            "id": UUID,
            "name": TEXT,
            "public_client": FLAG,
            "client_type": _KIND,
            "visibility": one_of("private"),
            "redirect_uris": _TEXTS,
            "grant_types": list_of(one_of("authorization_code", "refresh_token", "client_credentials")),
            **each("scopes fqdns", _TEXTS),
            "links": _LINKS,
            **each("parent_client project required_idp preselect_idp", MAYBE_UUID),
            **each("prompt_for_named_grant userinfo_from_effective_identity", FLAG),
        }
    ),
    "client_answer": told_plain({"client": ref("client")}),
    "clients": told_plain({"clients": list_of(ref("client"))}),
    "credential": told_plain(
        {
            "id": UUID,
            "name": TEXT,
            "client": UUID,
            "created": TIME,
            "secret": about("only when it has just been made", MAYBE_TEXT),
        }
    ),
    "credential_answer": told_plain({"credential": ref("credential")}),
    "credentials": told_plain({"credentials": list_of(ref("credential"))}),
    "client_made": told_plain(
        {"client": ref("client"), "included": told_plain({"client_credential": ref("credential")})},
        sometimes="included",
    ),
}
REQUESTS_AUTH: dict[str, Schema] = {
    "client": taken("client", {"client": taken("name", _CLIENT)}),
    "client_change": taken("client", {"client": taken("", {**_CLIENT, "name": {**_NAME, "nullable": True}})}),
    "credential": taken("credential", {"credential": taken("name", {"name": TEXT})}),
}
