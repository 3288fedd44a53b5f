"""Each error of the domain that users may see has a category, and one status, code and message on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from rest_framework.test import APIRequestFactory

from docs.draw.imports import modules
from endpoints import errors as registry
from endpoints.addresses import gate
from endpoints.connect import errors as connect
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from identity import (
    audit,
    deactivation,
    error_categories,
    groups,
    mail_addresses,
    passkeys,
    password_recovery,
    sign_up,
    tokens,
    user_account,
    users,
)
from identity import certificate_subjects as subjects
from identity import one_time_codes as codes
from identity import password_sign_in as passwords
from identity import proven_identities as linked
from identity import ssh_public_keys as ssh_keys
from identity.error_categories import (
    NOT_SUPPORTED,
    CategorizedError,
    Category,
    InvalidFieldError,
    NotFoundError,
    Refusal,
    RefusedError,
)
from identity.federation import errors as federation
from identity.gsi.errors import UntrustedError
from identity.issuers import myproxy
from identity.issuers import oauth_errors as oauth
from identity.models import User
from identity.provider import errors as provider
from identity.scim import errors as scim
from identity.vault import errors as vault
from transferapi.rest.http import errors as rest
from transferapi.rest.push.event_broadcaster import TooManyStreamsError
from transferapi.tasks import errors as tasks
from transferapi.timers import errors as timers

ID = uuid.UUID(int=7)
EP = Endpoint(pk=ID, name="ep1", owner=User(username="alice"))
BAD, MISSING, LIMIT = "ClientError.BadRequest", "ClientError.NotFound", "ClientError.LimitExceeded"
WHY = "It is so."

WIRE: list[tuple[CategorizedError, int, str, str]] = [
    (registry.EndpointNotFoundError("e"), 404, "EndpointNotFound", "No such endpoint 'e'"),
    (registry.EndpointNotFoundError("\udcff"), 404, "EndpointNotFound", "No such endpoint '\\udcff'"),
    (registry.EndpointNotFoundError("{self}"), 404, "EndpointNotFound", "No such endpoint '{self}'"),
    (RefusedError(registry.ENDPOINT_EXISTS, name="a#b"), 409, "Exists", "An endpoint named 'a#b' exists already"),
    (InvalidFieldError("f", WHY), 400, BAD, "f: It is so."),
    (InvalidFieldError("f", WHY, NOT_SUPPORTED), 400, f"{BAD}.NotSupported", "f: It is so."),
    (
        registry.NotPermittedError(Permission.VIEW, EP), 403, "PermissionDenied",
        "You do not have permission for this on this endpoint",
    ),
    (
        registry.PathNotPermittedError(EP, "/p"), 403, "EndpointPermissionDenied",
        "No access rule gives you '/p'",
    ),
    (NotFoundError(5, "server"), 404, MISSING, "No such server '5'"),
    (RefusedError(registry.SERVER_EXISTS, uri="ftp://x"), 409, "Exists", "The endpoint has the server ftp://x already"),
    (RefusedError(registry.TOO_MANY_ENDPOINTS, limit=9), 409, LIMIT, "A user has at most 9 endpoints"),
    (
        RefusedError(registry.TOO_MANY_NEW_ENDPOINTS, limit=9), 409, LIMIT,
        "A user creates at most 9 endpoints in a day, deleted ones included: go on tomorrow",
    ),
    (
        RefusedError(registry.ENDPOINTS_FIXED), 403, "PermissionDenied",
        "The key of this session is restricted to some endpoints: it cannot create others",
    ),
    (RefusedError(registry.ENDPOINT_DELETED, ref="e"), 404, "EndpointDeleted", "The endpoint 'e' is gone"),
    (registry.BookmarkNotFoundError("b"), 404, "BookmarkNotFound", "No such bookmark 'b'"),
    (RefusedError(registry.BOOKMARK_EXISTS, name="b"), 409, "Exists", "You have a bookmark named 'b' already"),
    (InvalidFieldError("f", WHY), 400, BAD, "f: It is so."),
    (RefusedError(registry.TOO_MANY_BOOKMARKS, limit=9), 409, LIMIT, "A user has at most 9 bookmarks"),
    (registry.NotSharedError(EP), 400, BAD, "This is not a shared endpoint, so it has no access rules"),
    (NotFoundError("r", "access rule"), 404, MISSING, "No such access rule 'r'"),
    (
        RefusedError(registry.RULE_EXISTS, path="/p"), 409, "Exists",
        "There is a rule for that principal and the path '/p'",
    ),
    (RefusedError(registry.TOO_MANY_RULES, limit=9), 409, LIMIT, "A shared endpoint has at most 9 rules"),
    (
        RefusedError(registry.SYMLINK_REFUSED), 403, "EndpointPermissionDenied",
        "No symbolic links are made on shared endpoints",
    ),
    (NotFoundError("r", "role"), 404, MISSING, "No such role 'r'"),
    (RefusedError(registry.ROLE_EXISTS, role="admin"), 409, "Exists", "The principal is admin already"),
    (RefusedError(registry.OWNER_STAYS), 409, "Conflict", "The owner of an endpoint stays its administrator"),
    (RefusedError(registry.TOO_MANY_ROLES, limit=9), 409, LIMIT, "An endpoint has at most 9 roles"),
    (NotFoundError("r", "pause rule"), 404, MISSING, "No such pause rule 'r'"),
    (
        RefusedError(registry.PAUSE_RULE_NOT_EDITABLE), 403, "PermissionDenied",
        "A manager of the host made this pause rule",
    ),
    (RefusedError(registry.TOO_MANY_PAUSE_RULES, limit=9), 409, LIMIT, "An endpoint has at most 9 rules"),
    (
        registry.OperationPausedError(EP, "pause_ls", ("Tape.",)), 409, "ExternalError.DirListingFailed.GCPaused",
        f"Endpoint: alice#ep1 ({ID})\nMessage: A manager of the endpoint has paused this\n---\nDetails: Tape.",
    ),
    (
        RefusedError(registry.NO_FILE, path="/p"), 400, "ClientError.NotAFile",
        "This is not a file, so that it has no content: /p",
    ),
    (
        RefusedError(registry.FILE_TOO_LARGE, limit=9), 409, "ClientError.FileTooLarge",
        "The service passes on at most 9 octets at a time; move more with a transfer.",
    ),
    (
        RefusedError(registry.TOO_MANY_FILES, limit=9), 409, "ClientError.FileTooLarge",
        "The service passes on at most 9 files and folders at a time; move more with a transfer.",
    ),
    (registry.UploadOffsetError(9), 409, "UploadOffset", "The upload goes on from octet 9."),
    (
        registry.UploadLostError(), 409, "UploadOffset",
        "Nothing is left of this upload: begin again with the first octet.",
    ),
    (
        registry.UploadBusyError(), 429, "UploadBusy",
        "Another request writes this file just now; ask how much has been received, and go on there.",
    ),
    (
        RefusedError(registry.TOO_MANY_UPLOADS, limit=9), 409, LIMIT,
        "A user has at most 9 unfinished uploads; finish some, or delete them",
    ),
    (
        registry.TargetExistsError("/p"), 409, "Exists",
        "There is something of this name already, and nothing is to be replaced: /p",
    ),
    (registry.NotActivatedError(EP, WHY), 400, "ClientError.ActivationRequired", WHY),
    (registry.RequirementError("f", WHY), 400, BAD, "f: It is so."),
    (registry.CredentialRefusedError("Expired", WHY), 400, "ClientError.CredentialRefused.Expired", WHY),
    (RefusedError(registry.DELEGATION_UNKNOWN, reason=WHY), 400, "ClientError.ActivationExpired", WHY),
    (
        registry.TooManyWaitingError(), 429, "ClientError.TooManyRequests",
        "Too many requests wait for servers of endpoints just now; try again in some seconds.",
    ),
    (gate.TargetRefusedError("h", WHY), 502, "ExternalError.ConnectFailed", "h: It is so."),
    (gate.LookupFailedError("h", WHY), 502, "ExternalError.LookupFailed", "h: It is so."),
    (tokens.TokenNotFoundError("t"), 404, MISSING, "No such token 't'"),
    (tokens.TooManyTokensError(9), 409, LIMIT, "A user has at most 9 tokens"),
    (InvalidFieldError("label", WHY), 400, BAD, "label: It is so."),
    (InvalidFieldError("lifetime", WHY), 400, BAD, "lifetime: It is so."),
    (subjects.SubjectInvalidError(WHY), 400, BAD, "subject: It is so."),
    (
        subjects.SubjectNotProvenError("/CN=a"), 403, "ClientError.SubjectNotProven",
        "You have not shown that /CN=a is yours: send this with that certificate (and your token), or activate an "
        "endpoint with it first",
    ),
    (subjects.SubjectTakenError("/CN=a"), 409, "Exists", "The subject /CN=a is registered already"),
    (subjects.TooManySubjectsError(9), 409, LIMIT, "A user has at most 9 subjects"),
    (subjects.SubjectNotFoundError("s"), 404, MISSING, "No such certificate subject 's'"),
    (ssh_keys.KeyInvalidError(WHY), 400, BAD, "public_key: It is so."),
    (ssh_keys.KeyFieldInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (RefusedError(ssh_keys.KEY_EXISTS, fingerprint="SHA256:x"), 409, "Exists", "You have the key SHA256:x already"),
    (RefusedError(ssh_keys.TOO_MANY_KEYS, limit=9), 409, LIMIT, "A user has at most 9 ssh keys"),
    (ssh_keys.KeyNotFoundError("k"), 404, MISSING, "No such ssh key 'k'"),
    (RefusedError(mail_addresses.ADDRESS_PRESENT), 400, BAD, mail_addresses.ADDRESS_PRESENT.sentence),
    (RefusedError(mail_addresses.ADDRESS_MANAGED), 403, "PermissionDenied", mail_addresses.ADDRESS_MANAGED.sentence),
    (RefusedError(mail_addresses.NO_MAILS), 409, "Conflict", mail_addresses.NO_MAILS.sentence),
    (
        RefusedError(mail_addresses.TOO_MANY_CHANGES), 429, "ClientError.TooManyRequests",
        mail_addresses.TOO_MANY_CHANGES.sentence,
    ),
    (mail_addresses.AddressLinkLapsedError(), 404, MISSING, mail_addresses.AddressLinkLapsedError.refusal.sentence),
    (
        passkeys.PasskeysUnavailableError(), 501, "ServiceError.NotConfigured",
        passkeys.PasskeysUnavailableError.refusal.sentence,
    ),
    (passkeys.PasskeyError(passkeys.CHALLENGE_LAPSED), 400, BAD, passkeys.CHALLENGE_LAPSED.sentence),
    (passkeys.PasskeyError(passkeys.PASSKEY_REFUSED), 400, BAD, passkeys.PASSKEY_REFUSED.sentence),
    (passkeys.PasskeyError(passkeys.PASSKEY_UNKNOWN), 400, BAD, passkeys.PASSKEY_UNKNOWN.sentence),
    (passkeys.PasskeyError(passkeys.PASSKEY_COPIED), 403, "PermissionDenied", passkeys.PASSKEY_COPIED.sentence),
    (passkeys.PasskeyError(passkeys.PASSKEY_EXISTS), 409, "Exists", passkeys.PASSKEY_EXISTS.sentence),
    (passkeys.PasskeyError(passkeys.NO_PASSKEY), 409, "Conflict", passkeys.NO_PASSKEY.sentence),
    (passkeys.PasskeyError(passkeys.PASSKEY_LABEL), 400, BAD, passkeys.PASSKEY_LABEL.sentence),
    (passkeys.PasskeyError(passkeys.LAST_PASSKEY), 409, "Conflict", passkeys.LAST_PASSKEY.sentence),
    (passkeys.PasskeyError(passkeys.LAST_SECOND_FACTOR), 409, "Conflict", passkeys.LAST_SECOND_FACTOR.sentence),
    (passkeys.PasskeyError(passkeys.TOO_MANY_PASSKEYS, limit=9), 409, LIMIT, "A user has at most 9 passkeys"),
    (NotFoundError("p", "passkey"), 404, MISSING, "No such passkey 'p'"),
    (federation.ProviderUnknownError("p"), 404, MISSING, "No such identity provider 'p'"),
    (federation.ProviderUnreachableError(WHY), 502, "ExternalError", WHY),
    (federation.ProviderAnswerError(WHY), 502, "ExternalError", WHY),
    (
        federation.ProviderRefusedError("access_denied"), 403, "PermissionDenied",
        "You did not allow it, or your provider refused it.",
    ),
    (
        federation.PassphraseRefusedError(), 400, BAD,
        "The MyProxy server did not accept this user name and this passphrase.",
    ),
    (
        federation.UserNameRefusedError(), 400, BAD,
        "A user name for this sign-in has small letters, digits, '.', '_', '-', '+' and '@' only.",
    ),
    (
        federation.SignInNotBegunError(), 400, BAD,
        "This sign-in was not begun in this browser, was used already, or took too long. Try again.",
    ),
    (
        federation.ServiceBusyError(), 429, "ClientError.TooManyRequests",
        "The service is busy or restarts. Try again in a moment.",
    ),
    (
        federation.NotFreshError(), 403, "PermissionDenied",
        "Your provider did not ask you to sign in again. Sign out there first, or use another way.",
    ),
    (
        federation.FreshnessUnknownError(), 403, "PermissionDenied",
        "Your provider does not say when you signed in there, and this needs to know. Use another way.",
    ),
    (federation.ProofRefusedError(WHY), 403, "PermissionDenied", WHY),
    (linked.IdentityNotUsableError(), 502, "ExternalError", linked.IdentityNotUsableError.refusal.sentence),
    (linked.IdentityInactiveError(EP.owner), 403, "PermissionDenied", linked.IdentityInactiveError.refusal.sentence),
    (linked.IdentityTakenError(), 409, "Exists", linked.IdentityTakenError.refusal.sentence),
    (linked.IdentityNotFoundError("i"), 404, MISSING, "No such identity 'i'"),
    (linked.LinkedIdentityError(linked.LAST_WAY_IN), 409, "Conflict", linked.LAST_WAY_IN.sentence),
    (linked.ProofTooOldError(), 403, "PermissionDenied", linked.ProofTooOldError.refusal.sentence),
    (
        linked.TooManyIdentitiesError(limit=9), 409, LIMIT,
        "A user has at most 9 linked identities",
    ),
    (NotFoundError("s", "session"), 404, MISSING, "No such session 's'"),
    (passwords.WrongPasswordError(), 400, BAD, "This user name and this password do not belong together."),
    (
        passwords.TooManyAttemptsError(90), 429, "ClientError.TooManyRequests",
        "Too many attempts. Try again in 2 minutes.",
    ),
    (
        passwords.SignInError(passwords.COUNTING_FAILED), 503, "ServiceUnavailable",
        "The service is busy or restarts. Try again in a moment.",
    ),
    (
        passwords.CodeRequiredError(passwords.PendingSignIn(ID, "", 0.0)), 400, BAD,
        "This user signs in with a one-time code besides the password.",
    ),
    (passwords.CodeRefusedError(codes.CODE_USED), 400, BAD, codes.CODE_USED.sentence),
    (passwords.SignInLapsedError(), 400, BAD, "Too much time has passed. Begin again with your password."),
    (passwords.PasswordRefusedError(reason=WHY), 400, BAD, WHY),
    (
        passwords.SignInError(password_recovery.TOO_MANY_REQUESTS_WAIT), 400, BAD,
        "The service is busy. Try again in a few minutes.",
    ),
    (
        password_recovery.RecoveryLinkLapsedError(), 400, BAD,
        "This link was used, or is too old. Ask for another one.",
    ),
    (codes.OneTimeCodeError(codes.CODES_ENABLED), 409, "Conflict", codes.CODES_ENABLED.sentence),
    (codes.OneTimeCodeError(codes.CODES_NOT_ENABLED), 409, "Conflict", codes.CODES_NOT_ENABLED.sentence),
    (codes.OneTimeCodeError(codes.CODE_WRONG), 400, BAD, codes.CODE_WRONG.sentence),
    (codes.OneTimeCodeError(codes.CODE_USED), 400, BAD, codes.CODE_USED.sentence),
    (
        codes.OneTimeCodeError(codes.CODES_UNREADABLE), 501, "ServiceError.NotConfigured",
        codes.CODES_UNREADABLE.sentence,
    ),
    (InvalidFieldError("language", "expected one of en, de"), 400, BAD, "language: expected one of en, de"),
    (sign_up.SignUpError(sign_up.SIGN_UP_CLOSED), 403, "PermissionDenied", sign_up.SIGN_UP_CLOSED.sentence),
    (sign_up.SignUpError(sign_up.INVITATION_REQUIRED), 403, "PermissionDenied", sign_up.INVITATION_REQUIRED.sentence),
    (sign_up.InvitationRefusedError(), 403, "PermissionDenied", sign_up.InvitationRefusedError.refusal.sentence),
    (
        sign_up.SignUpError(sign_up.DOMAIN_REFUSED, domains="a.org"), 403, "PermissionDenied",
        "You need a mail address of a.org, or an invitation.",
    ),
    (sign_up.AccountExistsError(), 409, "Exists", sign_up.AccountExistsError.refusal.sentence),
    (sign_up.SignUpError(sign_up.ADDRESS_NOT_PROVEN), 403, "PermissionDenied", sign_up.ADDRESS_NOT_PROVEN.sentence),
    (sign_up.AddressRefusedError(), 400, BAD, sign_up.AddressRefusedError.refusal.sentence),
    (sign_up.NameRefusedError(WHY), 400, BAD, WHY),
    (sign_up.SignUpLinkLapsedError(), 404, MISSING, sign_up.SignUpLinkLapsedError.refusal.sentence),
    (
        sign_up.SignUpError(sign_up.TOO_MANY_SIGN_UPS), 429, "ClientError.TooManyRequests",
        sign_up.TOO_MANY_SIGN_UPS.sentence,
    ),
    (NotFoundError("i", "invitation"), 404, MISSING, "No such invitation 'i'"),
    (InvalidFieldError("f", WHY), 400, BAD, "f: It is so."),
    (
        sign_up.SignUpError(sign_up.TOO_MANY_INVITATIONS, limit=9), 409, LIMIT,
        "There are 9 open invitations already; take some back",
    ),
    (RefusedError(audit.TOO_MANY_ACTS), 429, "ClientError.TooManyRequests", audit.TOO_MANY_ACTS.sentence),
    (RefusedError(deactivation.STAFF_STAYS), 409, "Conflict", deactivation.STAFF_STAYS.sentence),
    *(
        (RefusedError(refusal), 409, "Conflict", refusal.sentence)
        for refusal in (
            user_account.OWN_WAYS, user_account.NO_MAIL, user_account.USER_INACTIVE,
            user_account.MAIL_WAITS,
        )
    ),
    (subjects.LastSubjectError(), 409, "Conflict", subjects.LastSubjectError.reason),
    (
        NotFoundError("x", "application of this user"), 404, "ClientError.NotFound",
        "No such application of this user 'x'",
    ),
    (RefusedError(deactivation.NOT_DEACTIVATED), 409, "Conflict", deactivation.NOT_DEACTIVATED.sentence),
    (users.UserExistsError(name="u"), 409, "Exists", "there is a user u already"),
    (RefusedError(users.USER_INVALID, reason=WHY), 400, BAD, WHY),
    (
        registry.StepUpRequiredError(EP, User(username="alice"), ["a.org"], 5, second_factor=True),
        403, "AuthorizationRequired",
        "This endpoint asks that you have signed in with an identity of a.org not longer than 5 minutes ago, by a "
        "passkey or by a one-time code after the password. Sign in again.",
    ),
    (RefusedError(users.NOT_STAFF), 403, "PermissionDenied", users.NOT_STAFF.sentence),
    (RefusedError(users.OWN_ACCOUNT), 409, "Conflict", users.OWN_ACCOUNT.sentence),
    (NotFoundError("u", "user"), 404, MISSING, "No such user 'u'"),
    (NotFoundError("u", "user"), 404, MISSING, "No such user 'u'"),
    (NotFoundError("g", "group"), 404, MISSING, "No such group 'g'"),
    (RefusedError(scim.SCIM_TAKEN, reason=WHY), 409, "Exists", WHY),
    (scim.ScimImmutableError("f", WHY), 400, BAD, "f: It is so."),
    (InvalidFieldError("f", WHY), 400, BAD, "f: It is so."),
    (InvalidFieldError("f", WHY), 400, BAD, "f: It is so."),
    (RefusedError(scim.SCIM_NOT_ACTIVATED), 403, "PermissionDenied", scim.SCIM_NOT_ACTIVATED.sentence),
    (
        RefusedError(scim.TOO_MANY_SCIM_USERS_EVER, limit=90),
        409,
        LIMIT,
        "This directory has added 90 users, those included that it has deleted: the operator may allow it more "
        "(waybill scim token NAME --users N)",
    ),
    (RefusedError(scim.TOO_MANY_SCIM_USERS, limit=9), 409, LIMIT, "This directory may have at most 9 users"),
    (RefusedError(scim.TOO_MANY_SCIM_GROUPS, limit=9), 409, LIMIT, "A directory has at most 9 groups"),
    (RefusedError(scim.TOO_MANY_SCIM_MEMBERS, limit=9), 409, LIMIT, "A group has at most 9 members"),
    (groups.GroupNotFoundError("g"), 404, MISSING, "No such group 'g'"),
    (groups.GroupForbiddenError(WHY), 403, "PermissionDenied", WHY),
    (groups.GroupInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (groups.TooManyGroupsError(9), 409, LIMIT, "You are in 9 groups already"),
    (provider.ClientNotFoundError(), 404, MISSING, "No such client"),
    (provider.ClientInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (provider.TooManyClientsError(WHY), 409, LIMIT, WHY),
    (
        provider.TooManyRegistrationsError(60), 429, "ClientError.TooManyRequests",
        "Too many clients were registered from here; try again in 60 s",
    ),
    (
        vault.VaultError(vault.VAULT_SEAL_BROKEN), 400, "ClientError.ActivationRequired.VaultSealBroken",
        vault.VAULT_SEAL_BROKEN.sentence,
    ),
    (
        vault.VaultError(vault.CREDENTIAL_GONE), 400, "ClientError.ActivationRequired.CredentialGone",
        vault.CREDENTIAL_GONE.sentence,
    ),
    (
        vault.VaultKeyMissingError("abc"), 400, "ClientError.ActivationRequired.VaultKeyMissing",
        vault.VaultKeyMissingError("abc").message,
    ),
    (
        vault.VaultKeyNotConfiguredError(), 501, "ServiceError.VaultKeyNotConfigured",
        vault.VaultKeyNotConfiguredError.refusal.sentence,
    ),
    (
        vault.VaultError(vault.SECRETS_TOO_LARGE, kib=2), 400, "ClientError.CredentialRefused.TooLarge",
        "All credentials of a user together have at most 2 KiB.",
    ),
    (
        vault.VaultError(vault.SECRET_TOO_LARGE, kib=2), 400, "ClientError.CredentialRefused.TooLarge",
        "A credential has at most 2 KiB.",
    ),
    (
        vault.VaultError(vault.TOO_MANY_CREDENTIALS, limit=9), 409, LIMIT,
        "You have 9 credentials already, which is the most that are kept: deactivate some endpoint.",
    ),
    (vault.VaultError(vault.BAD_BINDING), 500, "InternalError", vault.BAD_BINDING.sentence),
    (vault.VaultError(vault.USER_GONE), 500, "InternalError", vault.USER_GONE.sentence),
    (myproxy.MyProxyInputError(reason=WHY), 400, "ExternalError.MyProxy.Input", WHY),
    (
        myproxy.MyProxyUnreachableError(server="h", port=7512), 502, "ExternalError.MyProxy.Unreachable",
        "Nobody accepts connections at port 7512 of h.",
    ),
    (
        myproxy.MyProxyTimeoutError(step="answer", seconds=2.0), 502, "ExternalError.MyProxy.Timeout",
        "The MyProxy server did not answer within 2 s; try again later.",
    ),
    (
        myproxy.MyProxyError(myproxy.UNTRUSTED_SERVER, refused=UntrustedError(WHY)), 502,
        "ExternalError.MyProxy.UntrustedServer",
        "The MyProxy server is not trusted, and nothing was sent to it. It is so.",
    ),
    (
        myproxy.MyProxyError(myproxy.WRONG_SERVER, refused=UntrustedError(WHY)), 502,
        "ExternalError.MyProxy.WrongServer",
        "The MyProxy server is not trusted, and nothing was sent to it. It is so.",
    ),
    (
        myproxy.MyProxyError(myproxy.SERVER_FAILED, text="no"), 502, "ExternalError.MyProxy.ServerFailed",
        myproxy.SERVER_FAILED.sentence.format(text="no"),
    ),
    (myproxy.LogonRefusedError(reason=WHY), 400, "ExternalError.MyProxy.LogonRefused", WHY),
    (
        myproxy.LogonRefusedError(myproxy.BAD_PASSPHRASE), 400, "ExternalError.MyProxy.BadPassphrase",
        "The MyProxy server does not accept this passphrase.",
    ),
    (
        myproxy.LogonRefusedError(myproxy.UNKNOWN_USER, user='"u"'), 400, "ExternalError.MyProxy.UnknownUser",
        'The MyProxy server has no credential for the user "u".',
    ),
    (myproxy.MyProxyError(myproxy.PROTOCOL_BROKEN, reason=WHY), 502, "ExternalError.MyProxy.Protocol", WHY),
    (
        myproxy.MyProxyError(myproxy.BAD_CREDENTIAL, problem="cannot be used", refused=UntrustedError(WHY)), 502,
        "ExternalError.MyProxy.BadCredential", "The MyProxy server gave a credential that cannot be used. It is so.",
    ),
    (
        myproxy.MyProxyError(myproxy.FOREIGN_KEY), 502, "ExternalError.MyProxy.ForeignKey",
        myproxy.FOREIGN_KEY.sentence,
    ),
    (oauth.ServerAddressError(reason=WHY), 502, "ExternalError.OAuth.ServerAddress", WHY),
    (oauth.OAuthError(oauth.SERVER_UNREACHABLE, reason=WHY), 502, "ExternalError.OAuth.ServerUnreachable", WHY),
    (oauth.OAuthError(oauth.SERVER_TOO_SLOW, reason=WHY), 502, "ExternalError.OAuth.ServerTooSlow", WHY),
    (oauth.OAuthError(oauth.SERVER_NOT_TRUSTED, reason=WHY), 502, "ExternalError.OAuth.ServerNotTrusted", WHY),
    (oauth.ServerAnswerError(WHY), 502, "ExternalError.OAuth.ServerAnswer", WHY),
    (oauth.OAuthError(oauth.CERTIFICATE_NOT_USABLE, reason=WHY), 502, "ExternalError.OAuth.CertificateNotUsable", WHY),
    (
        oauth.OAuthRefusedError("access_denied"), 400, "ExternalError.OAuth.Refused",
        "You, or the server, did not allow it. (access_denied)",
    ),
    (oauth.OAuthError(oauth.STATE_MISMATCH), 400, "ExternalError.OAuth.StateMismatch", oauth.STATE_MISMATCH.sentence),
    (
        oauth.OAuthError(oauth.ISSUER_MISMATCH), 400, "ExternalError.OAuth.IssuerMismatch",
        oauth.ISSUER_MISMATCH.sentence,
    ),
    (oauth.OAuthError(oauth.BAD_ANSWER), 400, "ExternalError.OAuth.BadAnswer", oauth.BAD_ANSWER.sentence),
    (RefusedError(connect.SETUP_KEY_UNKNOWN), 403, "ClientError.SetupKeyUnknown", connect.SETUP_KEY_UNKNOWN.sentence),
    (RefusedError(connect.SETUP_KEY_USED), 409, "ClientError.SetupKeyUsed", connect.SETUP_KEY_USED.sentence),
    (RefusedError(connect.SETUP_KEY_EXPIRED), 409, "ClientError.SetupKeyExpired", connect.SETUP_KEY_EXPIRED.sentence),
    (RefusedError(connect.CERTIFICATE_REQUEST, reason=WHY), 400, BAD, WHY),
    (
        connect.AgentRefusedError("revoked"), 403, "ClientError.AgentRefused.revoked",
        "The owner of the endpoint has revoked this agent, or deleted the endpoint.",
    ),
    (RefusedError(connect.NO_AGENT), 409, "Conflict", connect.NO_AGENT.sentence),
    (tasks.TaskNotFoundError("t"), 404, MISSING, "No such task 't'"),
    (RefusedError(tasks.OWNER_NOT_FOUND, ref=ID), 404, "UserNotFound", f"No such user '{ID}'"),
    (
        RefusedError(tasks.TASKS_NOT_PERMITTED), 403, "PermissionDenied",
        "You do not have permission for this on these tasks",
    ),
    (RefusedError(tasks.TASK_COMPLETE), 409, "TaskComplete", "The task is complete and does not change any more"),
    (
        RefusedError(tasks.NOTHING_TO_CONFIRM), 409, "NothingToConfirm",
        "The task does not wait for an answer about a deletion",
    ),
    (RefusedError(tasks.TASK_NOT_COMPLETE), 409, "TaskNotComplete", "The task is not done yet; cancel it first"),
    (
        RefusedError(tasks.UNKNOWN_STATE),
        409,
        "Conflict",
        "A newer version of this service has put this task into a state that this version does not know",
    ),
    (RefusedError(tasks.NOTHING_TO_RETRY, reason=WHY), 409, "Conflict", WHY),
    (tasks.RequestError("f", WHY), 400, BAD, "f: It is so."),
    (tasks.RequestError("f", WHY, "ClientError.Own"), 400, "ClientError.Own", "f: It is so."),
    (tasks.NoCredentialError(EP, WHY), 409, "NoCredException", WHY),
    (RefusedError(tasks.TOO_MANY_PENDING, limit=9), 409, LIMIT, "You have 9 tasks that are not done; wait for some"),
    (tasks.TooMuchError(WHY), 409, LIMIT, WHY),
    (NotFoundError("w", "webhook"), 404, MISSING, "No such webhook 'w'"),
    (RefusedError(tasks.WEBHOOK_DISABLED), 409, "Conflict", "The webhook is disabled: enable it first"),
    (RefusedError(tasks.TOO_MANY_WEBHOOKS, limit=9), 409, LIMIT, "A user has at most 9 webhooks"),
    (
        TooManyStreamsError(8), 429, "ClientError.TooManyRequests",
        "There are 8 streams already, which is the most: close one",
    ),
    (NotFoundError("t", "timer"), 404, MISSING, "No such timer 't'"),
    (timers.TimerInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (RefusedError(timers.TIMER_ENDED), 409, "TimerEnded", "The timer has ended; give it a new schedule"),
    (
        RefusedError(timers.TIMER_HELD),
        409,
        "TimerHeld",
        "The operator of this service holds the timer, and has to release it",
    ),
    (RefusedError(timers.TOO_MANY_TIMERS, limit=9), 409, LIMIT, "A user has at most 9 timers"),
]  # fmt: skip

#: They are only raised as one of their kinds, or not at all in the course of a request.
ROOTS = {
    federation.FederationError,
}


@pytest.mark.parametrize(("error", "status", "code", "message"), WIRE, ids=[row[3][:60] for row in WIRE])
def test_an_error_has_one_status_code_and_message(
    error: CategorizedError, status: int, code: str, message: str
) -> None:
    answer = rest.handle(error, {"request": APIRequestFactory().get("/v0.10/x")})
    assert (answer.status_code, answer.data["code"], answer.data["message"]) == (status, code, message)
    assert answer.headers[rest.ERROR_HEADER] == code


def of_the_product(root: type[CategorizedError]) -> Iterator[type[CategorizedError]]:
    for kind in root.__subclasses__():
        if not kind.__module__.startswith("tests."):
            yield kind
        yield from of_the_product(kind)


def values_of_the_product() -> Iterator[Refusal]:
    for name, path in modules().items():
        if "= Refusal(" in path.read_text():
            yield from (value for value in vars(import_module(name)).values() if isinstance(value, Refusal))


def test_every_error_with_a_category_is_in_the_table_of_this_test() -> None:
    kinds = {kind for kind in of_the_product(CategorizedError) if kind.category or hasattr(kind, "refusal")}
    kinds -= {kind for kind in kinds if kind.__module__ == error_categories.__name__}
    assert kinds - ROOTS <= {type(error) for error, *_ in WIRE}
    assert set(values_of_the_product()) <= {error.refusal for error, *_ in WIRE if isinstance(error, RefusedError)}


@pytest.mark.parametrize("category", Category)
def test_every_category_has_a_status(category: Category) -> None:
    answer = rest.handle(RefusedError(Refusal(category, WHY)), {"request": APIRequestFactory().get("/v0.10/x")})
    assert 400 <= answer.status_code < 600
    assert answer.data["message"] == WHY


def test_an_error_without_a_category_shows_nothing_of_itself() -> None:
    answer: Any = rest.handle(tasks.StaleStateError(ID, ("old", "secret")), {"request": _request()})
    assert (answer.status_code, answer.data["code"]) == (500, "InternalError")
    assert "secret" not in answer.data["message"]


def _request() -> Any:
    return APIRequestFactory().get("/v0.10/x")
