from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"

    def ready(self) -> None:
        from . import one_time_codes, sign_in_log
        from .provider import consents
        from .vault import rotation

        sign_in_log.listen()
        consents.listen()
        rotation.register(one_time_codes.SEALED)
