"""Expected status of each user at each route: the table of `rest/test_access.py`. Routes without a line fail the suite.

A new route is one line in `EXPECTED`; a new kind of variable in a path (`<str:thing>`) is one line in `things_of`.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from endpoints import bookmarks, pause_rules, registry
from endpoints.gridftp.agent.keys import AgentKey
from endpoints.models import AccessRule, Endpoint, PauseRule, Role
from endpoints.registry import ServerSpec
from identity import certificate_subjects, group_memberships, groups, sessions, ssh_keys, tokens
from identity.group_memberships import MembershipAction, MembershipVerb
from identity.models import Passkey, User, UserSession
from identity.provider import applications
from tests.integration.cast import submit, transfer_request
from tests.integration.rest import Api
from transferapi.tasks.models import AdminCancel
from transferapi.tasks.notify import webhooks
from transferapi.timers import services
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule


@dataclass(frozen=True)
class Row:
    """The statuses of one route, where `<str:thing>` in it and "{thing}" in body and query are alice's things.

    alice: who owns them. bob: with whom they are shared (None: 404, and what alice gets where there are none).
    public: what bob and charlie get where it is about an endpoint and that is public (None if it is not about one).
    anonymous: without a token. 502 means that it was allowed: the address gate refuses to go where they are.
    """

    alice: int
    bob: int | None = None
    public: int | None = None
    body: dict[str, Any] | None = None
    query: str = ""
    anonymous: int = 401
    #: A directory: it returns the same to all users who are signed in.
    directory: bool = False


V = "v0.10"
_E = f"{V}/endpoint/<str:endpoint>"
_O = f"{V}/operation/endpoint/<str:endpoint>"
_T = f"{V}/task/<str:task>"
_B = f"{V}/bookmark/<str:bookmark>"
_G = "v2/groups/<str:group>"
_W = f"{V}/webhook/<str:webhook>"
_C = "v2/api/clients/<str:client>"
_U = "v2/api/users/<str:identity>"
_B2 = "v2/bookmarks/<str:bookmark>"
_TUNNEL = "v2/tunnels/<str:tunnel>"
_BOOKMARK = {
    "data": {
        "attributes": {"name": "new", "path": "/"},
        "relationships": {"collection": {"data": {"id": "{endpoint}"}}},
    }
}
_SUBMISSION = {"submission_id": str(uuid.UUID(int=1))}
_BOTH = {"source_endpoint": "{endpoint}", "destination_endpoint": "{endpoint}"}
_TRANSFER = {**_SUBMISSION, **_BOTH, "DATA": [{"source_path": "/a", "destination_path": "/elsewhere"}]}
_J = "jobs/<str:timer>"
CSR = AgentKey(7).request("agent")
_ONCE = {"type": "once", "datetime": "2036-01-01T00:00:00Z"}
_TIMED = {**_BOTH, "DATA": [{"source_path": "/a", "destination_path": "/elsewhere"}]}
_CALLBACK = "https://actions.automate.globus.org/transfer/transfer/run"
_DELETE = {**_SUBMISSION, "endpoint": "{endpoint}", "DATA": [{"path": "/a"}]}
_FORECAST = "?source_endpoint={endpoint}&destination_endpoint={endpoint}&files=2&bytes=1000"
_M = f"{V}/endpoint_manager"
_TASKS = {"task_id_list": ["{task}"], "message": "Not now."}
_SERVER = {"hostname": "dtn9.example.org"}
#: Somebody to whom roles are given.
DAVE = uuid.UUID(int=4)
_ROLE = {"principal_type": "identity", "principal": str(DAVE), "role": "activity_monitor"}
_ACCESS = {"principal_type": "all_authenticated_users", "path": "/public/", "permissions": "r"}

EXPECTED: dict[tuple[str, str], Row] = {
    # ---- endpoints
    ("POST", f"{V}/endpoint"): Row(201, body={"display_name": "new"}),
    ("GET", f"{V}/endpoint_search"): Row(200, query="?filter_scope=my-endpoints"),
    ("GET", _E): Row(200, 200, 200),
    ("PUT", _E): Row(200, 403, 403, {"description": "changed"}),
    ("DELETE", _E): Row(200, 403, 403),
    ("GET", f"{_E}/server_list"): Row(200, 200, 200),
    ("POST", f"{_E}/server"): Row(201, 403, 403, _SERVER),
    ("GET", f"{_E}/server/<str:server>"): Row(200, 404, 200),
    ("PUT", f"{_E}/server/<str:server>"): Row(200, 403, 403, _SERVER),
    ("DELETE", f"{_E}/server/<str:server>"): Row(200, 403, 403),
    ("DELETE", f"{_E}/ssh_program"): Row(400, 400, 400),
    ("GET", f"{_E}/activation_requirements"): Row(200, 200, 200),
    ("POST", f"{_E}/autoactivate"): Row(200, 200, 200),
    ("POST", f"{_E}/activate"): Row(200, 403, 200, {"DATA": []}),
    ("POST", f"{_E}/deactivate"): Row(200, 403, 200),
    # ---- operations and submissions
    ("GET", f"{_O}/ls"): Row(502, 502, 502),
    ("GET", f"{_O}/listing"): Row(502, 502, 502),
    ("GET", f"{_O}/destination"): Row(502, 502, 502, query="?path=/a"),
    ("GET", f"{_O}/stat"): Row(502, 502, 502, query="?path=/a"),
    ("POST", f"{_O}/mkdir"): Row(502, 502, 502, {"path": "/a"}),
    ("POST", f"{_O}/rename"): Row(502, 502, 502, {"old_path": "/a", "new_path": "/b"}),
    ("POST", f"{_O}/symlink"): Row(502, 403, 502, {"symlink_target": "a", "path": "/b"}),
    ("GET", f"{_O}/file"): Row(502, 502, 502, query="?path=/a"),
    ("PUT", f"{_O}/file"): Row(502, 502, 502, query="?path=/a"),
    ("GET", f"{_O}/archive"): Row(502, 502, 502, query="?path=/a"),
    ("GET", f"{_O}/upload"): Row(200, 200, 200, query="?path=/a"),
    ("DELETE", f"{_O}/upload"): Row(502, 502, 502, query="?path=/a"),
    ("GET", f"{V}/submission_id"): Row(200),
    ("POST", f"{V}/transfer"): Row(202, 202, 202, _TRANSFER),
    ("POST", f"{V}/delete"): Row(202, 202, 202, _DELETE),
    ("POST", f"{V}/transfer/check"): Row(200, 200, 200, _TRANSFER),
    ("POST", f"{V}/delete/check"): Row(200, 200, 200, _DELETE),
    ("GET", f"{V}/forecast"): Row(200, 200, 200, query=_FORECAST),
    # ---- tasks: their owner's alone
    ("GET", f"{V}/task_list"): Row(200),
    ("GET", _T): Row(200),
    ("PUT", _T): Row(200, body={"label": "changed"}),
    ("POST", f"{_T}/cancel"): Row(200),
    ("POST", f"{_T}/pause"): Row(200),
    ("POST", f"{_T}/resume"): Row(200),
    ("POST", f"{_T}/confirm_deletion"): Row(409),
    ("POST", f"{_T}/refuse_deletion"): Row(409),
    ("POST", f"{_T}/retry"): Row(409),
    ("POST", f"{_T}/run_again"): Row(400),
    ("GET", f"{_T}/event_list"): Row(200),
    ("GET", f"{_T}/successful_transfers"): Row(200),
    ("GET", f"{_T}/skipped_errors"): Row(200),
    # ---- bookmarks: their owner's alone
    ("GET", f"{V}/bookmark_list"): Row(200),
    ("POST", f"{V}/bookmark"): Row(201, 201, 201, {"name": "new", "endpoint_id": "{endpoint}", "path": "/"}),
    ("GET", _B): Row(200),
    ("PUT", _B): Row(200, body={"name": "changed"}),
    ("DELETE", _B): Row(200),
    # ---- groups: bob is a member
    ("POST", "v2/groups"): Row(201, body={"name": "new"}),
    ("GET", "v2/groups/my_groups"): Row(200),
    ("GET", "v2/groups/statuses"): Row(200),
    ("GET", _G): Row(200, 200),
    ("PUT", _G): Row(200, 403, body={"name": "changed"}),
    ("DELETE", _G): Row(200, 403),
    ("POST", _G): Row(200, 403, body={"remove": [{"identity_id": str(uuid.UUID(int=1))}]}),
    ("GET", f"{_G}/policies"): Row(200, 200),
    ("PUT", f"{_G}/policies"): Row(200, 403, body={"join_requests": True}),
    ("GET", f"{_G}/children"): Row(200, 200),
    ("GET", f"{_G}/membership_fields"): Row(200, 200),
    ("PUT", f"{_G}/membership_fields"): Row(200, 200, body={"city": "Oslo"}),
    ("PUT", f"{_G}/subscription_admin_verified"): Row(404, 404, body={}),
    ("GET", "v2/preferences"): Row(200),
    ("PUT", "v2/preferences"): Row(200, body={"allow_add": False}),
    ("GET", "v2/subscription_info/<str:subscription>"): Row(404),
    ("GET", "v2/bookmarks"): Row(200),
    ("POST", "v2/bookmarks"): Row(201, 201, 201, _BOOKMARK),
    ("GET", _B2): Row(200),
    ("PATCH", _B2): Row(200, body={"data": {"attributes": {"name": "changed"}}}),
    ("DELETE", _B2): Row(200),
    # ---- older names, and what other products have
    ("GET", f"{V}/endpoint_list"): Row(200),
    ("GET", f"{_E}/ls"): Row(502, 502, 502),
    ("POST", f"{_E}/mkdir"): Row(502, 502, 502, {"path": "/a"}),
    ("POST", _T): Row(200, body={"label": "changed"}),
    ("POST", f"{_T}/remove"): Row(409),
    ("PUT", f"{_E}/subscription"): Row(501, 403, 403, {"subscription_id": None}),
    ("PUT", f"{_E}/subscription_admin_verified"): Row(501, 403, 403, {"subscription_admin_verified": True}),
    ("GET", "v2/tunnels"): Row(501),
    ("POST", "v2/tunnels"): Row(501, body={}),
    ("GET", _TUNNEL): Row(501, directory=True),
    ("PATCH", _TUNNEL): Row(501, body={}, directory=True),
    ("DELETE", _TUNNEL): Row(501, directory=True),
    ("GET", f"{_TUNNEL}/events"): Row(501, directory=True),
    ("GET", "v2/stream_access_points"): Row(501),
    ("GET", "v2/stream_access_points/<str:stream>"): Row(501, directory=True),
    # ---- sharing: shared endpoints, access rules, roles. alice's are about endpoints that are not shared themselves
    ("POST", f"{V}/shared_endpoint"): Row(201, 400, 403, {"host_endpoint": "{endpoint}", "host_path": "/a/"}),
    ("GET", f"{_E}/my_shared_endpoint_list"): Row(200, 200, 200),
    ("GET", f"{_E}/shared_endpoint_list"): Row(200, 403, 403),
    ("GET", f"{_E}/role_list"): Row(200, 403, 403),
    ("POST", f"{_E}/role"): Row(201, 403, 403, _ROLE),
    ("GET", f"{_E}/role/<str:role>"): Row(200, 403, 403),
    ("DELETE", f"{_E}/role/<str:role>"): Row(200, 403, 403),
    ("GET", f"{_E}/access_list"): Row(400, 403, 403),
    ("POST", f"{_E}/access"): Row(400, 403, 403, _ACCESS),
    ("GET", f"{_E}/access/<str:access>"): Row(404, 403, 403),
    ("PUT", f"{_E}/access/<str:access>"): Row(404, 403, 403, {"permissions": "r"}),
    ("DELETE", f"{_E}/access/<str:access>"): Row(404, 403, 403),
    # ---- pause rules and what managers of endpoints see
    ("GET", f"{_E}/my_effective_pause_rule_list"): Row(200, 200, 200),
    ("GET", f"{_T}/pause_info"): Row(200),
    ("GET", f"{_M}/pause_rule_list"): Row(200, 403, 403, query="?filter_endpoint={endpoint}"),
    ("POST", f"{_M}/pause_rule"): Row(201, 403, 403, {"endpoint_id": "{endpoint}"}),
    ("GET", f"{_M}/pause_rule/<str:pause_rule>"): Row(200),
    ("PUT", f"{_M}/pause_rule/<str:pause_rule>"): Row(200, body={"message": "changed"}),
    ("DELETE", f"{_M}/pause_rule/<str:pause_rule>"): Row(200),
    ("GET", f"{_M}/monitored_endpoints"): Row(200),
    ("GET", f"{_M}/endpoint/<str:endpoint>"): Row(200, 403, 403),
    ("GET", f"{_M}/endpoint/<str:endpoint>/hosted_endpoint_list"): Row(200, 403, 403),
    ("GET", f"{_M}/endpoint/<str:endpoint>/access_list"): Row(400, 403, 403),
    ("GET", f"{_M}/task_list"): Row(200, query="?filter_status=ACTIVE"),
    ("GET", f"{_M}/task/<str:task>"): Row(200),
    ("GET", f"{_M}/task/<str:task>/event_list"): Row(200),
    ("GET", f"{_M}/task/<str:task>/pause_info"): Row(200),
    ("GET", f"{_M}/task/<str:task>/successful_transfers"): Row(200),
    ("GET", f"{_M}/task/<str:task>/skipped_errors"): Row(200),
    ("POST", f"{_M}/admin_cancel"): Row(200, body=_TASKS),
    ("GET", f"{_M}/admin_cancel/<str:admin_cancel>"): Row(200),
    ("POST", f"{_M}/admin_pause"): Row(200, body=_TASKS),
    ("POST", f"{_M}/admin_resume"): Row(200, body=_TASKS),
    # ---- webhooks and streams of events: their owner's alone
    ("GET", f"{V}/event_stream"): Row(200),
    ("GET", f"{_T}/event_stream"): Row(200),
    ("GET", f"{V}/mail_preference"): Row(200),
    ("PUT", f"{V}/mail_preference"): Row(200, body={"enabled": False}),
    ("GET", f"{V}/webhook_list"): Row(200),
    ("POST", f"{V}/webhook"): Row(201, body={"url": "https://1.1.1.1/"}),
    ("GET", _W): Row(200),
    ("PUT", _W): Row(200, body={"statuses": ["FAILED"]}),
    ("DELETE", _W): Row(200),
    ("POST", f"{_W}/test"): Row(202),
    ("GET", f"{_W}/delivery_list"): Row(200),
    # ---- timers: their owner's alone
    ("POST", "v2/timer"): Row(201, 201, 201, {"timer": {"schedule": _ONCE, "body": _TIMED}}),
    ("GET", "jobs/"): Row(200),
    ("POST", "jobs/"): Row(201, 201, 201, {"callback_url": _CALLBACK, "callback_body": {"body": _TIMED}}),
    ("GET", _J): Row(200),
    ("PATCH", _J): Row(200, body={"name": "changed"}),
    ("DELETE", _J): Row(200),
    ("POST", f"{_J}/pause"): Row(200),
    ("POST", f"{_J}/resume"): Row(200),
    # ---- Auth, and what a user's account has. An API token is no sign-in: see `test_account_routes.py`
    ("GET", "v2/oauth2/userinfo"): Row(200),
    ("POST", "v2/oauth2/userinfo"): Row(200),
    ("GET", "v2/api/identities"): Row(200, query="?usernames=alice"),
    ("GET", "v2/api/identities/<str:identity>"): Row(200, directory=True),
    ("GET", "v2/api/identities/<str:identity>/consents"): Row(200),
    ("GET", "v2/api/identity_providers"): Row(200),
    ("GET", "v2/api/clients"): Row(200),
    ("POST", "v2/api/clients"): Row(403, body={"client": {"name": "new"}}),
    ("GET", _C): Row(200),
    ("PUT", _C): Row(403, body={"client": {"name": "changed"}}, directory=True),
    ("DELETE", _C): Row(200),
    ("GET", f"{_C}/credentials"): Row(200),
    ("POST", f"{_C}/credentials"): Row(403, body={"credential": {"name": "new"}}, directory=True),
    ("DELETE", f"{_C}/credentials/<str:credential>"): Row(200),
    ("GET", "v2/api/tokens"): Row(200),
    ("POST", "v2/api/tokens"): Row(403, body={"label": "new"}),
    ("DELETE", "v2/api/tokens/<str:token>"): Row(200),
    ("GET", "v2/api/certificate_subjects"): Row(200),
    ("POST", "v2/api/certificate_subjects"): Row(403, body={"subject": "/O=Grid/CN=Somebody"}),
    ("DELETE", "v2/api/certificate_subjects/<str:subject>"): Row(200),
    ("GET", "v2/api/linked_identities"): Row(200),
    ("DELETE", "v2/api/linked_identities/<str:identity>"): Row(403, directory=True),
    ("GET", "v2/api/ssh_keys"): Row(200),
    ("POST", "v2/api/ssh_keys"): Row(403, body={"public_key": "ssh-ed25519 AAAA"}),
    ("DELETE", "v2/api/ssh_keys/<path:key>"): Row(200),
    ("GET", "v2/api/passkeys"): Row(200),
    ("DELETE", "v2/api/passkeys/<str:passkey>"): Row(200),
    ("GET", "v2/api/sessions"): Row(200),
    ("DELETE", "v2/api/sessions/<str:session>"): Row(200),
    # ---- for staff, and none of the cast is
    ("GET", "v2/api/users"): Row(403),
    ("POST", "v2/api/users"): Row(403, body={"username": "new"}),
    ("GET", _U): Row(403, directory=True),
    ("PUT", _U): Row(403, body={"full_name": "New"}, directory=True),
    ("DELETE", _U): Row(403, directory=True),
    ("POST", f"{_U}/deactivate"): Row(403, directory=True),
    ("POST", f"{_U}/activate"): Row(403, directory=True),
    ("GET", f"{_U}/sessions"): Row(403, directory=True),
    ("DELETE", f"{_U}/sessions"): Row(403, directory=True),
    ("GET", "v2/api/invitations"): Row(403),
    ("POST", "v2/api/invitations"): Row(403, body={"days": 7}),
    ("DELETE", "v2/api/invitations/<str:invitation>"): Row(403, directory=True),
    ("GET", "v2/api/audit"): Row(403),
    ("GET", "v2/api/audit/export"): Row(403),
    ("POST", "shell"): Row(200, body={}),
    ("POST", f"{_E}/setup_key"): Row(409, 403, 403),
    ("GET", f"{_E}/agent"): Row(409, 403, 403),
    ("DELETE", f"{_E}/agent"): Row(409, 403, 403),
    # ---- open to everybody
    ("POST", "connect/setup"): Row(403, body={"secret": "x", "request": CSR}, anonymous=403, directory=True),
    ("POST", "connect/renew"): Row(403, body={"chain": "x", "signature": "x"}, anonymous=403, directory=True),
    ("GET", "connect/version"): Row(200, anonymous=200, directory=True),
    ("GET", "connect/tunnel"): Row(307, anonymous=307, directory=True),
    ("GET", f"{V}/long_body"): Row(204, directory=True, query="?resource=/v0.10/transfer&length=2000000"),
    ("GET", f"{V}/openapi"): Row(200, anonymous=200),
}

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJCwH4x5WMvqZ0BaHl6sG7rB0mFh9R0bUrLlVY9eVfHx alice"
#: Names of the objects that may be in a path, as bodies, queries and this module use them.
Things = dict[str, str]


@dataclass(frozen=True)
class Stage:
    """alice's things: about a private endpoint, about a public one, and about a folder that bob may use too."""

    private: Things
    public: Things
    shared: Things


