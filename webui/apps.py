from django.apps import AppConfig


class WebuiConfig(AppConfig):
    name = "webui"

    def ready(self) -> None:
        # Registers the checks of our own settings for `check --deploy`.
        from transferapi.rest.http import checks  # noqa: F401
