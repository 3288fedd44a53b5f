"""Each error of the domain that users may see has a category, and one status, code and message on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework.test import APIRequestFactory

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
    sign_up,
    tokens,
    user_account,
    users,
)
from identity import certificate_subjects as subjects
from identity import one_time_codes as codes
from identity import proven_identities as linked
from identity import ssh_public_keys as ssh_keys
from identity.error_categories import CategorizedError, Category
from identity.federation import errors as federation
from identity.gsi.errors import UntrustedError
from identity.issuers import myproxy
from identity.issuers import oauth_errors as oauth
from identity.languages import LanguageUnknownError
from identity.models import User
from identity.provider import errors as provider
from identity.scim import errors as scim
from identity.sessions import SessionNotFoundError
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
    (registry.EndpointExistsError("a#b"), 409, "Exists", "An endpoint named 'a#b' exists already"),
    (registry.EndpointInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (registry.FieldNotSupportedError("f", WHY), 400, f"{BAD}.NotSupported", "f: It is so."),
    (
        registry.NotPermittedError(Permission.VIEW, EP), 403, "PermissionDenied",
        "You do not have permission for this on this endpoint",
    ),
    (
        registry.PathNotPermittedError(EP, "/p"), 403, "EndpointPermissionDenied",
        "No access rule gives you '/p'",
    ),
    (registry.ServerNotFoundError(5), 404, MISSING, "No such server '5'"),
    (registry.ServerExistsError("gsiftp://x"), 409, "Exists", "The endpoint has the server gsiftp://x already"),
    (registry.TooManyEndpointsError(9), 409, LIMIT, "A user has at most 9 endpoints"),
    (
        registry.TooManyNewEndpointsError(9), 409, LIMIT,
        "A user creates at most 9 endpoints in a day, deleted ones included: go on tomorrow",
    ),
    (
        registry.EndpointsFixedError(), 403, "PermissionDenied",
        "The key of this session is restricted to some endpoints: it cannot create others",
    ),
    (registry.EndpointDeletedError("e"), 404, "EndpointDeleted", "The endpoint 'e' is gone"),
    (registry.BookmarkNotFoundError("b"), 404, "BookmarkNotFound", "No such bookmark 'b'"),
    (registry.BookmarkExistsError("b"), 409, "Exists", "You have a bookmark named 'b' already"),
    (registry.BookmarkInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (registry.TooManyBookmarksError(9), 409, LIMIT, "A user has at most 9 bookmarks"),
    (registry.NotSharedError(EP), 400, BAD, "This is not a shared endpoint, so it has no access rules"),
    (registry.RuleNotFoundError("r"), 404, MISSING, "No such access rule 'r'"),
    (registry.RuleExistsError("/p"), 409, "Exists", "There is a rule for that principal and the path '/p'"),
    (registry.TooManyRulesError(9), 409, LIMIT, "A shared endpoint has at most 9 rules"),
    (
        registry.SymlinkRefusedError(EP), 403, "EndpointPermissionDenied",
        "No symbolic links are made on shared endpoints",
    ),
    (registry.RoleNotFoundError("r"), 404, MISSING, "No such role 'r'"),
    (registry.RoleExistsError("admin"), 409, "Exists", "The principal is admin already"),
    (registry.OwnerStaysError(EP), 409, "Conflict", "The owner of an endpoint stays its administrator"),
    (registry.TooManyRolesError(9), 409, LIMIT, "An endpoint has at most 9 roles"),
    (registry.PauseRuleNotFoundError("r"), 404, MISSING, "No such pause rule 'r'"),
    (
        registry.PauseRuleNotEditableError(), 403, "PermissionDenied",
        "A manager of the host made this pause rule",
    ),
    (registry.TooManyPauseRulesError(9), 409, LIMIT, "An endpoint has at most 9 rules"),
    (
        registry.OperationPausedError(EP, "pause_ls", ("Tape.",)), 409, "ExternalError.DirListingFailed.GCPaused",
        f"Endpoint: alice#ep1 ({ID})\nMessage: A manager of the endpoint has paused this\n---\nDetails: Tape.",
    ),
    (registry.NoFileError("/p"), 400, "ClientError.NotAFile", "This is not a file, so that it has no content: /p"),
    (
        registry.FileTooLargeError(9), 409, "ClientError.FileTooLarge",
        "The service passes on at most 9 octets at a time; move more with a transfer.",
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
        registry.TooManyUploadsError(9), 409, LIMIT,
        "A user has at most 9 unfinished uploads; finish some, or delete them",
    ),
    (
        registry.TargetExistsError("/p"), 409, "Exists",
        "There is something of this name already, and nothing is to be replaced: /p",
    ),
    (registry.NotActivatedError(EP, WHY), 400, "ClientError.ActivationRequired", WHY),
    (registry.RequirementError("f", WHY), 400, BAD, "f: It is so."),
    (registry.CredentialRefusedError("Expired", WHY), 400, "ClientError.CredentialRefused.Expired", WHY),
    (registry.DelegationUnknownError(WHY), 400, "ClientError.ActivationExpired", WHY),
    (
        registry.TooManyWaitingError(), 429, "ClientError.TooManyRequests",
        "Too many requests wait for servers of endpoints just now; try again in some seconds.",
    ),
    (gate.TargetRefusedError("h", WHY), 502, "ExternalError.ConnectFailed", "h: It is so."),
    (gate.LookupFailedError("h", WHY), 502, "ExternalError.LookupFailed", "h: It is so."),
    (tokens.TokenNotFoundError("t"), 404, MISSING, "No such token 't'"),
    (tokens.TooManyTokensError(9), 409, LIMIT, "A user has at most 9 tokens"),
    (tokens.TokenLabelError("label", WHY), 400, BAD, "label: It is so."),
    (tokens.LifetimeError("lifetime", WHY), 400, BAD, "lifetime: It is so."),
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
    (ssh_keys.KeyExistsError("SHA256:x"), 409, "Exists", "You have the key SHA256:x already"),
    (ssh_keys.TooManyKeysError(9), 409, LIMIT, "A user has at most 9 ssh keys"),
    (ssh_keys.KeyNotFoundError("k"), 404, MISSING, "No such ssh key 'k'"),
    (mail_addresses.AddressPresentError(), 400, BAD, mail_addresses.AddressPresentError.reason),
    (mail_addresses.AddressManagedError(), 403, "PermissionDenied", mail_addresses.AddressManagedError.reason),
    (mail_addresses.NoMailsError(), 409, "Conflict", mail_addresses.NoMailsError.reason),
    (
        mail_addresses.TooManyChangesError(), 429, "ClientError.TooManyRequests",
        mail_addresses.TooManyChangesError.reason,
    ),
    (mail_addresses.AddressLinkLapsedError(), 404, MISSING, mail_addresses.AddressLinkLapsedError.reason),
    (passkeys.PasskeysUnavailableError(), 501, "ServiceError.NotConfigured", passkeys.PasskeysUnavailableError.reason),
    (passkeys.ChallengeLapsedError(), 400, BAD, passkeys.ChallengeLapsedError.reason),
    (passkeys.PasskeyRefusedError(), 400, BAD, passkeys.PasskeyRefusedError.reason),
    (passkeys.PasskeyUnknownError(), 400, BAD, passkeys.PasskeyUnknownError.reason),
    (passkeys.PasskeyCopiedError(), 403, "PermissionDenied", passkeys.PasskeyCopiedError.reason),
    (passkeys.PasskeyExistsError(), 409, "Exists", passkeys.PasskeyExistsError.reason),
    (passkeys.NoPasskeyError(), 409, "Conflict", passkeys.NoPasskeyError.reason),
    (passkeys.PasskeyLabelError(), 400, BAD, passkeys.PasskeyLabelError.reason),
    (passkeys.LastPasskeyError(), 409, "Conflict", passkeys.LastPasskeyError.reason),
    (passkeys.LastSecondFactorError(), 409, "Conflict", passkeys.LastSecondFactorError.reason),
    (passkeys.TooManyPasskeysError(9), 409, LIMIT, "A user has at most 9 passkeys"),
    (passkeys.PasskeyNotFoundError("p"), 404, MISSING, "No such passkey 'p'"),
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
    (linked.IdentityNotUsableError(), 502, "ExternalError", linked.IdentityNotUsableError.reason),
    (linked.IdentityInactiveError(EP.owner), 403, "PermissionDenied", linked.IdentityInactiveError.reason),
    (linked.IdentityTakenError(), 409, "Exists", linked.IdentityTakenError.reason),
    (linked.IdentityNotFoundError("i"), 404, MISSING, "No such identity 'i'"),
    (linked.LastWayInError(), 409, "Conflict", linked.LastWayInError.reason),
    (linked.ProofTooOldError(), 403, "PermissionDenied", linked.ProofTooOldError.reason),
    (linked.TooManyIdentitiesError(9), 409, LIMIT, "A user has at most 9 linked identities"),
    (SessionNotFoundError("s"), 404, MISSING, "No such session 's'"),
    (codes.CodesEnabledError(), 409, "Conflict", codes.CodesEnabledError.reason),
    (codes.CodesNotEnabledError(), 409, "Conflict", codes.CodesNotEnabledError.reason),
    (codes.CodeWrongError(), 400, BAD, codes.CodeWrongError.reason),
    (codes.CodeUsedError(), 400, BAD, codes.CodeUsedError.reason),
    (
        codes.CodesUnreadableError(), 501, "ServiceError.NotConfigured",
        codes.CodesUnreadableError.reason,
    ),
    (LanguageUnknownError(), 400, BAD, "language: expected one of en, de"),
    (sign_up.SignUpClosedError(), 403, "PermissionDenied", sign_up.SignUpClosedError.reason),
    (sign_up.InvitationRequiredError(), 403, "PermissionDenied", sign_up.InvitationRequiredError.reason),
    (sign_up.InvitationRefusedError(), 403, "PermissionDenied", sign_up.InvitationRefusedError.reason),
    (
        sign_up.DomainRefusedError(["a.org"]), 403, "PermissionDenied",
        "You need a mail address of a.org, or an invitation.",
    ),
    (sign_up.AccountExistsError(), 409, "Exists", sign_up.AccountExistsError.reason),
    (sign_up.AddressNotProvenError(), 403, "PermissionDenied", sign_up.AddressNotProvenError.reason),
    (sign_up.AddressRefusedError(), 400, BAD, sign_up.AddressRefusedError.reason),
    (sign_up.NameRefusedError(WHY), 400, BAD, WHY),
    (sign_up.SignUpLinkLapsedError(), 404, MISSING, sign_up.SignUpLinkLapsedError.reason),
    (sign_up.TooManySignUpsError(), 429, "ClientError.TooManyRequests", sign_up.TooManySignUpsError.reason),
    (sign_up.InvitationNotFoundError("i"), 404, MISSING, "No such invitation 'i'"),
    (sign_up.InvitationInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (sign_up.TooManyInvitationsError(9), 409, LIMIT, "There are 9 open invitations already; take some back"),
    (audit.TooManyActsError(), 429, "ClientError.TooManyRequests", audit.TooManyActsError.template),
    (deactivation.StaffStaysError(), 409, "Conflict", deactivation.StaffStaysError.reason),
    *(
        (error(), 409, "Conflict", error.reason)
        for error in (
            user_account.OwnWaysError, user_account.NoMailError, user_account.UserInactiveError,
            user_account.MailWaitsError,
        )
    ),
    (subjects.LastSubjectError(), 409, "Conflict", subjects.LastSubjectError.reason),
    (user_account.ApplicationNotFoundError("x"), 404, "ClientError.NotFound", "No such application of this user 'x'"),
    (deactivation.NotDeactivatedError(), 409, "Conflict", deactivation.NotDeactivatedError.reason),
    (users.UserExistsError("u"), 409, "Exists", "there is a user u already"),
    (users.UserInvalidError(WHY), 400, BAD, WHY),
    (
        registry.StepUpRequiredError(EP, User(username="alice"), ["a.org"], 5, second_factor=True),
        403, "AuthorizationRequired",
        "This endpoint asks that you have signed in with an identity of a.org not longer than 5 minutes ago, by a "
        "passkey or by a one-time code after the password. Sign in again.",
    ),
    (users.NotStaffError(""), 403, "PermissionDenied", users.NotStaffError.reason),
    (users.OwnAccountError(""), 409, "Conflict", users.OwnAccountError.reason),
    (users.UserNotFoundError("u"), 404, MISSING, "No such user 'u'"),
    (scim.ScimUserNotFoundError("u"), 404, MISSING, "No such user 'u'"),
    (scim.ScimGroupNotFoundError("g"), 404, MISSING, "No such group 'g'"),
    (scim.ScimTakenError(WHY), 409, "Exists", WHY),
    (scim.ScimImmutableError("f", WHY), 400, BAD, "f: It is so."),
    (scim.ScimInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (scim.ScimClientError("f", WHY), 400, BAD, "f: It is so."),
    (scim.ScimNotActivatedError(), 403, "PermissionDenied", scim.ScimNotActivatedError.reason),
    (scim.TooManyScimUsersError(9), 409, LIMIT, "This directory may have at most 9 users"),
    (scim.TooManyScimGroupsError(9), 409, LIMIT, "A directory has at most 9 groups"),
    (scim.TooManyScimMembersError(9), 409, LIMIT, "A group has at most 9 members"),
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
        vault.VaultSealBrokenError(), 400, "ClientError.ActivationRequired.VaultSealBroken",
        vault.VaultSealBrokenError.reason,
    ),
    (
        vault.CredentialGoneError(), 400, "ClientError.ActivationRequired.CredentialGone",
        vault.CredentialGoneError.reason,
    ),
    (
        vault.VaultKeyMissingError("abc"), 400, "ClientError.ActivationRequired.VaultKeyMissing",
        vault.VaultKeyMissingError("abc").reason,
    ),
    (
        vault.VaultKeyNotConfiguredError(), 501, "ServiceError.VaultKeyNotConfigured",
        vault.VaultKeyNotConfiguredError.reason,
    ),
    (
        vault.SecretTooLargeError(2048), 400, "ClientError.CredentialRefused.TooLarge",
        "A credential has at most 2 KiB.",
    ),
    (
        vault.TooManyCredentialsError(9), 409, LIMIT,
        "You have 9 credentials already, which is the most that are kept: deactivate some endpoint.",
    ),
    (vault.BadBindingError(), 500, "InternalError", vault.BadBindingError.reason),
    (vault.UserGoneError(), 500, "InternalError", vault.UserGoneError.reason),
    (myproxy.MyProxyInputError(WHY), 400, "ExternalError.MyProxy.Input", WHY),
    (myproxy.MyProxyUnreachableError(WHY), 502, "ExternalError.MyProxy.Unreachable", WHY),
    (
        myproxy.MyProxyTimeoutError("answer", 2), 502, "ExternalError.MyProxy.Timeout",
        "The MyProxy server did not answer within 2 s; try again later.",
    ),
    (
        myproxy.UntrustedServerError(UntrustedError(WHY)), 502, "ExternalError.MyProxy.UntrustedServer",
        "The MyProxy server is not trusted, and nothing was sent to it. It is so.",
    ),
    (
        myproxy.WrongServerError(UntrustedError(WHY)), 502, "ExternalError.MyProxy.WrongServer",
        "The MyProxy server is not trusted, and nothing was sent to it. It is so.",
    ),
    (
        myproxy.ServerFailedError("no"), 502, "ExternalError.MyProxy.ServerFailed",
        myproxy.ServerFailedError("no").reason,
    ),
    (myproxy.LogonRefusedError(WHY), 400, "ExternalError.MyProxy.LogonRefused", WHY),
    (myproxy.BadPassphraseError(WHY), 400, "ExternalError.MyProxy.BadPassphrase", WHY),
    (myproxy.UnknownUserError(WHY), 400, "ExternalError.MyProxy.UnknownUser", WHY),
    (myproxy.MyProxyProtocolError(WHY), 502, "ExternalError.MyProxy.Protocol", WHY),
    (myproxy.BadCredentialError(WHY), 502, "ExternalError.MyProxy.BadCredential", WHY),
    (myproxy.ForeignKeyError(WHY), 502, "ExternalError.MyProxy.ForeignKey", WHY),
    (oauth.ServerAddressError(WHY), 502, "ExternalError.OAuth.ServerAddress", WHY),
    (oauth.ServerUnreachableError(WHY), 502, "ExternalError.OAuth.ServerUnreachable", WHY),
    (oauth.ServerTooSlowError(WHY), 502, "ExternalError.OAuth.ServerTooSlow", WHY),
    (oauth.ServerNotTrustedError(WHY), 502, "ExternalError.OAuth.ServerNotTrusted", WHY),
    (oauth.ServerAnswerError(WHY), 502, "ExternalError.OAuth.ServerAnswer", WHY),
    (oauth.CertificateNotUsableError(WHY), 502, "ExternalError.OAuth.CertificateNotUsable", WHY),
    (
        oauth.OAuthRefusedError("access_denied"), 400, "ExternalError.OAuth.Refused",
        "You, or the server, did not allow it. (access_denied)",
    ),
    (oauth.StateMismatchError(), 400, "ExternalError.OAuth.StateMismatch", oauth.StateMismatchError().reason),
    (oauth.IssuerMismatchError(), 400, "ExternalError.OAuth.IssuerMismatch", oauth.IssuerMismatchError().reason),
    (oauth.BadAnswerError(), 400, "ExternalError.OAuth.BadAnswer", oauth.BadAnswerError().reason),
    (connect.SetupKeyUnknownError(), 403, "ClientError.SetupKeyUnknown", connect.SetupKeyUnknownError.reason),
    (connect.SetupKeyUsedError(), 409, "ClientError.SetupKeyUsed", connect.SetupKeyUsedError.reason),
    (connect.SetupKeyExpiredError(), 409, "ClientError.SetupKeyExpired", connect.SetupKeyExpiredError.reason),
    (connect.CertificateRequestError(WHY), 400, BAD, WHY),
    (connect.AgentRefusedError("revoked"), 403, "ClientError.AgentRefused.revoked", connect.REASONS["revoked"]),
    (connect.NoAgentError(), 409, "Conflict", connect.NoAgentError.reason),
    (tasks.TaskNotFoundError("t"), 404, MISSING, "No such task 't'"),
    (tasks.OwnerNotFoundError(ID), 404, "UserNotFound", f"No such user '{ID}'"),
    (
        tasks.TasksNotPermittedError(), 403, "PermissionDenied",
        "You do not have permission for this on these tasks",
    ),
    (tasks.TaskCompleteError(), 409, "TaskComplete", "The task is complete and does not change any more"),
    (
        tasks.NothingToConfirmError(), 409, "NothingToConfirm",
        "The task does not wait for an answer about a deletion",
    ),
    (tasks.TaskNotCompleteError(), 409, "TaskNotComplete", "The task is not done yet; cancel it first"),
    (
        tasks.UnknownStateError(ID),
        409,
        "Conflict",
        "A newer version of this service has put this task into a state that this version does not know",
    ),
    (tasks.NothingToRetryError(WHY), 409, "Conflict", WHY),
    (tasks.RequestError("f", WHY), 400, BAD, "f: It is so."),
    (tasks.RequestError("f", WHY, "ClientError.Own"), 400, "ClientError.Own", "f: It is so."),
    (tasks.NoCredentialError(EP, WHY), 409, "NoCredException", WHY),
    (tasks.TooManyPendingError(9), 409, LIMIT, "You have 9 tasks that are not done; wait for some"),
    (tasks.TooMuchError(WHY), 409, LIMIT, WHY),
    (tasks.WebhookNotFoundError("w"), 404, MISSING, "No such webhook 'w'"),
    (tasks.WebhookDisabledError(), 409, "Conflict", "The webhook is disabled: enable it first"),
    (tasks.TooManyWebhooksError(9), 409, LIMIT, "A user has at most 9 webhooks"),
    (
        TooManyStreamsError(8), 429, "ClientError.TooManyRequests",
        "There are 8 streams already, which is the most: close one",
    ),
    (timers.TimerNotFoundError("t"), 404, MISSING, "No such timer 't'"),
    (timers.TimerInvalidError("f", WHY), 400, BAD, "f: It is so."),
    (timers.TimerEndedError(), 409, "TimerEnded", "The timer has ended; give it a new schedule"),
    (
        timers.TimerHeldError(),
        409,
        "TimerHeld",
        "The operator of this service holds the timer, and has to release it",
    ),
    (timers.TooManyTimersError(9), 409, LIMIT, "A user has at most 9 timers"),
]  # fmt: skip

#: They are only raised as one of their kinds, or not at all in the course of a request.
ROOTS = {
    sign_up.SignUpError,
    connect.SetupKeyError,
    vault.VaultError,
    vault.CredentialUnusableError,
    myproxy.MyProxyError,
    oauth.OAuthError,
    codes.OneTimeCodeError,
    passkeys.PasskeyError,
    mail_addresses.MailAddressError,
    linked.LinkedIdentityError,
    scim.ScimError,
    federation.FederationError,
}


@pytest.mark.parametrize(("error", "status", "code", "message"), WIRE, ids=[type(row[0]).__name__ for row in WIRE])
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


def test_every_error_with_a_category_is_in_the_table_of_this_test() -> None:
    kinds = {kind for kind in of_the_product(CategorizedError) if kind.category is not None}
    kinds -= {kind for kind in kinds if kind.__module__ == error_categories.__name__}
    assert kinds - ROOTS == {type(error) for error, *_ in WIRE}


@pytest.mark.parametrize("category", Category)
def test_every_category_has_a_status(category: Category) -> None:
    class AnyError(CategorizedError):
        reason = WHY

    AnyError.category = category
    answer = rest.handle(AnyError(), {"request": APIRequestFactory().get("/v0.10/x")})
    assert 400 <= answer.status_code < 600
    assert answer.data["message"] == WHY


def test_an_error_without_a_category_shows_nothing_of_itself() -> None:
    answer: Any = rest.handle(tasks.StaleStateError(ID, ("old", "secret")), {"request": _request()})
    assert (answer.status_code, answer.data["code"]) == (500, "InternalError")
    assert "secret" not in answer.data["message"]


def _request() -> Any:
    return APIRequestFactory().get("/v0.10/x")
