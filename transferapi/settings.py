"""Django's settings. Values that differ between installations come from the environment: see `config/sections.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from identity.federation.providers import Provider, parse_providers
from identity.issuers.oauth_clients import OAuthClient, clients_of
from identity.provider import scopes
from identity.vault.keys import VaultKey, parse_keys

from .config import load_or_exit
from .config import mail as mail_settings
from .config.servers import broker_options, broker_tls, broker_url, database
from .logs.setup import configuration

CONFIG = load_or_exit()

#: Empty where it is not configured: Django then refuses the first use.
SECRET_KEY = CONFIG.secret_key.value if CONFIG.secret_key else ""
DEBUG = CONFIG.debug
ALLOWED_HOSTS = [*CONFIG.hosts, *filter(None, [urlsplit(CONFIG.public_url).hostname])]

#: Without `rest_framework` and `drf_spectacular`: as apps they add only pages, which are not used, and 0.2 s.
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
    "transferapi.rest.single_slashes.SingleSlashes",
    "transferapi.rest.http.trusted_proxies.TrustedProxies",
    "transferapi.rest.health.HealthPaths",
    "transferapi.rest.metrics.requests.RequestMetrics",
    "transferapi.rest.access_log.AccessLog",
    "transferapi.rest.trace_requests.TraceRequests",
    "transferapi.rest.cross_origin.CrossOrigin",
    "transferapi.rest.http.security_headers.SecurityHeaders",
    "transferapi.rest.http.thread_shares.ThreadShares",
    "transferapi.rest.http.request_bodies.KnownLengths",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "transferapi.rest.http.authentication.SessionProof",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webui.language.PageLanguage",
    "webui.problems.MaintenanceMiddleware",
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
#: Connections of those that PostgreSQL allows which workers leave to the web server.
DATABASE_RESERVE = CONFIG.database_reserve
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = CONFIG.redis_url.value if CONFIG.redis_url else "unix:///REDIS_URL-is-not-set"
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        # As a list: Django splits a text at commas, which passwords and lists of Sentinels have.
        "LOCATION": [REDIS_URL],
        "OPTIONS": {
            "serializer": "identity.cache_serializer.JsonSerializer",
            "pool_class": "transferapi.rest.metrics.requests.CountingPool",
        },
    }
}

#: The doorbell. Messages only wake workers: there is no result store, and no retry that delays a request.
CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_USE_SSL = broker_tls(REDIS_URL)
#: The times are for workers: without them one that stops would wait for a Redis that hangs.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **broker_options(REDIS_URL),
    "socket_connect_timeout": 2.0,
    "socket_timeout": 5.0,
}

AUTH_USER_MODEL = "identity.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "identity.password_rules.NotOfKnownWords"},
]

LOGIN_URL = "/signin"
CSRF_FAILURE_VIEW = "webui.problems.csrf_failed"

USE_TZ = True
TIME_ZONE = "UTC"
#: Pages and mails have languages (`identity.languages`); the API speaks English.
USE_I18N = True
LOCALE_PATHS = [str(Path(__file__).parents[1] / folder / "locale") for folder in ("webui", "transferapi/tasks")]
LANGUAGE_CODE = "en-us"

#: The limit for forms of pages, which are read before the user has signed in and hold no files. Documents of the API
#: have their own limits (`transferapi.rest.http.parsing`).
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 << 10
FILE_UPLOAD_HANDLERS = ["transferapi.rest.http.uploads.NoFiles"]

#: The keys of the vault of credentials, the newest first. Without keys, only features without credentials work.
VAULT_KEYS: tuple[VaultKey, ...] = parse_keys(CONFIG.vault_key.value) if CONFIG.vault_key else ()
VAULT_KEY_FILE = CONFIG.vault_key_file
#: The folder of the trusted authorities, and the hosts that may get a (limited) proxy of a user.
CERTIFICATES = CONFIG.certificates
DELEGATE_TO = CONFIG.delegate_to
MYPROXY_SECONDS = min(CONFIG.myproxy_seconds, CONFIG.operation_seconds)

#: Seconds for which a server may be silent while a task lists a folder.
LISTING_SECONDS = float(CONFIG.listing_seconds)
#: Private addresses that the address gate allows: for servers of endpoints, and for webhooks.
ALLOW_TARGETS = CONFIG.allow_targets
ALLOW_WEBHOOKS = CONFIG.allow_webhooks
ALLOW_PROVIDERS = CONFIG.allow_providers
#: The providers by which users sign in, by name.
PROVIDERS: Mapping[str, Provider] = parse_providers(CONFIG.providers.value) if CONFIG.providers else {}
MYPROXY_SIGN_IN = CONFIG.myproxy_sign_in
#: Institutions (SAML 2.0): their metadata, the keys that sign these, and our own key.
SAML_METADATA = CONFIG.saml_metadata
SAML_CERTIFICATE = CONFIG.saml_certificate
SAML_KEY = CONFIG.saml_key
SAML_SIGN_REQUESTS = CONFIG.saml_sign_requests
PUBLIC_URL = CONFIG.public_url
#: The port of the ssh shell, for commands that pages show.
SSH_PORT = CONFIG.ssh_port
#: The domain of the names of users (`identity.user_names`); "": the host of PUBLIC_URL.
IDENTITY_DOMAIN = CONFIG.domain
#: The rule of sign-up (`identity.sign_up`).
SIGN_UP = CONFIG.sign_up
#: Days for which the audit log is kept; 0: for ever.
AUDIT_DAYS = CONFIG.audit_days
#: Days for which the record of a completed task is kept; 0: for ever.
TASK_DAYS = CONFIG.task_days
#: Files that pass through a worker process itself: octets a second, and how many at a time.
STREAM_RATE = CONFIG.stream_rate
STREAMS = CONFIG.streams
#: Whether a password may be given for a plain FTP server.
CLEAR_PASSWORDS = CONFIG.clear_passwords
#: Where web servers and workers reach the relay.
RELAY = CONFIG.relay
#: Octets a second that a relay passes on for a user; 0: no limit. None if it has no ports for servers.
RELAY_SMALL_FILES_RATE: int | None = CONFIG.relay_rate if CONFIG.relay_data else None
#: The registrations of this service at the OAuth servers of endpoints, by their addresses.
OAUTH_CLIENTS: Mapping[str, OAuthClient] = clients_of(CONFIG.oauth_clients.value) if CONFIG.oauth_clients else {}

#: The models of Django OAuth Toolkit: our rows refer to them, and migrations to these settings.
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "oauth2_provider.AccessToken"  # noqa: S105

#: The keys of identity tokens; the file, if any, is read again when it changes (`identity.provider.openid`).
OIDC_KEY_FILE = CONFIG.oidc_key_file
#: Our own OAuth2 server (`identity.provider`). Tokens, codes and secrets are kept as digests only (RFC 9700).
OAUTH2_PROVIDER: dict[str, Any] = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": CONFIG.oidc_key.value if CONFIG.oidc_key else "",
    "OIDC_ISS_ENDPOINT": CONFIG.public_url,
    "OAUTH2_VALIDATOR_CLASS": "identity.provider.validator.Validator",
    "CLIENT_ID_GENERATOR_CLASS": "identity.provider.token_values.ClientId",
    "ACCESS_TOKEN_GENERATOR": "identity.provider.token_values.access_token",
    "REFRESH_TOKEN_GENERATOR": "identity.provider.token_values.refresh_token",
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
#: Our TLS key in the setup keys of agents (`endpoints.connect.setup_keys`).
TLS_CERTIFICATE = CONFIG.tls_certificate
CONNECT_PINS = CONFIG.connect_pins
#: Requests a second of one user.
RATE_LIMIT = CONFIG.rate_limit
#: Requests that one process of the web server works on at a time.
WEB_THREADS = CONFIG.web_threads
#: The front servers whose headers about addresses and https are trusted, and the secret for client certificates.
FRONT_SERVERS = CONFIG.front_servers
FRONT_SECRET = CONFIG.front_secret
#: Where those are who watch the service: they see why it is not ready.
MONITORS = CONFIG.monitors
METRICS_TOKEN = CONFIG.metrics_token
#: Where the front server ends TLS, as host:port; "" if there is none.
FRONT_TLS = CONFIG.front_tls
#: Seconds for an operation on an endpoint, which leaves time for the response.
OPERATION_SECONDS = float(CONFIG.operation_seconds)
#: The collector of traces, its headers, and the part of submissions that is traced; "": no traces.
TRACES = CONFIG.traces
TRACES_HEADERS = CONFIG.traces_headers
TRACES_RATIO = CONFIG.traces_ratio
#: Limits of one request, one task and one user.
LIMITS = CONFIG.limits

#: EMAIL_BACKEND and its settings.
globals().update(mail_settings.parse(CONFIG.mail.value if CONFIG.mail else "console:"))
DEFAULT_FROM_EMAIL = CONFIG.mail_from

REST_FRAMEWORK: dict[str, Any] = {
    "EXCEPTION_HANDLER": "transferapi.rest.http.errors.handle",
    "DEFAULT_SCHEMA_CLASS": "transferapi.rest.openapi.description.Described",
    "DEFAULT_AUTHENTICATION_CLASSES": ["transferapi.rest.http.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Waybill: the Transfer API",
    "DESCRIPTION": "Moves research data between GridFTP endpoints.",
    "VERSION": "0.10",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["transferapi.rest.openapi.description.complete"],
}

_IS_HTTPS = CONFIG.public_url.startswith("https:")
#: Sessions are rows of the database only; a session ends 12 h after its user signed in.
SESSION_ENGINE = "identity.sessions"
SESSION_COOKIE_AGE = 12 * 60 * 60
#: Cookies do not distinguish ports, hence own names; __Host- keeps neighboring sites from setting them
#: (RFC 6265bis 4.1.3.2).
SESSION_COOKIE_NAME = "__Host-waybill-session" if _IS_HTTPS else "waybill-session"
CSRF_COOKIE_NAME = "__Host-waybill-csrf" if _IS_HTTPS else "waybill-csrf"
#: A cookie of browsers in which a user has signed in before (`identity.password_sign_in`).
DEVICE_COOKIE_NAME = "__Host-waybill-device" if _IS_HTTPS else "waybill-device"
SESSION_COOKIE_SECURE = _IS_HTTPS
CSRF_COOKIE_SECURE = _IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
#: The origin of our pages, also where an unknown front server terminates TLS.
CSRF_TRUSTED_ORIGINS = [f"https://{urlsplit(CONFIG.public_url).netloc}"] if _IS_HTTPS else []
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_HSTS_SECONDS = 31536000 if _IS_HTTPS else 0
#: The header by which a front server reports https; it is removed from requests of all other clients.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _IS_HTTPS and not CONFIG.tls_certificate else None

#: Checks of `check --deploy` that are silenced, with the reasons:
SILENCED_SYSTEM_CHECKS = [
    # Redirect addresses with http are those of programs on the user's own machine (`identity.provider.applications`).
    "oauth2_provider.E003",
    # A front server redirects browsers from http to https; where we terminate TLS, there is no http.
    "security.W008",
    # Subdomains, and preload lists of browsers, are the operator's decision.
    "security.W005",
    "security.W021",
]
if not _IS_HTTPS and urlsplit(CONFIG.public_url).hostname in ("127.0.0.1", "localhost", "::1"):
    # Only local use: no HSTS, and cookies that may be sent by http.
    SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W012", "security.W016"]

LOGGING: dict[str, Any] = configuration(CONFIG.log_level, CONFIG.log_format)
