"""The tags of the Transfer page without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

from endpoints.gridftp.facts import Entry
from webui.transfer import panes as all_panes
from webui.transfer import views
from webui.transfer.panes import Pane

register = template.Library()
register.filter("item_value", views.item_value)


@register.simple_tag
def folder_address(panes: Sequence[Pane], pane: Pane, entry: Entry) -> str:
    """The address of the page with this folder in this pane."""
    return all_panes.address(panes, plain="1", **{f"{pane.side}_path": f"{pane.path}{entry.name}/"})
