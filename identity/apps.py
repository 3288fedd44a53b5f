from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"

    def ready(self) -> None:
        from . import sign_in_log
        from .one_time_codes import services as one_time_codes
        from .vault import rotation

        sign_in_log.listen()
        rotation.register(one_time_codes.SEALED)
