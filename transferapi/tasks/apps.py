from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "transferapi.tasks"
    label = "tasks"

    def ready(self) -> None:
        from endpoints.signals import access_given, pause_rules_changed
        from identity import rotation
        from identity.signals import credential_stored

        from . import mails, pauses, renewal, webhooks

        credential_stored.connect(renewal.stored, dispatch_uid="tasks that wait for it go on")
        pause_rules_changed.connect(pauses.rules_changed, dispatch_uid="tasks are paused, or go on")
        rotation.register(webhooks.SEALED)
        access_given.connect(mails.access_given, dispatch_uid="a mail to whom access is given")
