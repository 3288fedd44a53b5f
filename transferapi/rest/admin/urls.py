"""The routes of what staff administer."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import views

U = "v2/api/users/<str:identity>"

urlpatterns: list[URLPattern] = [
    path("v2/api/users", views.Users.as_view()),
    path(U, views.UserDetail.as_view()),
    path(f"{U}/deactivate", views.UserActivity.as_view()),
    path(f"{U}/activate", views.UserActivity.as_view(active=True)),
    path(f"{U}/sessions", views.UserSessions.as_view()),
    path("v2/api/invitations", views.Invitations.as_view()),
    path("v2/api/invitations/<str:invitation>", views.InvitationDetail.as_view()),
    path("v2/api/audit", views.Audit.as_view()),
    path("v2/api/audit/export", views.AuditExport.as_view()),
]
