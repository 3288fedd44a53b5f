from django.apps import AppConfig


class WebuiConfig(AppConfig):
    name = "webui"

    def ready(self) -> None:
        # Registers what `check --deploy` says of our own settings.
        from transferapi.rest import checks  # noqa: F401