@dataclass(frozen=True)
class World:
    """The cast, the things that they have (see `expectations`), and a client of the API for each of them."""

    users: dict[str, User]
    stage: Stage
    apis: dict[str, Api]


def stage_of(alice: User, bob: User) -> Stage:
    User.objects.create(pk=DAVE, username="dave")
    private, public = _endpoint(alice, "private", public=False), _endpoint(alice, "public", public=True)
    shared = Endpoint.objects.create(owner=alice, name="shared", host=private, host_path="/shared/")
    rule = AccessRule.objects.create(
        endpoint=shared, principal_type="identity", principal=bob.pk, path="/", permissions="rw", created_by=alice
    )
    made = {**_things_of(alice, bob, private, public), "access": str(rule.pk)}
    mine = {"endpoint": str(shared.pk), "role": _role(shared)}
    return Stage({**made, **_about(private)}, {**made, **_about(public)}, {**made, **_about(private), **mine})


def _things_of(alice: User, bob: User, private: Endpoint, public: Endpoint) -> Things:
    """One of each kind of thing, which is alice's."""
    group = groups.create(alice, name="alice's people").group
    application, _ = applications.make(alice, applications.ApplicationSpec("alice's portal"))
    group_memberships.act(alice, group.pk, [MembershipAction(MembershipVerb.ADD, bob.pk)])
    return {
        "group": str(group.pk),
        "timer": str(_timer(alice, private, public).pk),
        **{name: str(uuid.uuid4()) for name in ("subscription", "tunnel", "stream", "invitation")},
        "pause_rule": str(_rule_of_tomorrow(alice, private).pk),
        "admin_cancel": str(_canceled(alice).pk),
        "task": str(submit(alice, private, public).pk),
        "bookmark": str(bookmarks.create(alice, name="alice's place", endpoint=str(public.pk), path="/").pk),
        "token": str(tokens.make(alice, "alice's")[0].pk),
        "subject": str(certificate_subjects.add(alice, "/O=Grid/CN=Alice", proven=["/O=Grid/CN=Alice"]).pk),
        "key": str(ssh_keys.add(alice, SSH_KEY).id),
        "passkey": str(Passkey.objects.create(user=alice, label="alice's", credential_id=b"1", public_key=b"1").pk),
        "session": _session(alice),
        "identity": str(alice.pk),
        "client": application.client_id,
        "credential": str(applications.secrets_of(application)[0].pk),
        "webhook": str(webhooks.create(alice, "https://1.1.1.1/")[0].pk),
    }


