from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"

    def ready(self) -> None:
        from . import audit, one_time_codes
        from .provider import consents
        from .vault import rotation

        audit.listen()
        consents.listen()
        rotation.register(one_time_codes.SEALED)
