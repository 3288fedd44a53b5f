"""Whatever comes in, every error is a document that a program can act on, and none is a failure of the service."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints import registry
from endpoints.models import Endpoint
from endpoints.network_use import NetworkLimits
from identity.models import User
from tests.integration.cast import make_endpoint, submit
from tests.integration.rest import Api, assert_error, routes
from transferapi.config.limits import RequestLimits
from transferapi.rest.http.parsing import MAX_BODY
from transferapi.tasks.models import Task


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


# ---- the request around the document


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/task_list/", "/endpoint/", "/task/%00/x/y", "/%FF", "/task_list%0A"]
)
def test_an_unknown_route_is_a_document(api: Api, path: str) -> None:
    assert_error(api.get(path), 404, "ClientError.NotFound")


@pytest.mark.parametrize("reference", ["%00", "%FF", "%ED%A0%80", "x" * 600, "%23", "a%23b%23c", "..", "%0A", "1", " "])
def test_a_reference_that_can_name_nothing_is_not_found(api: Api, reference: str) -> None:
    assert_error(api.get(f"/endpoint/{reference}"), 404)
    assert_error(api.get(f"/endpoint/{reference}/server/1"), 404)
    assert_error(api.get(f"/task/{reference}"), 404, "ClientError.NotFound")


@pytest.mark.parametrize("reference", ["\udcff", "\ud800#x", "alice#\udcff", "\0", "ep1\n", "\x85", "#", "##", " "])
def test_a_reference_in_a_document_that_can_name_nothing_is_not_found(
    api: Api, ep1: Endpoint, ep2: Endpoint, reference: str
) -> None:
    transfer = {**_TRANSFER, "submission_id": str(uuid.uuid4())}
    assert_error(api.post("/transfer", {**transfer, "source_endpoint": reference}), 404, "EndpointNotFound")
    assert_error(api.post("/transfer", {**transfer, "destination_endpoint": reference}), 404, "EndpointNotFound")
    delete = {**_DELETE, "submission_id": str(uuid.uuid4()), "endpoint": reference}
    assert_error(api.post("/delete", delete), 404, "EndpointNotFound")


@pytest.mark.parametrize("server", ["0", "-1", "x", "9" * 30, "%D9%A3", "1.0"])
def test_a_server_that_is_none_is_not_found(api: Api, ep1: Endpoint, server: str) -> None:
    for method, body in (("GET", None), ("PUT", {"port": 2}), ("DELETE", None)):
        assert_error(api.call(method, f"/endpoint/{ep1.pk}/server/{server}", body), 404, "ClientError.NotFound")


@pytest.mark.parametrize("route", sorted({route for _, route in routes("v0.10/")}))
def test_a_method_that_a_route_does_not_have_is_refused(api: Api, route: str) -> None:
    path = re.sub("<[^>]+>", "1", route)
    known = {method for method, other in routes("v0.10/") if other == route}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"} - known:
        answer = api.call(method, f"/{path}")
        assert_error(answer, 405, "ClientError.MethodNotAllowed")
        assert known <= {name.strip() for name in answer.headers["Allow"].split(",")}


@pytest.mark.parametrize("accept", ["text/html", "application/yaml", "image/*"])
def test_only_json_and_xml_go_out(api: Api, accept: str) -> None:
    assert_error(api.call("GET", "/task_list", headers={"Accept": accept}), 406, "ClientError.NotAcceptable")
    assert_error(api.call("GET", "/openapi", headers={"Accept": accept}), 406, "ClientError.NotAcceptable")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/*;q=0.5", "text/html, application/json"])
def test_every_form_of_json_that_clients_accept_is_json(api: Api, accept: str) -> None:
    assert api.call("GET", "/task_list", headers={"Accept": accept}).status == 200


def test_the_format_parameter_knows_json_and_xml_only(api: Api) -> None:
    assert api.get("/task_list", format="json").status == api.get("/task_list", format="xml").status == 200
    assert_error(api.get("/task_list", format="csv"), 404)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
)
def test_only_json_comes_in(api: Api, content_type: str) -> None:
    answer = api.call("POST", "/transfer", raw=b"a=1", content_type=content_type)
    assert_error(answer, 415, "ClientError.UnsupportedMediaType")


def test_json_may_say_its_charset(api: Api) -> None:
    answer = api.call("POST", "/endpoint", raw=b"{}", content_type="application/json; charset=utf-8")
    assert answer.status == 201


#: Bodies that are no documents: the parser refuses them with 400.
BROKEN = {
    "open": b'{"label": ',
    "two documents": b"{} {}",
    "not a number": b'{"port": NaN}',
    "infinite": b'{"port": -Infinity}',
    "deep lists": b"[" * 90_000,
    "deep objects": b'{"a":' * 90_000,
    "not UTF-8": b'{"label": "\xff"}',
    "a number of 100,000 digits": b'{"port": ' + b"1" * 100_000 + b"}",
    "NUL": b"\0",
    "single quotes": b"{'a': 1}",
}
DOCUMENT_ROUTES = [
    ("POST", "/endpoint"), ("PUT", "/endpoint/ep1"), ("POST", "/endpoint/ep1/server"), ("POST", "/transfer"),
    ("POST", "/delete"), ("POST", "/endpoint/ep1/activate"),
    ("POST", "/operation/endpoint/ep1/mkdir"), ("POST", "/operation/endpoint/ep1/rename"),
    ("PUT", "/task/{task}"),
]  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_json_is_refused(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, name: str) -> None:
    task = submit(alice, ep1, ep2)
    for method, path in DOCUMENT_ROUTES:
        answer = api.call(method, path.format(task=task.pk), raw=BROKEN[name])
        assert_error(answer, 400, "ClientError.BadRequest")
        assert len(answer.body["message"]) < 400


@pytest.mark.parametrize("value", [0, 1.5, "x", True, [], [{}]])
def test_a_document_is_an_object(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, value: object) -> None:
    task = submit(alice, ep1, ep2)
    for method, path in DOCUMENT_ROUTES:
        answer = api.call(method, path.format(task=task.pk), value)
        assert_error(answer, 400, "ClientError.BadRequest")
        assert answer.body["message"] == "the document: expected a JSON object"


class Counting:
    """An endless body, as a client that never stops sends it; counts what is read of it."""

    def __init__(self) -> None:
        self.read_so_far = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "an endless body was to be read to its end"
        self.read_so_far += size
        return b" " * size

    readline = read


@pytest.mark.parametrize(
    ("path", "most"),
    [("/endpoint", MAX_BODY), ("/transfer", RequestLimits().submission), ("/delete", RequestLimits().submission)],
)
def test_a_body_that_is_too_long_is_refused_unread(api: Api, path: str, most: int) -> None:
    for length in (most + 1, 10**15):
        body = Counting()
        answer = api.call("POST", path, raw=b"{", environ={"wsgi.input": body, "CONTENT_LENGTH": str(length)})
        assert_error(answer, 413, "ClientError.RequestTooLarge")
        assert body.read_so_far == 0


def test_a_body_may_be_as_long_as_it_is_said(api: Api) -> None:
    assert api.call("POST", "/endpoint", raw=b"{}".ljust(MAX_BODY)).status == 201


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_of_who_has_not_signed_in_no_body_is_read(headers: dict[str, str]) -> None:
    body = Counting()
    environ = {"wsgi.input": body, "CONTENT_LENGTH": "100000"}
    answer = Api().call("POST", "/transfer", raw=b"{", headers=headers, environ=environ)
    assert_error(answer, 401, "ClientError.AuthenticationFailed")
    assert body.read_so_far == 0


def test_a_host_that_is_not_ours_is_refused(api: Api) -> None:
    assert_error(api.call("GET", "/task_list", headers={"Host": "evil.example.org"}), 400, "ClientError.BadRequest")


def test_more_parameters_than_anybody_needs_are_refused(api: Api) -> None:
    answer = api.get("/task_list", filter=["type:TRANSFER"] * 1001)
    assert_error(answer, 400, "ClientError.BadRequest")


def test_each_request_has_an_id_of_its_own_and_says_what_it_asked_for(api: Api) -> None:
    answers = [api.get("/endpoint/none/server_list") for _ in range(2)]
    assert answers[0].body["request_id"] != answers[1].body["request_id"]
    assert answers[0].body["resource"] == "/endpoint/none/server_list"


# ---- the fields of documents


@dataclass(frozen=True)
class Field:
    """kinds: JSON types that a value may have. null counts as absent where `optional`."""

    kinds: tuple[type, ...]
    optional: bool = True


TEXT, FLAG, NUMBER = Field((str,)), Field((bool,)), Field((int,))
NEEDED, ITEMS = Field((str,), optional=False), Field((list,), optional=False)
_DEADLINE = "2090-01-31T23:59:59Z"
_ITEM: dict[str, Field] = {
    "DATA_TYPE": TEXT, "source_path": NEEDED, "destination_path": NEEDED, "recursive": FLAG,
    "external_checksum": TEXT, "checksum_algorithm": TEXT,
}  # fmt: skip
_SUBMISSION: dict[str, Field] = {
    "DATA_TYPE": TEXT, "submission_id": NEEDED, "label": TEXT, "deadline": TEXT,
    "notify_on_succeeded": FLAG, "notify_on_failed": FLAG, "notify_on_inactive": FLAG, "skip_activation_check": FLAG,
}  # fmt: skip
_SERVER: dict[str, Field] = {
    "DATA_TYPE": TEXT, "hostname": NEEDED, "port": NUMBER, "scheme": TEXT, "subject": TEXT, "uri": TEXT,
    "host_key_confirmed": FLAG,
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A document that is accepted, where it is sent, and the fields of it (or of what lies at `inside`)."""

    method: str
    path: str
    document: dict[str, Any]
    fields: dict[str, Field]
    inside: str = ""


