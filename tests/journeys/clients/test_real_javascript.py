"""The JavaScript SDK, as published, in a page of another origin in a real Chromium; and a page of no application."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browsers.chromium import ENTER, Chromium
from tests.instance import Api
from tests.real_clients import JAVASCRIPT
from tests.real_programs import application, is_good
from tests.waiting import eventually

pytestmark = [pytest.mark.real_clients, pytest.mark.timeout(240)]

#: The page of a portal. `step(name, action)` writes the result of an action to the page, for the test.
PAGE = """<!doctype html><meta charset=utf-8><title>Portal</title><main></main>
<script src="/globus.js"></script>
<script>
for (const name of ["AUTH", "TRANSFER", "GROUPS", "TIMERS"]) window["GLOBUS_SDK_SERVICE_URL_" + name] = "%(url)s";
window.manager = globus.authorization.create({
    client: "%(client)s", redirect: location.origin + "/", useRefreshTokens: true, storage: localStorage,
    scopes: "urn:globus:auth:scope:transfer.api.globus.org:all",
});
window.facts = async (answer) => ({
    status: answer.status, body: await answer.json().catch(() => null), limit: answer.headers.get("X-RateLimit-Limit"),
});
</script>"""


@dataclass
class Portal:
    """A web server for the page, at an origin of its own. client: the id with which the page signs users in."""

    origin: str
    client: str = "nobody"


@pytest.fixture
def portal(service: Api) -> Iterator[Portal]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script = self.path == "/globus.js"
            page = PAGE % {"url": service.url, "client": made.client}
            body = JAVASCRIPT.read_bytes() if script else page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if script else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Not to the output of the tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Portal(f"http://localhost:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join(60)


@pytest.fixture
def browser(shared_browser: Chromium) -> Chromium:
    shared_browser.renew()
    return shared_browser


def run(browser: Chromium, expression: str) -> Any:
    """The value of an asynchronous expression in the page, or {"error": NAME}."""
    found = browser.run_until_done(
        "const done = arguments[arguments.length - 1];"
        f"(async () => {{ try {{ done(JSON.stringify(await ({expression}) ?? null)); }}"
        " catch (error) { done(JSON.stringify({error: error.name})); } })();"
    )
    return json.loads(found)


def sign_in(browser: Chromium, service: Api) -> None:
    browser.type("#username", service.connection["username"])
    browser.type("#password", service.connection["password"] + ENTER)
    eventually(lambda: browser.shows("Allow"))
    browser.click("button[value=allow]")


def listing(service: Api, credentials: str = "omit", token: str = "x") -> str:
    """A request of the page without the SDK."""
    headers = f"{{Authorization: 'Bearer {token}'}}" if token else "{}"
    return f"fetch('{service.url}/v0.10/task_list', {{credentials: '{credentials}', headers: {headers}}}).then(facts)"


def test_a_page_that_nobody_registered_reads_nothing(service: Api, browser: Chromium, portal: Portal) -> None:
    """Not even that its token is wrong, or right."""
    browser.open(portal.origin + "/")
    form = "{method: 'POST', body: new URLSearchParams()}"
    for asked in (
        listing(service),
        listing(service, token=service.connection["token"]),
        listing(service, "include", token=""),
        f"fetch('{service.url}/.well-known/openid-configuration').then(facts)",
        f"fetch('{service.url}/v2/oauth2/token', {form}).then(facts)",
    ):
        assert run(browser, asked) == {"error": "TypeError"}, asked
    # Chromium says why.
    assert any("CORS policy" in line for line in browser.complaints())
    application(service, "late", portal.origin + "/", public=True)
    assert run(browser, listing(service))["status"] == 401


def test_a_portal_without_a_server_signs_in_transfers_renews_and_signs_out(
    service: Api, browser: Chromium, portal: Portal
) -> None:
    portal.client, _ = application(service, "JavaScript", portal.origin + "/", public=True)
    browser.open(portal.origin + "/")
    browser.run("window.manager.login()")
    eventually(lambda: browser.shows("Sign in"))
    sign_in(browser, service)
    eventually(lambda: browser.address.startswith(portal.origin + "/?"))
    assert "code=" in browser.address
    token = run(browser, "manager.handleCodeRedirect({shouldReplace: false})")
    assert token["resource_server"] == "auth.globus.org", token
    bearer = "{headers: {Authorization: `Bearer ${manager.tokens.auth.access_token}`}}"
    who = run(browser, f"globus.auth.oauth2.userinfo({bearer}).then(facts)")
    assert who["status"] == 200
    assert who["body"]["preferred_username"].partition("@")[0] == service.connection["username"].partition("@")[0]
    tasks = run(browser, "globus.transfer.task.getAll({query: {limit: 1}}, {manager}).then(facts)")
    assert (tasks["status"], len(tasks["body"]["DATA"])) == (200, 1)
    # A header that the page may read.
    assert int(tasks["limit"]) > 0
    made = run(browser, submission(service))
    assert (made["status"], made["body"]["code"]) == (202, "Accepted"), made
    # Errors are read too.
    assert run(browser, listing(service))["body"]["code"] == "ClientError.AuthenticationFailed"
    # The user has a session in this browser: the page cannot act by it.
    assert run(browser, listing(service, "include", token="")) == {"error": "TypeError"}
    before = run(browser, "manager.tokens.transfer")
    run(browser, "manager.refreshTokens()")
    after = run(browser, "manager.tokens.transfer")
    assert before["access_token"] != after["access_token"]
    assert before["refresh_token"] == after["refresh_token"]
    run(browser, "manager.revoke()")
    assert not is_good(service, after["access_token"])


def submission(service: Api) -> str:
    source, destination = (service.connection["endpoints"][name] for name in ("go#ep1", "go#ep2"))
    document = {
        "DATA_TYPE": "transfer", "source_endpoint": source, "destination_endpoint": destination,
        "DATA": [{"DATA_TYPE": "transfer_item", "source_path": "/share/godata/file1.txt",
                  "destination_path": "/~/from-a-page.txt"}],
    }  # fmt: skip
    return f"""globus.transfer.taskSubmission.submissionId({{}}, {{manager}}).then((answer) => answer.json())
        .then(({{value}}) => globus.transfer.taskSubmission.submitTransfer(
            {{payload: {{...{json.dumps(document)}, submission_id: value}}}}, {{manager}})).then(facts)"""
