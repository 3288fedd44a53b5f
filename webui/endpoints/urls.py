"""The routes of the pages of endpoints."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import activation, changes, endpoint_list, endpoint_page

urlpatterns: list[URLPattern] = [
    path("endpoints", endpoint_list.endpoint_list),
    path("endpoints/new", endpoint_list.new),
    path("endpoints/<uuid:ref>", endpoint_page.endpoint_page),
    path("endpoints/<uuid:ref>/edit", changes.edit),
    path("endpoints/<uuid:ref>/delete", changes.delete),
    path("endpoints/<uuid:ref>/activate", activation.activate),
    path("endpoints/<uuid:ref>/deactivate", changes.deactivate),
    path("endpoints/<uuid:ref>/servers", changes.add_server),
    path("endpoints/<uuid:ref>/servers/<int:server>/remove", changes.remove_server),
    path("endpoints/<uuid:ref>/servers/<int:server>/host-key", changes.accept_host_key),
    path("endpoints/<uuid:ref>/ssh-program", changes.remove_ssh_program),
    path("endpoints/<uuid:ref>/shares", changes.share),
    path("endpoints/<uuid:ref>/rules", changes.add_rule),
    path("endpoints/<uuid:ref>/rules/<uuid:rule>/remove", changes.remove_rule),
    path("endpoints/<uuid:ref>/roles", changes.add_role),
    path("endpoints/<uuid:ref>/roles/<uuid:role>/remove", changes.remove_role),
    path("endpoints/<uuid:ref>/pauses", changes.pause),
    path("endpoints/<uuid:ref>/pauses/<uuid:rule>/remove", changes.resume),
]
