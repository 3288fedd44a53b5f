from django.apps import AppConfig


class TimersConfig(AppConfig):
    name = "transferapi.timers"
    label = "timers"

    def ready(self) -> None:
        from identity.signals import user_deactivated, user_deleted

        from . import services

        user_deactivated.connect(services.user_deactivated, dispatch_uid="timers of deactivated users")
        user_deleted.connect(services.user_deleted, dispatch_uid="timers of deleted users")
