"""Settings of the tests' OAuth server; its folder comes from the environment."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ["OAUTH_SITE_FOLDER"])
GETCERT_SCOPE = "edu.uiuc.ncsa.myproxy.getcert"

SECRET_KEY = "the tests' OAuth server keeps no secrets from anybody"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.identity_providers.oauth_site.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "oauth.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
LOGIN_URL = "/login"
LOGIN_TEMPLATE = "<form method=post>{% csrf_token %}{{ form }}<input type=submit value=Login></form>"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": [
                ("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN_TEMPLATE}),
                "django.template.loaders.app_directories.Loader",
            ],
            "context_processors": ["django.template.context_processors.request"],
        },
    }
]
OAUTH2_PROVIDER = {
    "SCOPES": {GETCERT_SCOPE: "Certificates in your name"},
    "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https"],
    "PKCE_REQUIRED": True,
    "OIDC_ISS_ENDPOINT": os.environ["OAUTH_SITE_ISSUER"],
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
}
