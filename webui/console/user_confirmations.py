"""The confirmations of the page of a user: each act on the account of somebody else is asked for, then confirmed."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from webui.account.confirmations import Confirmation

CONFIRMATIONS = {
    "unlink": Confirmation(
        "ways",
        _("Unlink this identity?"),
        _("It signs the user in no more, rules that name it end, and so do all sessions of the user."),
        _("Unlink"),
    ),
    "passkeys": Confirmation(
        "ways",
        _("Remove all passkeys of this user?"),
        _("The user signs in by password, and adds other passkeys. Be sure that it is the user who asks for it."),
        _("Remove"),
    ),
    "codes": Confirmation(
        "ways",
        _("Turn off the one-time codes of this user?"),
        _("The password alone signs in then. Be sure that it is the user who asks for it."),
        _("Turn off"),
    ),
    "recovery": Confirmation(
        "ways",
        _("Send a link for a new password?"),
        _("It goes to the mail address of the account, and serves once. It replaces no second factor."),
        _("Send"),
    ),
    "token": Confirmation(
        "programs", _("Revoke this token?"), _("Scripts that use it stop working at once."), _("Revoke")
    ),
    "given": Confirmation(
        "programs",
        _("Take back what this program may do?"),
        _("Its tokens end at once. The user can allow it again."),
        _("Take back"),
    ),
}
