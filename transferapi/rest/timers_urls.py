"""The routes of the Timers API."""

from __future__ import annotations

from django.urls import path

from . import timers

J = "jobs/<str:timer>"

urlpatterns = [
    path("v2/timer", timers.TimerCreate.as_view()),
    path("jobs/", timers.TimerList.as_view()),
    path(J, timers.TimerDetail.as_view()),
    path(f"{J}/pause", timers.TimerPause.as_view()),
    path(f"{J}/resume", timers.TimerResume.as_view()),
]
