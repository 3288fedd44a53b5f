"""The routes of the console."""

from __future__ import annotations

from django.urls import URLPattern, path

from . import health, rules, task_list, task_page, users

urlpatterns: list[URLPattern] = [
    path("console", task_list.tasks),
    path("console/tasks", task_list.act),
    path("console/tasks/<uuid:task_id>", task_page.task),
    path("console/rules", rules.rules),
    path("console/health", health.health),
    path("console/users", users.users),
    path("console/users/<uuid:user>/deactivate", users.set_active, {"active": False}),
    path("console/users/<uuid:user>/activate", users.set_active, {"active": True}),
]