_TRANSFER = {
    "submission_id": "", "source_endpoint": "ep1", "destination_endpoint": "ep2",
    "DATA": [{"source_path": "/a", "destination_path": "/b"}],
}  # fmt: skip
_DELETE = {"submission_id": "", "endpoint": "ep1", "DATA": [{"path": "/a"}]}
_SOURCES = {"myproxy_server": TEXT, "myproxy_dn": TEXT, "oauth_server": TEXT}
_SSH = {"jump_host": TEXT, "data_ports": TEXT}
_FLAGS = dict.fromkeys((
    "public", "allow_guest_collections", "force_encryption", "force_verify", "disable_verify", "is_globus_connect",
    "high_assurance", "mfa_required", "restrict_transfers_to_high_assurance", "disable_anonymous_writes",
    "preserve_modtime", "requester_pays",
), FLAG)  # fmt: skip
_MESSAGES = {"user_message": TEXT, "user_message_link": TEXT}
_LIMITS = {"network_use": TEXT, **dict.fromkeys(NetworkLimits._fields, NUMBER)}
_ACTIVATION = {"DATA": [{"type": "proxy", "name": "proxy", "value": "no proxy"}]}
_FILTER = {"filter_rules": [{"name": "*", "method": "exclude"}]}
#: Demands on the sign-in of users of an endpoint.
_DEMANDS: dict[str, Field] = {"authentication_timeout_mins": NUMBER, "authentication_domains": Field((list,))}
SHAPES: dict[str, Shape] = {
    "transfer": Shape("POST", "/transfer", _TRANSFER, {
        **_SUBMISSION, "source_endpoint": NEEDED, "destination_endpoint": NEEDED, "DATA": ITEMS,
        "sync_level": NUMBER, "verify_checksum": FLAG, "preserve_timestamp": FLAG, "encrypt_data": FLAG,
        "skip_source_errors": FLAG, "fail_on_quota_errors": FLAG, "delete_destination_extra": FLAG,
        "confirm_deletion_above": NUMBER,
        "recursive_symlinks": TEXT, "filter_rules": Field((list,)), "store_base_path_info": FLAG,
        "source_local_user": TEXT, "destination_local_user": TEXT,
        "perf_cc": NUMBER, "perf_p": NUMBER, "perf_pp": NUMBER, "perf_udt": FLAG, "tuning": TEXT,
        "bandwidth_limit": NUMBER, "priority": TEXT,
    }),
    "transfer_item": Shape("POST", "/transfer", _TRANSFER, _ITEM, "DATA"),
    "filter_rule": Shape("POST", "/transfer", {**_TRANSFER, **_FILTER}, {
        "name": NEEDED, "method": NEEDED, "type": TEXT,
    }, "filter_rules"),
    "delete": Shape("POST", "/delete", _DELETE, {
        **_SUBMISSION, "endpoint": NEEDED, "DATA": ITEMS, "recursive": FLAG, "ignore_missing": FLAG,
        "interpret_globs": FLAG, "local_user": TEXT,
    }),
    "delete_item": Shape("POST", "/delete", _DELETE, {"DATA_TYPE": TEXT, "path": NEEDED}, "DATA"),
    "endpoint": Shape("POST", "/endpoint", {}, {
        "DATA_TYPE": TEXT, "name": TEXT, "display_name": TEXT, "description": TEXT, "organization": TEXT,
        "department": TEXT, "keywords": TEXT, "contact_email": TEXT, "contact_info": TEXT, "info_link": TEXT,
        "default_directory": TEXT, **_FLAGS, **_MESSAGES, "DATA": Field((list,)), **_LIMITS,
        **_SOURCES, **_SSH, "data_hosts": Field((list,)), "bandwidth_limits": Field((list,)), **_DEMANDS,
    }),
    "endpoint changed": Shape("PUT", "/endpoint/ep1", {}, {
        "DATA_TYPE": TEXT, "name": TEXT, "display_name": TEXT, "description": TEXT, "organization": TEXT,
        "department": TEXT, "keywords": TEXT, "contact_email": TEXT, "contact_info": TEXT, "info_link": TEXT,
        "default_directory": TEXT, **_FLAGS, **_MESSAGES, **_LIMITS, **_SOURCES, **_SSH,
        "data_hosts": Field((list,)), "bandwidth_limits": Field((list,)), **_DEMANDS,
    }),
    "server inside": Shape("POST", "/endpoint", {"DATA": [{"hostname": "a.example.org"}]}, _SERVER, "DATA"),
    "server": Shape("POST", "/endpoint/ep1/server", {"hostname": "a.example.org"}, _SERVER),
    "server changed": Shape("PUT", "/endpoint/ep1/server/{server}", {}, {**_SERVER, "hostname": TEXT}),
    "activation_requirements": Shape("POST", "/endpoint/gsi/activate", _ACTIVATION, {
        "DATA_TYPE": TEXT, "DATA": Field((list,)),
    }),
    "activation_requirement": Shape("POST", "/endpoint/gsi/activate", _ACTIVATION, {
        "DATA_TYPE": TEXT, "type": NEEDED, "name": NEEDED, "value": Field((str, int)),
    }, "DATA"),
    "mkdir": Shape("POST", "/operation/endpoint/ep1/mkdir", {"path": "/a"}, {
        "DATA_TYPE": TEXT, "path": NEEDED, "local_user": TEXT,
    }),
    "rename": Shape("POST", "/operation/endpoint/ep1/rename", {"old_path": "/a", "new_path": "/b"}, {
        "DATA_TYPE": TEXT, "old_path": NEEDED, "new_path": NEEDED, "local_user": TEXT,
    }),
    "task": Shape("PUT", "/task/{task}", {}, {"DATA_TYPE": TEXT, "label": TEXT, "deadline": TEXT}),
}  # fmt: skip

