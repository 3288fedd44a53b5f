"""Portals that others wrote, unmodified: Django sites with social-auth and the portal framework, and a JupyterHub."""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from deploy.stack.free_ports import free_port
from tests.browsers.real_browser import Browser
from tests.instance import Api
from tests.real_programs import SECONDS, Program, allow, application, is_good

pytestmark = pytest.mark.real_clients

#: A Django site in one file, of which only the settings differ: PORTAL is "" or the module of the portal framework.
SITE = """
import os, urllib.request
import django
from django.conf import settings
backend = "globus_portal_framework.auth" if PORTAL else "social_core.backends.globus"
settings.configure(
    SECRET_KEY=SITE_SECRET, DEBUG=False, ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF="__main__", USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "social_django",
        *(["django.contrib.admin", "django.contrib.messages", "globus_portal_framework"] if PORTAL else [])],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        *(["django.contrib.messages.middleware.MessageMiddleware",
           "globus_portal_framework.middleware.ExpiredTokenMiddleware"] if PORTAL else [])],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
        "context_processors": ["django.contrib.auth.context_processors.auth",
            "django.template.context_processors.request", "django.contrib.messages.context_processors.messages"]}}],
    AUTHENTICATION_BACKENDS=[backend + ".GlobusOpenIdConnect", "django.contrib.auth.backends.ModelBackend"],
    SOCIAL_AUTH_GLOBUS_OIDC_ENDPOINT=URL, SOCIAL_AUTH_GLOBUS_KEY=CLIENT_ID, SOCIAL_AUTH_GLOBUS_SECRET=CLIENT_SECRET,
    SOCIAL_AUTH_GLOBUS_SCOPE=["openid", "profile", "email", "urn:globus:auth:scope:transfer.api.globus.org:all",
        *(["urn:globus:auth:scope:search.api.globus.org:search"] if PORTAL else [])],
    SOCIAL_AUTH_GLOBUS_AUTH_EXTRA_ARGUMENTS={"access_type": "offline"}, LOGIN_REDIRECT_URL="/told",
    LOGGING={"version": 1, "disable_existing_loggers": False, "handlers": {"all": {"class": "logging.StreamHandler"}},
        "root": {"handlers": ["all"], "level": "WARNING"}},
    SEARCH_INDEXES={}, SILENCED_SYSTEM_CHECKS=["admin.E403"],
)
django.setup()
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.contrib.auth import logout
from django.http import JsonResponse
from django.urls import include, path
from social_django.utils import load_strategy

def tasks(token):
    asked = urllib.request.Request(URL + "/v0.10/task_list?limit=1", headers={"Authorization": "Bearer " + token})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["DATA"]

def told(request):
    account = request.user.social_auth.get(provider="globus")
    [transfer] = [one for one in account.extra_data["other_tokens"] if "transfer" in one["resource_server"]]
    if PORTAL:
        from globus_portal_framework.gclients import load_transfer_client
        listed = load_transfer_client(request.user).task_list(limit=1)["DATA"]
    else:
        listed = tasks(transfer["access_token"])
    return JsonResponse({"user": request.user.username, "email": request.user.email, "uid": account.uid,
        "tasks": len(listed), "token": transfer["access_token"], "first": account.extra_data["access_token"]})

def renew(request):
    account = request.user.social_auth.get(provider="globus")
    account.refresh_token(load_strategy())
    return JsonResponse({"first": account.extra_data["access_token"]})

def leave(request):
    account = request.user.social_auth.get(provider="globus")
    backend = account.get_backend_instance(load_strategy())
    for one in [account.extra_data["access_token"], account.extra_data["refresh_token"]]:
        urllib.request.urlopen(URL + "/v2/oauth2/token/revoke", ("token=" + one).encode()).read()
    logout(request)
    return JsonResponse({"left": True})

urlpatterns = [path("told", told), path("renew", renew), path("leave", leave),
    path("", include("social_django.urls", namespace="social"))]
if PORTAL:
    urlpatterns.append(path("", include("globus_portal_framework.urls")))
call_command("migrate", verbosity=0)
from wsgiref.simple_server import WSGIRequestHandler, make_server
WSGIRequestHandler.log_message = lambda *_: None
server = make_server("127.0.0.1", int(PORT), get_wsgi_application())
print("http://127.0.0.1:" + PORT)
server.serve_forever()
"""


def site(service: Api, home: Path, name: str, portal: str) -> Program:
    port = free_port()
    callback = f"http://127.0.0.1:{port}/complete/globus/"
    client, secret = application(service, name, callback)
    given = {"client_id": client, "client_secret": secret, "site_secret": secrets.token_hex()}
    return Program(name, SITE, service, home, {"port": str(port), "portal": portal, **given})


def test_a_django_site_with_social_auth(service: Api, tmp_path: Path) -> None:
    with site(service, tmp_path, "social", "") as program:
        browser = signed_in(program.address(), service, program)
        found = json.loads(browser.text)
        assert found["tasks"] == 1
        browser.open("/renew")
        renewed = json.loads(browser.text)["first"]
        assert renewed != found["first"]
        assert is_good(service, renewed, "/v2/oauth2/userinfo")
        browser.open("/leave")
        assert not is_good(service, renewed, "/v2/oauth2/userinfo")


