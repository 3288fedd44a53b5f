"""Submissions and tasks as clients of fifteen years send and read them."""

from __future__ import annotations

import json
import resource
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint, submit, submit_delete
from tests.integration.rest import Answer, Api, assert_error
from transferapi.tasks import events, moves
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import File, Item, Task
from transferapi.tasks.states import FileKind, FileState

NOT_SUPPORTED = "ClientError.BadRequest.NotSupported"


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def endpoints(ep1: Endpoint, ep2: Endpoint) -> tuple[Endpoint, Endpoint]:
    return ep1, ep2


def transfer(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The least that a transfer document must hold, and `fields`."""
    return {
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": "ep1",
        "destination_endpoint": "ep2",
        "DATA": list(items) or [{"source_path": "/from", "destination_path": "/to"}],
        **fields,
    }


def delete(*paths: str, **fields: Any) -> dict[str, Any]:
    return {"submission_id": str(uuid.uuid4()), "endpoint": "ep1", "DATA": [{"path": path} for path in paths], **fields}


# ---- submissions


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize("what", ["transfer", "delete"])
def test_a_submission_is_accepted_once_however_often_it_is_sent(api: Api, what: str) -> None:
    document = transfer() if what == "transfer" else delete("/a")
    document["submission_id"] = api.get("/submission_id").body["value"]
    first = api.post(f"/{what}", document)
    assert first.status == 202
    assert first.body["DATA_TYPE"] == f"{what}_result"
    assert first.body["code"] == "Accepted"
    assert first.body["submission_id"] == document["submission_id"]
    task_id = first.body["task_id"]
    assert first.body["task_link"]["href"] == f"/v0.10/task/{task_id}?format=json"
    # Sent again it is the same task, even when it is no good any more.
    for again in (document, {**document, "label": "other"}, {**document, "DATA": []}):
        second = api.post(f"/{what}", again)
        assert (second.status, second.body["code"], second.body["task_id"]) == (202, "Duplicate", task_id)
    assert Task.objects.count() == 1


@pytest.mark.usefixtures("endpoints")
def test_a_submission_id_means_a_submission_of_its_user(api: Api, bob: User) -> None:
    make_endpoint(bob, "ep1")
    make_endpoint(bob, "ep2")
    document = transfer()
    assert api.post("/transfer", document).code == "Accepted"
    assert Api(bob).post("/transfer", document).code == "Accepted"


#: The document that each client sends for one file with default options (contract: sections 2 and 5).
_FLAGS = {"encrypt_data": False, "preserve_timestamp": False, "delete_destination_extra": False}
_OLD_FLAGS = {**_FLAGS, "verify_checksum": False, "skip_activation_check": None, "sync_level": None}
_SDK_ITEM = {"DATA_TYPE": "transfer_item", "source_path": "/from", "destination_path": "/to"}
FORMS: dict[str, dict[str, Any]] = {
    "SDK 1": {
        **_OLD_FLAGS, "DATA_TYPE": "transfer", "label": None, "deadline": None, "recursive_symlinks": "ignore",
        "DATA": [{**_SDK_ITEM, "recursive": False}],
    },
    "SDK 3": {
        **_OLD_FLAGS, "DATA_TYPE": "transfer", "skip_source_errors": False, "fail_on_quota_errors": False,
        "notify_on_succeeded": True, "notify_on_failed": True, "notify_on_inactive": True, "filter_rules": [],
        "DATA": [_SDK_ITEM],
    },
    "SDK 4": {"DATA_TYPE": "transfer", "DATA": [_SDK_ITEM]},
    "CLI, without checksums": {
        **_FLAGS, "DATA_TYPE": "transfer", "verify_checksum": False, "skip_source_errors": False,
        "fail_on_quota_errors": False, "label": "from the CLI", "DATA": [_SDK_ITEM],
    },
    "CLI, hidden options": {"perf_cc": 4, "perf_p": 2, "perf_pp": 20, "perf_udt": False, "DATA": [_SDK_ITEM]},
    "2010": {"DATA_TYPE": "transfer", "length": 1, "DATA": [{**_SDK_ITEM, "verify_size": None, "recursive": False}]},
    "a timer": {**transfer(), "label": None, "filter_rules": None, "source_local_user": None, "DATA": [_SDK_ITEM]},
    "from the future": {"DATA_TYPE": "transfer", "quantum": {"spin": 0.5}, "DATA": [{**_SDK_ITEM, "colour": []}]},
}  # fmt: skip


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize("name", FORMS)
def test_the_forms_of_all_clients_are_accepted(api: Api, name: str) -> None:
    answer = api.post("/transfer", {**transfer(), **FORMS[name]})
    assert answer.status == 202, answer.body
    item = Item.objects.get(task=answer.body["task_id"])
    assert (item.source_path, item.destination_path) == ("/from", "/to")
    assert item.recursive is FORMS[name]["DATA"][0].get("recursive")


def test_endpoints_are_named_by_id_by_full_name_and_by_own_name(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    for source, destination in ((str(ep1.pk).upper(), f"{ep2.pk}"), ("alice#ep1", "alice#ep2"), ("ep1", "ep2")):
        answer = api.post("/transfer", transfer(source_endpoint=source, destination_endpoint=destination))
        document = api.get(f"/task/{answer.body['task_id']}").body
        assert (document["source_endpoint"], document["source_endpoint_id"]) == ("alice#ep1", str(ep1.pk))
        assert (document["destination_endpoint"], document["destination_endpoint_id"]) == ("alice#ep2", str(ep2.pk))


#: Asked for, these would silently not be done: refused by name.
LATER: list[tuple[str, Any]] = [
    ("source_local_user", "root"), ("destination_local_user", "root"),
]  # fmt: skip


def _assert_not_yet(answer: Answer, field: str) -> None:
    assert_error(answer, 400, NOT_SUPPORTED)
    assert answer.body["message"].startswith(f"{field}: This version cannot ")
    assert not Task.objects.exists()


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(("name", "value"), LATER)
def test_an_option_of_a_later_version_is_refused_and_not_passed_over(api: Api, name: str, value: object) -> None:
    _assert_not_yet(api.post("/transfer", transfer(**{name: value})), name)
    assert api.post("/transfer", transfer(**{name: None})).status == 202


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(("name", "value"), [("local_user", "root")])
def test_an_option_of_a_later_version_is_refused_for_a_delete(api: Api, name: str, value: object) -> None:
    _assert_not_yet(api.post("/delete", delete("/a", **{name: value})), name)
    assert api.post("/delete", delete("/a", **{name: None})).status == 202


@pytest.mark.usefixtures("endpoints")
def test_an_item_may_be_a_symlink(api: Api) -> None:
    link = {"DATA_TYPE": "transfer_symlink_item", "source_path": "/a/l", "destination_path": "/b/l"}
    answer = api.post("/transfer", transfer(link, {"source_path": "/c", "destination_path": "/d"}))
    items = Item.objects.filter(task=answer.body["task_id"]).order_by("position")
    assert [item.extra for item in items] == [{"symlink": True}, {}]
    assert [item.source_path for item in items] == ["/a/l", "/c"]
    wrong = {"DATA_TYPE": "transfer_symlink_item", "source_path": "/a/l"}
    assert_error(api.post("/transfer", transfer(wrong)), 400, "ClientError.BadRequest")


@pytest.mark.usefixtures("endpoints")
def test_the_deepest_common_folders_are_shown_when_that_is_asked(api: Api) -> None:
    items = [
        {"source_path": "/data/run/a/", "destination_path": "/copy/a/"},
        {"source_path": "/data/run/b/f", "destination_path": "/copy/b/g"},
    ]
    for asked, expected in ((True, ("/data/run/", "/copy/")), (False, (None, None)), (None, (None, None))):
        answer = api.post("/transfer", transfer(*items, store_base_path_info=asked))
        document = api.get(f"/task/{answer.body['task_id']}").body
        assert (document["source_base_path"], document["destination_base_path"]) == expected
    odd = {"source_path": "/\udcff/f", "destination_path": "/\udcff/"}
    answer = api.post("/transfer", transfer(odd, store_base_path_info=True))
    assert api.get(f"/task/{answer.body['task_id']}").body["source_base_path"] == "/\ufffd/"


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize("asked", [True, False])
def test_policies_labels_and_wishes_about_notices_are_kept(api: Api, asked: bool) -> None:
    notices = {f"notify_on_{event}": asked for event in ("succeeded", "failed", "inactive")}
    policies = dict.fromkeys(("skip_source_errors", "fail_on_quota_errors", "delete_destination_extra"), asked)
    documents = {
        "/transfer": transfer({"source_path": "/a", "destination_path": "/b"}, label="tidy", **notices, **policies),
        "/delete": delete("/a*", label="tidy", interpret_globs=asked, **notices),
    }
    for path, document in documents.items():
        task_id = api.post(path, document).body["task_id"]
        shown = api.get(f"/task/{task_id}").body
        kept = Task.objects.get(pk=task_id).options
        assert shown["label"] == "tidy"
        assert notices.items() <= kept.items()
        if path == "/transfer":
            assert policies.items() <= shown.items()
        else:
            assert kept["interpret_globs"] is asked


@pytest.mark.usefixtures("endpoints")
def test_what_the_scan_decides_is_kept_and_shown(api: Api) -> None:
    rules = [{"method": "exclude", "name": "*.tmp", "type": None}]
    asked: dict[str, Any] = {"sync_level": 3, "recursive_symlinks": "keep", "filter_rules": rules}
    answer = api.post("/transfer", transfer(**asked))
    document = api.get(f"/task/{answer.body['task_id']}").body
    assert {name: document[name] for name in asked} == asked


@pytest.mark.usefixtures("endpoints")
def test_verification_is_accepted_and_kept(api: Api) -> None:
    md5 = "D41D8CD98F00B204E9800998ECF8427E"
    items: list[dict[str, Any]] = [
        {"source_path": "/a", "destination_path": "/a", "external_checksum": md5},
        {"source_path": "/b", "destination_path": "/b", "external_checksum": md5 + md5, "checksum_algorithm": "Sha256"},
        {"source_path": "/c", "destination_path": "/c", "recursive": True, "checksum_algorithm": "sha1"},
        {"source_path": "/d", "destination_path": "/d", "external_checksum": None, "checksum_algorithm": None},
    ]
    answer = api.post("/transfer", transfer(*items, verify_checksum=True, preserve_timestamp=True))
    document = api.get(f"/task/{answer.body['task_id']}").body
    assert (document["verify_checksum"], document["preserve_timestamp"]) == (True, True)
    kept = Item.objects.filter(task=document["task_id"]).order_by("position").values_list("extra", flat=True)
    assert list(kept) == [
        {"external_checksum": md5.lower(), "checksum_algorithm": "MD5"},
        {"external_checksum": (md5 + md5).lower(), "checksum_algorithm": "SHA256"},
        {"checksum_algorithm": "SHA1"},
        {},
    ]


MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"external_checksum": MD5[1:]}, "external_checksum"),
        ({"external_checksum": MD5 + "00"}, "external_checksum"),
        ({"external_checksum": MD5[:-1] + "g"}, "external_checksum"),
        ({"external_checksum": MD5, "checksum_algorithm": "SHA1"}, "external_checksum"),
        ({"external_checksum": MD5, "checksum_algorithm": "MD6"}, "checksum_algorithm"),
        ({"checksum_algorithm": "\\x"}, "checksum_algorithm"),
        ({"external_checksum": MD5, "recursive": True}, "external_checksum"),
    ],
)
def test_a_checksum_that_is_none_is_refused_by_its_field(api: Api, item: dict[str, object], field: str) -> None:
    bad = {"source_path": "/c", "destination_path": "/d", **item}
    answer = api.post("/transfer", transfer({"source_path": "/a", "destination_path": "/b"}, bad))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"DATA[1].{field}: ")
    assert not Task.objects.exists()


@pytest.mark.usefixtures("endpoints")
def test_what_a_delete_can_do_is_accepted(api: Api) -> None:
    answer = api.post("/delete", delete("/a", "/b/", recursive=True, ignore_missing=True, interpret_globs=False))
    task = Task.objects.get(pk=answer.body["task_id"])
    assert task.options["recursive"] is True
    assert task.options["ignore_missing"] is True


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(
    "path",
    [
        "/a b", "/'single' \"double\"", "/#", "/100%", "/%41", "/\u00fc\u6f22\U0001f4be", "/\udcff", "/a\udc80\udcfe/b",
        "/~/home", "/*?[x]{y}", "/back\\slash", "/-rf", "/ ", "/" + "x" * 255, "/" + "\u00fc" * 127, "/a;b|c&d$(e)`f`",
    ],
)  # fmt: skip
def test_odd_names_come_back_as_they_went_in(api: Api, path: str) -> None:
    answer = api.post("/transfer", transfer({"source_path": path, "destination_path": path}))
    assert answer.status == 202, answer.body
    item = Item.objects.get(task=answer.body["task_id"])
    assert (item.source_path, item.destination_path) == (path, path)
    _file(item, path, FileState.DONE)
    page = api.get(f"/task/{answer.body['task_id']}/successful_transfers").body
    assert [(row["source_path"], row["destination_path"]) for row in page["DATA"]] == [(path, path)]


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(
    "path",
    ["", "a", "..", "/..", "/a/../b", "/a/..", "/\0", "/a\n", "/a\r\nDELE b", "/\x1b[2J", "/\x7f", "/\udc41",
     "/" + "x" * 256, "/" + "\u00fc" * 128, "/x" * 2049, "~alice/a", "C:\\a"],
)  # fmt: skip
def test_bad_paths_are_refused_by_their_field(api: Api, path: str) -> None:
    good = {"source_path": "/a", "destination_path": "/b"}
    for field in good:
        answer = api.post("/transfer", transfer(good, {"source_path": "/c", "destination_path": "/d", field: path}))
        assert_error(answer, 400, "ClientError.BadRequest")
        assert answer.body["message"].startswith(f"DATA[1].{field}: ")
    answer = api.post("/delete", delete("/a", path))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("DATA[1].path: ")
    assert not Task.objects.exists()


@pytest.mark.usefixtures("endpoints")
def test_a_request_without_items_is_refused(api: Api) -> None:
    items: list[Any] | None
    for items in ([], None):
        for what, document in (("transfer", transfer()), ("delete", delete())):
            answer = api.post(f"/{what}", {**document, "DATA": items})
            assert_error(answer, 400, "ClientError.BadRequest.NoTransferItems")


@pytest.mark.usefixtures("endpoints")
def test_a_hundred_thousand_items_are_one_request(api: Api) -> None:
    many = [{"source_path": f"/from/{n:06}", "destination_path": f"/to/{n:06}"} for n in range(100_000)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = api.post("/transfer", transfer(*many))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert answer.status == 202, answer.body
    assert Item.objects.filter(task=answer.body["task_id"]).count() == 100_000
    assert grown < 500 * 2**20
    many[99_999]["destination_path"] = "/to/000000"
    answer = api.post("/transfer", transfer(*many))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("DATA[99999].destination_path: ")


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(
    ("deadline", "moment"),
    [
        ("2090-01-31 23:59:59", datetime(2090, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2090-01-31T23:59:59Z", datetime(2090, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2090-01-31T23:59:59+00:00", datetime(2090, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2090-01-31T23:59:59.5+02:00", datetime(2090, 1, 31, 21, 59, 59, 500_000, tzinfo=UTC)),
        ("2090-01-31", datetime(2090, 1, 31, tzinfo=UTC)),
    ],
)
def test_deadlines_come_in_many_forms(api: Api, deadline: str, moment: datetime) -> None:
    answer = api.post("/transfer", transfer(deadline=deadline))
    assert Task.objects.get(pk=answer.body["task_id"]).deadline == moment
    assert api.get(f"/task/{answer.body['task_id']}").body["deadline"] == moment.isoformat(timespec="seconds")


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize(
    ("field", "value"),
    [("deadline", "2001-01-01"), ("deadline", "soon"), ("deadline", "9999-99-99"), ("label", "x" * 129),
     ("label", "two\nlines"), ("label", " blank"), ("label", "\udcff"), ("submission_id", "1"), ("perf_cc", 0)],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_by_its_name(api: Api, field: str, value: object) -> None:
    answer = api.post("/transfer", transfer(**{field: value}))
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{field}: ")


# ---- a task


def _file(item: Item, path: str, state: FileState, **more: Any) -> File:
    settled = None if state is FileState.PENDING else datetime.now(UTC)
    values = {"kind": FileKind.FILE, "source_path": path, "destination_path": path, "size": 7, **more}
    return File.objects.create(
        task_id=item.task_id, item=item, key=uuid.uuid4().bytes, state=state, settled_at=settled, **values
    )


def _fail(task: Task) -> None:
    moves.fail(task.pk, moves.QUEUED, "EXPIRED", "Too late.", datetime.now(UTC))


def test_a_new_task_is_queued_and_says_all_that_clients_read(
    api: Api, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit(alice, ep1, ep2, label="mine")
    document = api.get(f"/task/{task.pk}").body
    expected = {
        "DATA_TYPE": "task", "task_id": str(task.pk), "type": "TRANSFER", "status": "ACTIVE", "label": "mine",
        "owner_id": str(alice.pk), "username": "alice", "completion_time": None, "nice_status": "Queued",
        "is_ok": True, "is_paused": False, "fatal_error": None, "faults": 0, "files": 0, "subtasks_total": 1,
        "subtasks_pending": 1, "subtasks_succeeded": 0, "sync_level": None, "verify_checksum": False,
        "command": "API 0.10", "history_deleted": False, "effective_bytes_per_second": 0,
    }  # fmt: skip
    assert document.items() >= expected.items()
    assert datetime.fromisoformat(document["request_time"]) == task.request_time.replace(microsecond=0)
    wanted = (
        "source_base_path destination_base_path source_local_user source_local_user_status destination_local_user "
        "destination_local_user_status encrypt_data delete_destination_extra preserve_timestamp skip_source_errors "
        "fail_on_quota_errors recursive_symlinks filter_rules directories symlinks files_skipped files_transferred "
        "subtasks_retrying subtasks_expired subtasks_canceled subtasks_failed subtasks_skipped_errors "
        "bytes_transferred bytes_checksummed nice_status_details nice_status_short_description nice_status_expires_in "
        "canceled_by_admin canceled_by_admin_message source_endpoint_display_name deadline "
        "destination_endpoint_display_name"
    )
    assert set(wanted.split()) <= set(document)


def test_a_delete_has_no_destination(api: Api, alice: User, ep1: Endpoint) -> None:
    document = api.get(f"/task/{submit_delete(alice, ep1).pk}").body
    assert document["type"] == "DELETE"
    assert {document[f"destination_endpoint{part}"] for part in ("", "_id", "_display_name")} == {None}


def test_a_failed_task_says_why_and_is_neither_ok_nor_not(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    _fail(task)
    document = api.get(f"/task/{task.pk}").body
    assert document["status"] == "FAILED"
    assert document["fatal_error"] == {"code": "EXPIRED", "description": "Too late."}
    assert (document["is_ok"], document["nice_status"]) == (None, None)
    assert document["completion_time"]
    assert (document["subtasks_expired"], document["subtasks_pending"]) == (1, 0)


def test_fields_leave_out_the_others(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    wanted = {"DATA_TYPE": "task", "task_id": str(task.pk), "status": "ACTIVE"}
    assert api.get(f"/task/{task.pk}", fields="task_id, status,none").body == wanted
    assert api.get("/task_list", fields="task_id,status").body["DATA"] == [wanted]


def test_label_and_deadline_change_while_the_task_runs(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, label="old")
    answer = api.put(f"/task/{task.pk}", {"DATA_TYPE": "task", "label": "new", "deadline": None})
    assert (answer.status, answer.code, answer.body["DATA_TYPE"]) == (200, "Updated", "result")
    assert api.get(f"/task/{task.pk}").body["label"] == "new"
    api.put(f"/task/{task.pk}", {"deadline": "2090-01-31"})
    document = api.get(f"/task/{task.pk}").body
    assert (document["label"], document["deadline"]) == ("new", "2090-01-31T00:00:00+00:00")
    _fail(task)
    assert_error(api.put(f"/task/{task.pk}", {"label": "late"}), 409, "TaskComplete")


def test_a_task_is_canceled_once(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    assert api.post(f"/task/{task.pk}/cancel").code == "Canceled"
    answer = api.post(f"/task/{task.pk}/cancel")
    assert (answer.status, answer.code, answer.body["DATA_TYPE"]) == (200, "TaskComplete", "result")
    document = api.get(f"/task/{task.pk}").body
    assert (document["status"], document["fatal_error"]["code"]) == ("FAILED", "CANCELED")


def test_a_task_at_work_is_asked_to_end(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    moves.move(task.pk, moves.QUEUED, moves.RUNNING, now=datetime.now(UTC))
    for _ in range(2):
        assert api.post(f"/task/{task.pk}/cancel").code == "CancelAccepted"
    assert api.get(f"/task/{task.pk}").body["status"] == "ACTIVE"


# ---- lists


@pytest.fixture
def history(alice: User, ep1: Endpoint, ep2: Endpoint) -> list[Task]:
    """Three tasks, one day apart: a failed transfer, a delete, a transfer."""
    start = datetime(2030, 1, 1, tzinfo=UTC)
    tasks = [
        submit(alice, ep1, ep2, label="Alpha"),
        submit_delete(alice, ep1, label="beta"),
        submit(alice, ep1, ep2),
    ]
    for day, task in enumerate(tasks):
        Task.objects.filter(pk=task.pk).update(request_time=start + timedelta(days=day))
    moves.fail(tasks[0].pk, moves.QUEUED, "EXPIRED", "Too late.", start + timedelta(days=10))
    return tasks


FILTERS: list[tuple[str, list[int]]] = [
    ("", [2, 1, 0]),
    ("type:TRANSFER", [2, 0]),
    ("type:TRANSFER,DELETE/status:ACTIVE,INACTIVE", [2, 1]),
    ("status:FAILED", [0]),
    ("label:Alpha", [0]),
    ("label:=Alpha", [0]),
    ("label:alpha", []),
    ("label:~al*", [0]),
    ("label:~?ETA", [1]),
    ("label:~a.*", []),
    ("label:!Alpha", [2, 1]),
    ("label:!~*a", [2]),
    ("label:Alpha,beta", [1, 0]),
    ("request_time:2030-01-02,2030-01-03", [2, 1]),
    ("request_time:2030-01-02 00:00:01,", [2]),
    ("request_time:,2030-01-01", [0]),
    ("request_time:2030-01-03", [2]),
    ("completion_time:2030-01-11,2030-01-11", [0]),
    ("completion_time:2031-01-01,", []),
]


@pytest.mark.parametrize(("text", "wanted"), FILTERS)
def test_a_filter_keeps_what_it_says(api: Api, history: list[Task], text: str, wanted: list[int]) -> None:
    body = api.get("/task_list", filter=text).body
    assert [row["task_id"] for row in body["DATA"]] == [str(history[number].pk) for number in wanted]
    assert (body["DATA_TYPE"], body["length"], body["total"]) == ("task_list", len(wanted), len(wanted))


def test_tasks_are_found_by_their_ids(api: Api, history: list[Task]) -> None:
    ids = [str(history[0].pk), str(history[2].pk).upper(), str(uuid.uuid4())]
    assert api.get("/task_list", filter="task_id:" + ",".join(ids)).body["total"] == 2


@pytest.mark.parametrize(
    "text",
    ["nothing", "status", "status:", "status:DONE", "type:transfer", "colour:red", "status:ACTIVE/status:FAILED",
     "task_id:x", "request_time:soon", "request_time:,,", ":x", "task_id:" + ",".join(["x"] * 1001)],
)  # fmt: skip
def test_a_filter_that_is_not_understood_is_refused(api: Api, text: str) -> None:
    answer = api.get("/task_list", filter=text)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith("filter: ")


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("request_time", [0, 1, 2]), ("request_time DESC", [2, 1, 0]), ("request_time asc", [0, 1, 2]),
        ("type,request_time DESC", [1, 2, 0]), ("type DESC,request_time", [0, 2, 1]), ("label", [2, 0, 1]),
    ],
)  # fmt: skip
def test_the_order_is_the_one_asked_for(api: Api, history: list[Task], order: str, wanted: list[int]) -> None:
    rows_ = api.get("/task_list", orderby=order).body["DATA"]
    assert [row["task_id"] for row in rows_] == [str(history[number].pk) for number in wanted]


@pytest.mark.parametrize("order", ["colour", "label UP", "label DESC DESC", "label label", "DESC", " ", "label;drop"])
def test_an_order_that_is_not_understood_is_refused(api: Api, order: str) -> None:
    assert_error(api.get("/task_list", orderby=order), 400, "ClientError.BadRequest")


def test_pages_are_parts_of_the_whole(api: Api, history: list[Task]) -> None:
    whole = [row["task_id"] for row in api.get("/task_list").body["DATA"]]
    for limit in (1, 2, 3, 1000, 10**9):
        found: list[str] = []
        for offset in range(0, 3, limit):
            body = api.get("/task_list", limit=limit, offset=offset).body
            assert (body["total"], body["offset"], body["length"]) == (3, offset, len(body["DATA"]))
            assert body["limit"] == min(limit, 1000)
            found += [row["task_id"] for row in body["DATA"]]
        assert found == whole
    assert api.get("/task_list", offset=5).body["DATA"] == []
    assert api.get("/task_list", offset=5).body["total"] == 3


@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("value", ["-1", "x", "1.5", "1e3", "9" * 19, "\u0663", " 1"])
def test_a_number_that_is_none_is_refused(api: Api, name: str, value: str) -> None:
    answer = api.get("/task_list", **{name: value})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(f"{name}: ")


def test_events_come_newest_first_and_errors_alone(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    told = [
        NewEvent("STARTED", "started", {"concurrency": 2}),
        NewEvent("CONNECT_FAILED", "no \x00answer\udcff", "421", is_error=True),
    ]
    events.append(task.pk, told, datetime.now(UTC))
    body = api.get(f"/task/{task.pk}/event_list", filter="").body
    assert [row["code"] for row in body["DATA"]] == ["CONNECT_FAILED", "STARTED", "SUBMITTED"]
    assert (body["DATA_TYPE"], body["total"], body["limit"], body["offset"]) == ("event_list", 3, 10, 0)
    assert json.loads(body["DATA"][1]["details"]) == {"concurrency": 2}
    assert set(body["DATA"][0]) == {"DATA_TYPE", "code", "is_error", "description", "details", "time"}
    for text, codes in (("is_error:1", ["CONNECT_FAILED"]), ("is_error:0", ["STARTED", "SUBMITTED"])):
        page = api.get(f"/task/{task.pk}/event_list", filter=text).body
        assert [row["code"] for row in page["DATA"]] == codes
        assert page["total"] == len(codes)
    assert [row["code"] for row in api.get(f"/task/{task.pk}/event_list", limit=1, offset=1).body["DATA"]] == [
        "STARTED"
    ]
    for text in ("is_error:2", "is_error:1,0", "code:STARTED", "x"):
        assert_error(api.get(f"/task/{task.pk}/event_list", filter=text), 400, "ClientError.BadRequest")


def _all_pages(api: Api, path: str, limit: int) -> list[str]:
    found: list[str] = []
    marker = None
    while True:
        body = api.get(path, limit=limit, **({} if marker is None else {"marker": marker})).body
        assert body["marker"] == marker
        assert 0 < len(body["DATA"]) <= max(limit, 1)
        found += [row["source_path"] for row in body["DATA"]]
        marker = body["next_marker"]
        if marker is None:
            return found


def test_files_are_read_page_by_page_with_markers(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    item = task.items.get()
    for number in range(7):
        _file(item, f"/moved/{number}", FileState.DONE)
    _file(item, "/folder", FileState.DONE, kind=FileKind.DIRECTORY)
    _file(item, "/skipped", FileState.SKIPPED)
    _file(item, "/waits", FileState.PENDING, error_code="TIMEOUT")
    for number in range(5):
        _file(item, f"/lost/{number}", FileState.FAILED, error_code="PERMISSION_DENIED", error_details="550 no")
    for limit in (0, 1, 3, 7, 100):
        path = f"/task/{task.pk}/successful_transfers"
        assert _all_pages(api, path, limit) == [f"/moved/{number}" for number in range(7)]
        path = f"/task/{task.pk}/skipped_errors"
        assert _all_pages(api, path, limit) == [f"/lost/{number}" for number in range(5)]
    row = api.get(f"/task/{task.pk}/skipped_errors").body["DATA"][0]
    assert (row["error_code"], row["is_directory"], row["is_symlink"]) == ("PERMISSION_DENIED", False, False)
    _fail(task)
    assert _all_pages(api, f"/task/{task.pk}/skipped_errors", 2)[0] == "/waits"


def test_a_page_of_nothing_has_no_next_one(api: Api, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    for name in ("successful_transfers", "skipped_errors"):
        body = api.get(f"/task/{task.pk}/{name}", marker=10**17).body
        assert (body["DATA_TYPE"], body["DATA"], body["next_marker"]) == (name, [], None)
        assert_error(api.get(f"/task/{task.pk}/{name}", marker="x"), 400, "ClientError.BadRequest")


# ---- what it costs


def test_a_look_at_a_task_is_two_queries_and_at_a_list_three(
    api: Api, alice: User, ep1: Endpoint, ep2: Endpoint, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = submit(alice, ep1, ep2)
    api.get("/submission_id")  # the first use of a token is written down
    with django_assert_num_queries(2):
        api.get(f"/task/{task.pk}")
    with django_assert_num_queries(3):
        api.get("/task_list")
    with django_assert_num_queries(3):
        api.get(f"/task/{task.pk}/event_list")


@pytest.mark.usefixtures("endpoints")
@pytest.mark.parametrize("items", [1, 1000])
def test_a_submission_costs_the_same_number_of_queries_for_any_number_of_items(
    api: Api, items: int, django_assert_max_num_queries: Any
) -> None:
    api.get("/submission_id")
    many = [{"source_path": f"/a/{n}", "destination_path": f"/b/{n}"} for n in range(items)]
    with django_assert_max_num_queries(18):
        assert api.post("/transfer", transfer(*many)).status == 202
