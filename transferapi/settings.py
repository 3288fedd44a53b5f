"""Django's settings. What differs between two installations comes from the environment: see `config.py`."""

from __future__ import annotations

from collections.abc import Mapping
from logging import LogRecord
from typing import Any
from urllib.parse import urlsplit

from identity.oauth_clients import Client, clients_of
from identity.provider import scopes
from identity.vault_keys import Key, parse_keys

from . import mail_settings
from .config import broker_url, database, load_or_exit

CONFIG = load_or_exit()

#: Empty when not configured: Django then refuses the first thing that needs it.
SECRET_KEY = CONFIG.secret_key.value if CONFIG.secret_key else ""
DEBUG = CONFIG.debug
ALLOWED_HOSTS = [*CONFIG.hosts, *filter(None, [urlsplit(CONFIG.public_url).hostname])]

#: Not `rest_framework` and `drf_spectacular`: as apps they bring only pages, of which we show none, and 0.2 s.
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "oauth2_provider",
    "identity",
    "endpoints",
    "transferapi.tasks",
    "transferapi.timers",
    "webui",
]
MIDDLEWARE = [
    "transferapi.rest.front.FrontServers",
    "transferapi.rest.confined_answers.ConfinedAnswers",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "transferapi.urls"
WSGI_APPLICATION = "transferapi.wsgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

#: Without a DATABASE_URL the first connection fails, with an error that names the reason.
DATABASES: dict[str, dict[str, Any]] = {
    "default": database(
        CONFIG.database_url.value if CONFIG.database_url else "postgresql:///waybill?host=/DATABASE_URL-is-not-set"
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = CONFIG.redis_url.value if CONFIG.redis_url else "unix:///REDIS_URL-is-not-set"
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"serializer": "identity.plain_values.PlainValues"},
    }
}

#: The doorbell. Messages are wake-ups that nobody waits for: no result store, no retries that hold up a request.
CELERY_BROKER_URL = broker_url(REDIS_URL)

AUTH_USER_MODEL = "identity.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LOGIN_URL = "/signin"
CSRF_FAILURE_VIEW = "webui.problems.csrf_failed"

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en-us"

#: Forms of pages, which are read before anybody has signed in, are small, and nobody sends files. Documents of the API
#: have bounds of their own (`transferapi.rest.parsing`). Our web server reads so much of a body without asking us.
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 << 10
FILE_UPLOAD_HANDLERS = ["transferapi.rest.uploads.NoFiles"]

#: The keys of the vault of credentials, the newest first; none: it keeps nothing. What needs no credential still works.
VAULT_KEYS: tuple[Key, ...] = parse_keys(CONFIG.vault_key.value) if CONFIG.vault_key else ()
VAULT_KEY_FILE = CONFIG.vault_key_file
#: The folder of the authorities that we trust, and whom a (limited) proxy of a user may be given to.
CERTIFICATES = CONFIG.certificates
DELEGATE_TO = CONFIG.delegate_to
MYPROXY_SECONDS = min(CONFIG.myproxy_seconds, CONFIG.operation_seconds)

#: What the address gate lets through although it is not globally reachable: servers of endpoints, and webhooks.
ALLOW_TARGETS = CONFIG.allow_targets
ALLOW_WEBHOOKS = CONFIG.allow_webhooks
PUBLIC_URL = CONFIG.public_url
#: How the OAuth servers of endpoints know us, by their addresses.
OAUTH_CLIENTS: Mapping[str, Client] = clients_of(CONFIG.oauth_clients.value) if CONFIG.oauth_clients else {}

#: The toolkit's own: rows of ours refer to them, and migrations to these settings.
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "oauth2_provider.AccessToken"  # noqa: S105

