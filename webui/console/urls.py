"""The routes of the console."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import audit, health, invitations, rules, sessions, task_list, user_changes, user_page, users

_USER = "console/users/<uuid:ref>"

urlpatterns: list[URLPattern] = [
    path("console", task_list.tasks),
    path("console/tasks", task_list.act),
    path("console/tasks/<uuid:task_id>", task_list.task),
    path("console/rules", rules.rules),
    path("console/health", health.health),
    path("console/users", users.users),
    path("console/users/<uuid:user>/deactivate", users.set_active, {"active": False}),
    path("console/users/<uuid:user>/activate", users.set_active, {"active": True}),
    path("console/users/<uuid:user>/sessions", sessions.sessions),
    path("console/users/<uuid:user>/sessions/end", sessions.end_all),
    path(_USER, user_page.user_page),
    path(f"{_USER}/edit", user_changes.edit),
    path(f"{_USER}/recovery", user_changes.send_recovery),
    path(f"{_USER}/codes", user_changes.turn_codes_off),
    path(f"{_USER}/passkeys", user_changes.remove_passkeys),
    path(f"{_USER}/identities/<uuid:identity>/unlink", user_changes.unlink),
    path(f"{_USER}/tokens/<uuid:token>/revoke", user_changes.revoke_token),
    path(f"{_USER}/apps/<str:client_id>/withdraw", user_changes.withdraw),
    path(f"{_USER}/end", user_changes.deactivate),
    path(f"{_USER}/begin", user_changes.activate),
    path(f"{_USER}/delete", user_changes.delete),
    path("console/invitations", invitations.page),
    path("console/invitations/<uuid:invitation>/withdraw", invitations.withdraw),
    path("console/audit", audit.audit),
    *(path(f"console/audit.{form}", audit.download, {"form": form}) for form in audit.FORMS),
]
