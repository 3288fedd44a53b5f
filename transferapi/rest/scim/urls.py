"""The routes of SCIM, below `/scim/v2/`."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import views

urlpatterns: list[URLPattern] = [
    path("scim/v2/ServiceProviderConfig", views.service_provider_config),
    path("scim/v2/ResourceTypes", views.resource_types),
    path("scim/v2/ResourceTypes/<str:ref>", views.resource_types),
    path("scim/v2/Schemas", views.schemas),
    path("scim/v2/Schemas/<str:ref>", views.schemas),
    path("scim/v2/Users", views.all_users),
    path("scim/v2/Users/<str:ref>", views.one_user),
    path("scim/v2/Groups", views.all_groups),
    path("scim/v2/Groups/<str:ref>", views.one_group),
    path("scim/v2/<path:ref>", views.nowhere),
]
