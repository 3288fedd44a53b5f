"""The routes of the console."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import audit, invitations, task_list, users

_USER = "console/users/<uuid:ref>"

urlpatterns: list[URLPattern] = [
    path("console", task_list.tasks),
    path("console/tasks", task_list.act),
    path("console/tasks/<uuid:task_id>", task_list.task),
    path("console/rules", task_list.rules),
    path("console/health", task_list.health),
    path("console/users", users.users),
    path("console/users/<uuid:user>/deactivate", users.set_active, {"active": False}),
    path("console/users/<uuid:user>/activate", users.set_active, {"active": True}),
    path("console/users/<uuid:user>/sessions", audit.sessions),
    path("console/users/<uuid:user>/sessions/end", audit.end_all),
    path(_USER, users.user_page),
    path(f"{_USER}/edit", users.edit),
    path(f"{_USER}/recovery", users.send_recovery),
    path(f"{_USER}/codes", users.turn_codes_off),
    path(f"{_USER}/passkeys", users.remove_passkeys),
    path(f"{_USER}/identities/<uuid:identity>/unlink", users.unlink),
    path(f"{_USER}/tokens/<uuid:token>/revoke", users.revoke_token),
    path(f"{_USER}/apps/<str:client_id>/withdraw", users.withdraw),
    path(f"{_USER}/end", users.deactivate),
    path(f"{_USER}/begin", users.activate),
    path(f"{_USER}/delete", users.delete),
    path("console/invitations", invitations.page),
    path("console/invitations/<uuid:invitation>/withdraw", invitations.withdraw),
    path("console/audit", audit.audit),
    *(path(f"console/audit.{form}", audit.download, {"form": form}) for form in audit.FORMS),
]
