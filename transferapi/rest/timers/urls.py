"""The routes of the Timers API."""

from __future__ import annotations

from django.urls import path

from . import views

J = "jobs/<str:timer>"

urlpatterns = [
    path("v2/timer", views.TimerCreate.as_view()),
    path("jobs/", views.TimerList.as_view()),
    path(J, views.TimerDetail.as_view()),
    path(f"{J}/pause", views.TimerPause.as_view()),
    path(f"{J}/resume", views.TimerResume.as_view()),
]
