"""The tag of forms on the account page that remove something."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webui.account.confirmations import CONFIRMATIONS

register = template.Library()


@register.simple_tag
def asks(kind: str, name: object = "") -> SafeString:
    """The attributes of a form that asks before it acts: `dialogs.js` reads them."""
    one = CONFIRMATIONS[kind]
    text = 'data-danger data-confirm="{}" data-confirm-text="{}" data-confirm-act="{}"'
    return format_html(text, one.title_of(str(name)), one.text, one.act)
