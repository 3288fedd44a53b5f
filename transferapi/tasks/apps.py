from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "transferapi.tasks"
    label = "tasks"