def _session(user: User) -> str:
    expires = datetime.now(UTC) + timedelta(hours=1)
    UserSession.objects.create(session_key="alices", session_data="", expire_date=expires, user=user)
    return sessions.open_sessions(user)[0].id


def _rule_of_tomorrow(owner: User, endpoint: Endpoint) -> PauseRule:
    fields = {"start_time": datetime.now(UTC) + timedelta(days=1)}
    return pause_rules.create(owner, str(endpoint.pk), fields)


def _canceled(user: User) -> AdminCancel:
    return AdminCancel.objects.create(user=user, message="", task_ids=[], created_at=datetime.now(UTC))


def _timer(owner: User, source: Endpoint, destination: Endpoint) -> Timer:
    plan = Schedule(datetime(2036, 1, 1, tzinfo=UTC))
    return services.create(owner, name="later", plan=plan, request=transfer_request(source, destination))


def _endpoint(owner: User, name: str, *, public: bool) -> Endpoint:
    fields = {"name": name, "display_name": name, "public": public}
    return registry.create(owner, fields, [ServerSpec.parse("ftp://nowhere.invalid:1")])


def _about(endpoint: Endpoint) -> Things:
    return {"endpoint": str(endpoint.pk), "server": str(endpoint.servers.get().pk), "role": _role(endpoint)}


