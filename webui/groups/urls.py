"""The routes of the pages of groups."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import group_list, group_page

urlpatterns: list[URLPattern] = [
    path("groups", group_list.group_list),
    path("groups/<uuid:ref>", group_page.group_page),
    path("groups/<uuid:ref>/edit", group_page.edit),
    path("groups/<uuid:ref>/members", group_page.member),
    path("groups/<uuid:ref>/delete", group_page.delete),
]
