from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "transferapi.tasks"
    label = "tasks"

    def ready(self) -> None:
        from identity.signals import credential_stored

        from . import renewal

        credential_stored.connect(renewal.stored, dispatch_uid="tasks that wait for it go on")