def _role(endpoint: Endpoint) -> str:
    """Create a role of dave, and return its id."""
    row, _ = Role.objects.get_or_create(
        endpoint=endpoint, principal_type="identity", principal=DAVE, role="activity_manager"
    )
    return str(row.pk)


def elsewhere(owner: User, things: Things) -> Things:
    """The same things, asked for below an endpoint of somebody else."""
    return {**things, "endpoint": str(_endpoint(owner, "mine", public=False).pk)}


def unknown(things: Things) -> Things:
    """Names of the same forms, of nothing."""
    return {name: "987654321" if value.isdecimal() else str(uuid.uuid4()) for name, value in things.items()}


def parts_of(key: tuple[str, str]) -> list[str]:
    """Which things a route is about."""
    row = EXPECTED[key]
    return re.findall(r"<\w+:(\w+)>", key[1]) + re.findall(r"{(\w+)}", f"{row.body} {row.query}")


def filled(value: Any, things: Things) -> Any:
    """ "{thing}" in a body by what is its name."""
    if isinstance(value, dict):
        return {name: filled(one, things) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, things) for one in value]
    return re.sub(r"{(\w+)}", lambda part: things[part[1]], value) if isinstance(value, str) else value


def path_of(key: tuple[str, str], things: Things) -> str:
    """The route with its query, from the root."""
    path = re.sub(r"<\w+:(\w+)>", lambda part: things[part[1]], key[1])
    return f"/{path}{filled(EXPECTED[key].query, things)}"
