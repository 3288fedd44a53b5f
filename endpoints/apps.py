from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"

    def ready(self) -> None:
        from identity.vault import rotation

        from .connect import authority

        rotation.register(authority.SEALED)