def test_the_portal_framework(service: Api, tmp_path: Path) -> None:
    """It asks for the scope of Search too, and takes back all its tokens when the user signs out."""
    with site(service, tmp_path, "portal", "yes") as program:
        browser = signed_in(program.address(), service, program)
        found = json.loads(browser.text)
        assert found["tasks"] == 1
        assert is_good(service, found["token"])
        browser.open("/logout/?next=/login/globus/")
        assert not is_good(service, found["token"])
        assert not is_good(service, found["first"], "/v2/oauth2/userinfo")


def signed_in(address: str, service: Api, program: Program) -> Browser:
    """From the button of the site to its page for users."""
    browser = Browser()
    try:
        allow(f"{address}/login/globus/", service, browser, data={})
    except urllib.error.HTTPError as error:
        pytest.fail(f"{error} {error.url} {error.read().decode()[:500]}\n{program.log()}")
    assert browser.address == f"{address}/told", browser.text
    return browser


# ---- JupyterHub

#: No proxy in front: the test asks JupyterHub itself. Everything else is as an operator writes it.
HUB_CONFIG = """
import sys
from jupyterhub.proxy import Proxy
from oauthenticator.globus import GlobusOAuthenticator

class NoProxy(Proxy):
    should_start = False
    routes = {}
    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}
    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)
    async def get_all_routes(self):
        return dict(self.routes)

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.bind_url = "http://127.0.0.1:%(front)s"
c.JupyterHub.hub_bind_url = "%(hub)s"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie"
c.JupyterHub.authenticator_class = GlobusOAuthenticator
c.JupyterHub.spawner_class = "simple"
c.Spawner.cmd = [sys.executable, "%(notebook)s"]
c.Spawner.environment = {"WAYBILL_URL": "%(url)s"}
c.SimpleLocalProcessSpawner.home_dir_template = "%(home)s/{username}"
c.JupyterHub.shutdown_on_logout = True
c.GlobusOAuthenticator.client_id = "%(client)s"
c.GlobusOAuthenticator.client_secret = "%(secret)s"
c.GlobusOAuthenticator.oauth_callback_url = "%(hub)s/hub/oauth_callback"
c.GlobusOAuthenticator.authorize_url = "%(url)s/v2/oauth2/authorize"
c.GlobusOAuthenticator.token_url = "%(url)s/v2/oauth2/token"
c.GlobusOAuthenticator.userdata_url = "%(url)s/v2/oauth2/userinfo"
c.GlobusOAuthenticator.revocation_url = "%(url)s/v2/oauth2/token/revoke"
c.GlobusOAuthenticator.globus_groups_url = "%(url)s/v2/groups/my_groups"
c.GlobusOAuthenticator.allow_all = True
c.GlobusOAuthenticator.enable_auth_state = True
c.GlobusOAuthenticator.revoke_tokens_on_logout = True
"""
HUB = """
import sys
from jupyterhub.app import main
sys.argv = ["jupyterhub", "-f", "jupyterhub_config.py"]
main()
"""
#: The user's server: it lists tasks with the token that JupyterHub has given it.
NOTEBOOK = """
import base64, http.server, json, os, pickle, urllib.parse, urllib.request
data = pickle.loads(base64.b64decode(os.environ["GLOBUS_DATA"]))
token = data["tokens"]["transfer.api.globus.org"]["access_token"]
asked = urllib.request.Request(
    os.environ["WAYBILL_URL"] + "/v0.10/task_list?limit=1", headers={"Authorization": "Bearer " + token}
)
with urllib.request.urlopen(asked) as answer:
    tasks = json.load(answer)["DATA"]
found = {"servers": sorted(data["tokens"]), "tasks": len(tasks), "token": token}
with open("found.json.part", "w") as file:
    json.dump(found, file)
os.rename("found.json.part", "found.json")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
place = urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
http.server.HTTPServer((place.hostname, place.port), Handler).serve_forever()
"""


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/hub/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_jupyterhub_gives_notebooks_the_tokens_of_their_users(service: Api, tmp_path: Path) -> None:
    hub = f"http://127.0.0.1:{free_port()}"
    client, secret = application(service, "JupyterHub", f"{hub}/hub/oauth_callback")
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    values = {
        "front": free_port(), "hub": hub, "url": service.url, "client": client, "secret": secret,
        "notebook": tmp_path / "notebook.py", "home": tmp_path,
    }  # fmt: skip
    (tmp_path / "jupyterhub_config.py").write_text(HUB_CONFIG % values)
    key = {"JUPYTERHUB_CRYPT_KEY": secrets.token_hex(32)}
    with Program("hub", HUB, service, tmp_path, more=key) as program:
        browser = Browser()
        end = time.monotonic() + SECONDS
        while not answers(hub):
            assert time.monotonic() < end, program.log()
            time.sleep(0.2)
        allow(f"{hub}/hub/oauth_login?next=%2Fhub%2Fhome", service, browser)
        assert f"/hub/spawn/{service.connection['username'].partition('@')[0]}" in browser.text
        # Without a proxy in front, JupyterHub's redirect to the server of the user comes back to itself.
        with pytest.raises(urllib.error.HTTPError, match="500"):
            browser.open(f"{hub}/hub/spawn")
        name = service.connection["username"].partition("@")[0]
        result = tmp_path / name / "found.json"
        while not result.exists():
            assert time.monotonic() < end, f"{browser.address}\n{program.log()}"
            time.sleep(0.2)
        found = json.loads(result.read_text())
        assert found["servers"] == ["transfer.api.globus.org"]
        assert found["tasks"] == 1
        assert is_good(service, found["token"])
        browser.open(f"{hub}/hub/logout")
        assert not is_good(service, found["token"])