#: One of each JSON type; and one of each that no field takes: 0 is no level of anything that is a text.
VALUES: list[Any] = [0, -1, 1.5, 10**400, "x", "", True, False, [], ["x"], [[]], {}, {"a": {}}, None]


def _wrong(field: Field) -> Iterator[Any]:
    for value in VALUES:
        if value is None:
            if not field.optional:
                yield value
        elif type(value) not in field.kinds:
            yield value


FIELDS = [pytest.param(shape, field, id=f"{name}.{field}") for name, shape in SHAPES.items() for field in shape.fields]


def _path(shape: Shape, task: Task) -> str:
    return shape.path.format(task=task.pk, server=task.source.servers.get().pk)


def _filled(shape: Shape, field: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(shape.document)
    if "submission_id" in document:
        document["submission_id"] = str(uuid.uuid4())
    (document[shape.inside][0] if shape.inside else document)[field] = value
    return document


@pytest.mark.usefixtures("gsi")
@pytest.mark.parametrize(("shape", "field"), FIELDS)
def test_a_field_of_the_wrong_type_is_refused_by_its_name(
    api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, shape: Shape, field: str
) -> None:
    task = submit(alice, ep1, ep2)
    tasks, endpoints = Task.objects.count(), Endpoint.objects.count()
    for value in _wrong(shape.fields[field]):
        answer = api.call(shape.method, _path(shape, task), _filled(shape, field, value))
        assert_error(answer, 400)
        assert answer.code.startswith("ClientError.BadRequest"), (value, answer.body)
        where = f"{shape.inside}[0].{field}" if shape.inside else field
        assert answer.body["message"].startswith((f"{where}: ", f"{where}[0]")), (value, answer.body)
    assert (Task.objects.count(), Endpoint.objects.count()) == (tasks, endpoints)


@pytest.mark.usefixtures("gsi")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_data_type_of_another_document_is_refused(
    api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, shape: Shape
) -> None:
    if "DATA_TYPE" not in shape.fields:
        return
    task = submit(alice, ep1, ep2)
    answer = api.call(shape.method, _path(shape, task), _filled(shape, "DATA_TYPE", "other"))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert "DATA_TYPE: " in answer.body["message"]


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.inside])
def test_the_description_knows_no_field_that_has_no_row_here(api: Api, name: str) -> None:
    """Fields of documents that come in, as the OpenAPI description has them, are all in the table."""
    shape = SHAPES[name]
    operation = api.get("/openapi").body["paths"][
        "/v0.10" + shape.path.replace("/ep1", "/{endpoint}").replace("/gsi", "/{endpoint}")
    ]
    content = operation[shape.method.lower()]["requestBody"]["content"]
    assert set(content["application/json"]["schema"]["properties"]) <= set(shape.fields)


