"""`{% asset "waybill.css" %}`: the address of a file that pages load."""

from __future__ import annotations

from django import template

from webui import assets

register = template.Library()
register.simple_tag(assets.address, name="asset")
