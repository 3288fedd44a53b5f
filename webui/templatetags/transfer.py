"""The tags of the Transfer page without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

from endpoints.gridftp.facts import Entry
from webui import transfer
from webui.transfer import Pane

register = template.Library()
register.filter("item_value", transfer.item_value)


@register.simple_tag
def folder_address(panes: Sequence[Pane], pane: Pane, entry: Entry) -> str:
    """The address of the page with this folder in this pane."""
    return transfer.pane_address(panes, plain="1", **{f"{pane.side}_path": f"{pane.path}{entry.name}/"})
