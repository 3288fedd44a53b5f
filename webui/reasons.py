"""Sentences of the services in the language of the reader: those that the pages of sign-in and of the account show.

The services speak English, because programs read what they say. A sentence that is not here stays English.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_noop as _

#: The sentences as the services have them; a test finds those that no service says any more.
KNOWN = (
    # identity/password_sign_in.py
    _("This user name and this password do not belong together."),
    _("The service is busy or restarts. Try again in a moment."),
    _("Too much time has passed. Begin again with your password."),
    # identity/one_time_codes.py
    _("Your one-time codes are on already."),
    _("Your one-time codes are not on: begin with a new secret."),
    _("This is not the present one-time code. Check the clock of the device that shows it."),
    _("This one-time code was used already. Wait for the next one."),
    # identity/passkeys.py
    _("Passkeys need https and a host name: the address of this service has none."),
    _("This took too long, or was answered already. Try again."),
    _("The answer of your browser or device was not accepted. Try again."),
    _("This passkey is not known here. Sign in in another way, and remove it from your device."),
    _("This passkey seems to have been copied, and signs in no more. Sign in in another way, and remove it."),
    _("This passkey is registered already."),
    _("You have no passkey that sign-in could ask for: add one first."),
    _("A name is one line of 1 to 128 characters."),
    _("Sign-in asks for a passkey after your password, and this is the last. Turn that off first."),
    # identity/proven_identities.py
    _("The provider did not say who you are in a way that this service can use."),
    _("The user of this identity is not active. Ask those who run this service."),
    _("This identity belongs to another user of this service. It must be unlinked there first."),
    _("You could not sign in any more. Set a password, or add a passkey or another identity first."),
    _("Too much time has passed. Sign in again, and then at the provider."),
    # identity/mail_addresses.py
    _("This is your mail address already."),
    _("A directory manages your account, and sets its mail address."),
    _("This service sends no mails: its operator sets your address."),
    _("You have asked for this too often today. Try again tomorrow."),
    _("This link was used, is too old, or is for another account. Ask for another one."),
    # identity/federation/errors.py
    _("This sign-in was not begun in this browser, was used already, or took too long. Try again."),
    _("You did not allow it, or your provider refused it."),
    _("The MyProxy server did not accept this user name and this passphrase."),
    _("A user name for this sign-in has small letters, digits, '.', '_', '-', '+' and '@' only."),
    _("Your provider did not ask you to sign in again. Sign out there first, or use another way."),
    _("Your provider does not say when you signed in there, and this needs to know. Use another way."),
    # identity/federation/myproxy.py
    _("The MyProxy server cannot be reached. Try again later."),
    _("The MyProxy server did not answer in time. Try again later."),
    _("The MyProxy server, or what it gave, is not trusted here."),
    # identity/passwords
    _("This link was used, or is too old. Ask for another one."),
    _("The service is busy. Try again in a few minutes."),
    _("This password is made of the name of the service or of yourself. Take other words."),
    # identity/sign_up
    _("The operator of this service makes the accounts. Ask there for one."),
    _("You need an invitation to make an account here."),
    _("This invitation was used, is too old, or is for another mail address."),
    _("This is no mail address."),
    _("Your mail address has an account here. Sign in to it, and link this identity on your account page."),
    _("Too many people sign up at present. Try again later."),
    _("A user name is 3 to 40 small letters, digits, '.', '_' and '-', beginning with a letter."),
    _("This user name is taken. Choose another one."),
    # identity/ssh_public_keys.py
    _("The key is damaged or incomplete: copy the whole line of the .pub file."),
    _("No key was given. Give the one line of a file such as ~/.ssh/id_ed25519.pub."),
    # identity/provider/scopes.py
    _("know who you are"),
    _("see your name and your user name, and look up those of others"),
    _("see your e-mail address"),
    _("see your identities, and look up other users"),
    _("look up other users"),
    _("see which applications you have allowed"),
    _("manage your applications: make them, change them, delete them"),
    _("use your endpoints and credentials: list, transfer, delete and share your data"),
    _("see and manage your groups"),
    _("see your groups"),
    _("start transfers for you at set times, once or repeatedly"),
)
_WAIT = re.compile(r"Too many attempts\. Try again in (\d+) minutes?\.")


def said(text: str) -> str:
    """The sentence in the language that is active."""
    if found := _WAIT.fullmatch(text):
        minutes = int(found[1])
        words = ngettext(
            "Too many attempts. Try again in %(minutes)d minute.",
            "Too many attempts. Try again in %(minutes)d minutes.",
            minutes,
        )
        return words % {"minutes": minutes}
    return gettext(text) if text else ""
