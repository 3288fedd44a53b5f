from django.apps import AppConfig


class TimersConfig(AppConfig):
    name = "transferapi.timers"
    label = "timers"
