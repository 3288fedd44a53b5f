from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"

    def ready(self) -> None:
        from identity.signals import user_deleted
        from identity.vault import rotation

        from .connect import authority
        from .sharing import ended_accounts

        rotation.register(authority.SEALED)
        user_deleted.connect(ended_accounts.user_deleted, dispatch_uid="endpoints of deleted users")
