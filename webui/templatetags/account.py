"""The tag of forms that ask before they act."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webui.account.confirmations import CONFIRMATIONS, Confirmation

register = template.Library()


@register.simple_tag
def asks(about: str | Confirmation, name: object = "") -> SafeString:
    """The attributes of the form: `dialogs.js` reads them. about: of the account page, the kind of the confirmation."""
    one = CONFIRMATIONS[about] if isinstance(about, str) else about
    text = 'data-danger data-confirm="{}" data-confirm-text="{}" data-confirm-act="{}"'
    return format_html(text, one.title_of(str(name)), one.text, one.act)
