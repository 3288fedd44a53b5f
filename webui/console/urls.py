"""The routes of the console."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import audit, health, invitations, rules, sessions, task_list, task_page, users

urlpatterns: list[URLPattern] = [
    path("console", task_list.tasks),
    path("console/tasks", task_list.act),
    path("console/tasks/<uuid:task_id>", task_page.task),
    path("console/rules", rules.rules),
    path("console/health", health.health),
    path("console/users", users.users),
    path("console/users/<uuid:user>/deactivate", users.set_active, {"active": False}),
    path("console/users/<uuid:user>/activate", users.set_active, {"active": True}),
    path("console/users/<uuid:user>/sessions", sessions.sessions),
    path("console/users/<uuid:user>/sessions/end", sessions.end_all),
    path("console/invitations", invitations.page),
    path("console/invitations/<uuid:invitation>/withdraw", invitations.withdraw),
    path("console/audit", audit.audit),
    *(path(f"console/audit.{form}", audit.download, {"form": form}) for form in audit.FORMS),
]
