from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"

    def ready(self) -> None:
        from . import sign_in_log
        from .one_time_codes import services as one_time_codes
        from .provider import consents
        from .vault import rotation

        sign_in_log.listen()
        consents.listen()
        rotation.register(one_time_codes.SEALED)
