from django.apps import AppConfig


class TimersConfig(AppConfig):
    name = "transferapi.timers"
    label = "timers"

    def ready(self) -> None:
        from identity.signals import user_deactivated, user_deleted

        from . import ended_accounts

        user_deactivated.connect(ended_accounts.user_deactivated, dispatch_uid="timers of deactivated users")
        user_deleted.connect(ended_accounts.user_deleted, dispatch_uid="timers of deleted users")