# ---- anything at all

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
    | st.sampled_from(
        ["\udcff", "\ud800", "\0", "ep1", "/a", str(uuid.UUID(int=5)), _DEADLINE, "9999-12-31T23:59:59-23:59"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def _changed(draw: st.DrawFn) -> tuple[Shape, dict[str, Any]]:
    """A good document in which some fields have become something else."""
    shape = draw(st.sampled_from(list(SHAPES.values())))
    document = copy.deepcopy(shape.document)
    place = document[shape.inside][0] if shape.inside else document
    for field in draw(st.lists(st.sampled_from(sorted(shape.fields)), min_size=1, max_size=4)):
        place[field] = draw(_JSON)
    return shape, document


@pytest.fixture
def world(alice: User) -> tuple[Api, Task]:
    """Endpoints to which the gate lets nobody go: an operation that is understood is a 502."""
    nowhere = [registry.ServerSpec("nowhere.invalid", 1, "ftp")]
    ep1, ep2 = (registry.create(alice, {"name": name}, nowhere) for name in ("ep1", "ep2"))
    make_endpoint(alice, "gsi", scheme="gsiftp")
    return Api(alice), submit(alice, ep1, ep2)


#: The speed of drawing examples depends on the machine only, so it is not checked.
_ANY = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_ANY
@given(_changed())
def test_no_document_makes_the_service_fail(world: tuple[Api, Task], case: tuple[Shape, dict[str, Any]]) -> None:
    api, task = world
    shape, document = case
    if "submission_id" in shape.document and document.get("submission_id") == "":
        document["submission_id"] = str(uuid.uuid4())
    _assert_understood(api, shape.method, _path(shape, task), document)


@_ANY
@given(st.sampled_from(DOCUMENT_ROUTES), _JSON)
def test_no_json_makes_the_service_fail(world: tuple[Api, Task], route: tuple[str, str], value: object) -> None:
    api, task = world
    _assert_understood(api, route[0], route[1].format(task=task.pk), value)


_QUERIES: list[tuple[str, list[str]]] = [
    ("/task_list", ["filter", "orderby", "limit", "offset", "fields"]),
    ("/task/{task}/event_list", ["filter", "limit", "offset"]),
    ("/task/{task}/successful_transfers", ["marker", "limit"]),
    ("/task/{task}/skipped_errors", ["marker", "limit"]),
    ("/task/{task}", ["fields"]),
    ("/endpoint_search", ["filter_fulltext", "filter_scope", "filter_owner_id", "limit", "offset", "fields"]),
    ("/operation/endpoint/ep1/ls", ["path", "filter", "orderby", "limit", "offset", "show_hidden", "local_user"]),
    ("/operation/endpoint/ep1/stat", ["path", "local_user"]),
]
_WORDS = st.sampled_from(
    ["status:", "ACTIVE", "label:", "~", "!", "*", "?", "(", "[", "\\", "/", ",", ":", "name", " DESC", "request_time:",
     "2020-01-01", "0001-01-01", "9999-12-31", "T00:00:00-23:59",
     "size:", "<", "task_id:", "is_error:1", "1", "9" * 17, "\0", "%"]
)  # fmt: skip
_TEXTS = st.lists(_WORDS, max_size=5).map("".join) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@_ANY
@given(st.data())
def test_no_query_makes_the_service_fail(world: tuple[Api, Task], data: st.DataObject) -> None:
    api, task = world
    path, names = data.draw(st.sampled_from(_QUERIES))
    query = data.draw(st.dictionaries(st.sampled_from(names), _TEXTS))
    _assert_understood(api, "GET", path.format(task=task.pk), **query)


def _assert_understood(api: Api, method: str, where: str, body: object = None, **query: str) -> None:
    """Done, or refused with a document. 502: the gate does not let the service call these endpoints.

    The transaction is rolled back, so that the next example begins with the same state.
    """
    with transaction.atomic():
        answer = api.call(method, where, body, query=query)
        transaction.set_rollback(True)
    if answer.status < 300:
        return
    assert answer.status in (400, 404, 409, 502), answer.body
    assert_error(answer, answer.status)
    assert answer.status != 502 or answer.code.startswith("ExternalError")