#: The OAuth2 server that we are (`identity.provider`). Tokens, codes and secrets are kept as digests only (RFC 9700).
OAUTH2_PROVIDER: dict[str, Any] = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": CONFIG.oidc_key.value if CONFIG.oidc_key else "",
    "OIDC_ISS_ENDPOINT": CONFIG.public_url,
    "OAUTH2_VALIDATOR_CLASS": "identity.provider.validator.Validator",
    "CLIENT_ID_GENERATOR_CLASS": "identity.provider.names.ClientId",
    "ACCESS_TOKEN_GENERATOR": "identity.provider.names.access_token",
    "REFRESH_TOKEN_GENERATOR": "identity.provider.names.refresh_token",
    "ACCESS_TOKEN_EXPIRE_SECONDS": 48 * 3600,
    "ID_TOKEN_EXPIRE_SECONDS": 48 * 3600,
    #: After the access token has expired, which every refresh renews.
    "REFRESH_TOKEN_EXPIRE_SECONDS": 180 * 24 * 3600,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": 300,
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "SCOPES": {name: scope.words for name, scope in scopes.KNOWN.items()},
    "DEFAULT_SCOPES": [scopes.DEFAULT],
    **{
        f"COMPLIANT_BCP_RFC9700_{rule}": True
        for rule in (
            "IMPLICIT_GRANT", "PASSWORD_GRANT", "PKCE_METHOD", "ACCESS_TOKEN_TRANSPORT", "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE", "REFRESH_TOKEN", "REDIRECT_URI_SCHEME", "REDIRECT_URI_MATCHING", "PKCE_REQUIRED",
        )
    },
}  # fmt: skip
#: Requests a second of one user.
RATE_LIMIT = CONFIG.rate_limit
#: Whose word is believed about addresses and https, and by which secret about client certificates (`rest.front`).
FRONT_SERVERS = CONFIG.front_servers
FRONT_SECRET = CONFIG.front_secret
#: Seconds for an operation on an endpoint, which leaves some for the answer.
OPERATION_SECONDS = float(CONFIG.operation_seconds)
#: How much one request, one task and one user may ask for.
LIMITS = CONFIG.limits

#: EMAIL_BACKEND and what belongs to it.
globals().update(mail_settings.parse(CONFIG.mail.value if CONFIG.mail else "console:"))
DEFAULT_FROM_EMAIL = CONFIG.mail_from

REST_FRAMEWORK: dict[str, Any] = {
    "EXCEPTION_HANDLER": "transferapi.rest.errors.handle",
    "DEFAULT_SCHEMA_CLASS": "transferapi.rest.schemas.Described",
    "DEFAULT_AUTHENTICATION_CLASSES": ["transferapi.rest.auth.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Waybill: the Transfer API",
    "DESCRIPTION": "Moves research data between GridFTP endpoints.",
    "VERSION": "0.10",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["transferapi.rest.schemas.complete"],
}

_IS_HTTPS = CONFIG.public_url.startswith("https:")
#: Rows of the database and nowhere else; a session ends 12 h after its user signed in.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 12 * 60 * 60
#: Cookies know no ports, so names of our own; __Host- keeps sites beside us from setting them (RFC 6265bis 4.1.3.2).
SESSION_COOKIE_NAME = "__Host-waybill-session" if _IS_HTTPS else "waybill-session"
CSRF_COOKIE_NAME = "__Host-waybill-csrf" if _IS_HTTPS else "waybill-csrf"
#: Says that its user has signed in with this browser before (`identity.signing_in`).
DEVICE_COOKIE_NAME = "__Host-waybill-device" if _IS_HTTPS else "waybill-device"
SESSION_COOKIE_SECURE = _IS_HTTPS
CSRF_COOKIE_SECURE = _IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
#: Pages of ours name it as their origin, also where a server in front that we do not know ends TLS.
CSRF_TRUSTED_ORIGINS = [f"https://{urlsplit(CONFIG.public_url).netloc}"] if _IS_HTTPS else []
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_HSTS_SECONDS = 31536000 if _IS_HTTPS else 0
#: A server in front that ends TLS says so by this header; `rest.front` takes it from all others.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _IS_HTTPS and not CONFIG.tls_certificate else None

#: What `check --deploy` would have otherwise, and why not:
SILENCED_SYSTEM_CHECKS = [
    # Redirect addresses with http are those of programs on the user's own machine (`identity.provider.applications`).
    "oauth2_provider.E003",
    # A server in front sends browsers from http to https; where we end TLS ourselves nobody speaks http.
    "security.W008",
    # Other names below ours, and lists in browsers, are their operator's decision.
    "security.W005",
    "security.W021",
]
if not _IS_HTTPS and urlsplit(CONFIG.public_url).hostname in ("127.0.0.1", "localhost", "::1"):
    # Nothing leaves this machine: no HSTS, and cookies that http may carry.
    SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W012", "security.W016"]


def _without_traceback(record: LogRecord) -> bool:
    """Of what strangers send wrongly (a host name, a form that is too long) one line is enough."""
    if record.name.startswith("django.security."):
        record.exc_info = record.exc_text = None
    return True


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "filters": {"short": {"()": "django.utils.log.CallbackFilter", "callback": _without_traceback}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["short"]}},
    "root": {"handlers": ["stderr"], "level": CONFIG.log_level},
    "loggers": {
        "django": {"handlers": [], "propagate": True, "level": CONFIG.log_level},
        # At DEBUG they show codes and tokens.
        "oauthlib": {"handlers": [], "propagate": True, "level": "WARNING"},
        "oauth2_provider": {"handlers": [], "propagate": True, "level": "WARNING"},
    },
}
