"""The words for the acts of the audit log and for the ways of a sign-in. Others are shown by their name."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from identity.audit import What

#: Acts of `identity.audit.What`, then the changes of `identity.signals.account_changed`.
ACTS = {
    What.SIGNED_IN: _("Signed in"),
    What.SIGN_IN_REFUSED: _("A sign-in was refused"),
    What.SIGNED_OUT: _("Signed out"),
    What.CONSENT_GIVEN: _("Access given to an application"),
    What.CONSENT_WITHDRAWN: _("Access of an application taken back"),
    What.TOKENS_GIVEN: _("Tokens given to an application"),
    What.TOKEN_TAKEN_BACK: _("Token of an application taken back"),
    What.CODE_USED_AGAIN: _("Authorization code used twice"),
    What.SIGNED_UP: _("Signed up"),
    What.INVITED: _("Invitation made"),
    What.INVITATION_TAKEN_BACK: _("Invitation withdrawn"),
    What.USER_ADDED: _("User added"),
    What.USER_CHANGED: _("User changed"),
    What.USER_DEACTIVATED: _("User deactivated"),
    What.USER_ACTIVATED: _("User reactivated"),
    What.USER_DELETED: _("User deleted"),
    What.USER_TAKEN_OVER: _("User taken over by a directory"),
    What.GROUP_ADDED: _("Group of a directory added"),
    What.GROUP_DELETED: _("Group of a directory deleted"),
    What.MEMBERS_CHANGED: _("Members of a directory's group changed"),
    What.SCIM_TOKEN_MADE: _("Token of a directory made"),
    What.SCIM_TOKEN_REVOKED: _("Token of a directory revoked"),
    What.RESTORED: _("Restored from a backup"),
    What.SESSION_ENDED: _("Sessions ended"),
    What.RECOVERY_SENT: _("Mail for a new password sent"),
    What.CLIENT_ADMITTED: _("Program admitted"),
    What.CLIENT_REMOVED: _("Program no longer admitted"),
    What.ROLE_GIVEN: _("Role given"),
    What.ROLE_TAKEN_BACK: _("Role taken back"),
    What.ACCESS_GIVEN: _("Access rule made"),
    What.ACCESS_CHANGED: _("Access rule changed"),
    What.ACCESS_TAKEN_BACK: _("Access rule removed"),
    What.AUDIT_EXPORTED: _("Audit log exported"),
    "password_changed": _("Password changed"),
    "address_changed": _("Mail address changed"),
    "passkey_added": _("Passkey added"),
    "passkey_removed": _("Passkey removed"),
    "passkeys_removed": _("All passkeys removed"),
    "passkey_copied": _("Passkey seems to be copied"),
    "second_factor_on": _("Passkey after the password: on"),
    "second_factor_off": _("Passkey after the password: off"),
    "codes_on": _("One-time codes: on"),
    "codes_off": _("One-time codes: off"),
    "recovery_codes_new": _("New recovery codes"),
    "ssh_key_added": _("Ssh key added"),
    "ssh_key_removed": _("Ssh key removed"),
    "token_made": _("API token made"),
    "token_revoked": _("API token revoked"),
    "application_made": _("Application made"),
    "application_changed": _("Application changed"),
    "application_removed": _("Application deleted"),
    "secret_added": _("Secret of an application made"),
    "secret_removed": _("Secret of an application deleted"),
    "subject_added": _("Certificate subject added"),
    "subject_removed": _("Certificate subject removed"),
    "identity_linked": _("Identity linked"),
    "identity_unlinked": _("Identity unlinked"),
}
WAYS = {
    "password": _("Password"),
    "code": _("Password and one-time code"),
    "second": _("Password and passkey"),
    "passkey": _("Passkey"),
    "provider": _("Another provider"),
    "certificate": _("Certificate"),
    "link": _("Link of the operator"),
    "ssh": _("Password over ssh"),
    "ssh key": _("Ssh key"),
}


def act_words(what: str) -> str:
    return str(ACTS.get(what, what))


def way_words(way: str) -> str:
    return str(WAYS.get(way, way))
