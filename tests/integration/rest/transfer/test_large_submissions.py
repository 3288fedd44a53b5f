"""Long lists of items are read as they come, within bounds; a refused one costs little, and strangers' are not read."""

from __future__ import annotations

import io
import json
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from rest_framework.exceptions import ParseError

from endpoints.error_meanings import ApiError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.rest import Api, assert_error
from transferapi.rest.http import long_bodies
from transferapi.tasks.models import Item, Task

pytestmark = pytest.mark.django_db

ITEM = {"DATA_TYPE": "transfer_item", "source_path": "/a", "destination_path": "/b", "recursive": False}


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


def submission(source: Endpoint, destination: Endpoint, items: int, **more: object) -> dict[str, Any]:
    data = [{**ITEM, "source_path": f"/from/{n:06}", "destination_path": f"/to/{n:06}"} for n in range(items)]
    ends = {"source_endpoint": str(source.pk), "destination_endpoint": str(destination.pk)}
    return {"submission_id": "3f4a4a1c-7d3f-4b43-9f5c-3a1f3d1a5b11", **ends, **more, "DATA": data}


WHOLE: list[Any] = [
    {},
    {"DATA": []},
    {"label": "x", "DATA": [ITEM], "deadline": None},
    {"DATA": [ITEM, ITEM, ITEM], "label": '}]{[,:\\"', "sync_level": 12345},
    {"DATA": [{**ITEM, "source_path": 'quote " brace }, bracket ]'}, {"source_path": "/é/\udcff/\U0001f600"}, {}]},
    {"DATA": {"no": "list"}, "filter_rules": [{"method": "include", "name": "*"}]},
    {"DATA": None},
    [ITEM],
    "text",
    17,
    None,
]


@pytest.mark.parametrize("piece", [1, 2, 7, 64, 1 << 18])
@pytest.mark.parametrize("document", WHOLE, ids=range(len(WHOLE)))
def test_a_document_is_the_same_in_whatever_pieces_it_comes(
    document: object, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_bodies, "PIECE", piece)
    for text in (json.dumps(document), json.dumps(document, indent=3), json.dumps(document) + " \n"):
        assert long_bodies.read(io.BytesIO(text.encode())) == document
    raw = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert long_bodies.read(io.BytesIO(raw)) == document


def test_of_items_only_what_items_have_is_kept_and_a_wrong_value_stays_wrong() -> None:
    items = [{**ITEM, "junk": [[]] * 9, "source_path": {"a": [1]}}, [1, 2], "x", None, 5]
    found = long_bodies.read(io.BytesIO(json.dumps({"DATA": items, "more": [1]}).encode()))
    assert found == {"DATA": [{**ITEM, "source_path": (), "junk": None}, (), "x", None, 5], "more": [1]}


def test_of_the_names_of_unknown_fields_a_few_are_kept() -> None:
    items = [{**ITEM, f"{number:03}" + "x" * 1000: "y" * 1000} for number in range(100)]
    found = long_bodies.read(io.BytesIO(json.dumps({"DATA": items}).encode()))["DATA"]
    unknown = [name for item in found for name in item if name not in ITEM]
    assert unknown == [f"{number:03}" + "x" * 61 for number in range(5)]


@pytest.mark.parametrize("piece", [1, 5, 1 << 18])
def test_the_place_of_an_error_is_that_of_the_whole_document(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_bodies, "PIECE", piece)
    texts = '{\n"a": "b",\n"DATA": [\n {"path": "/x"},\n\n  {"path": }\n]}', '{"a":\n\n  tru}', '{"a": 1}\n\n  x'
    for wrong in texts:
        with pytest.raises(json.JSONDecodeError) as known:
            json.loads(wrong)
        with pytest.raises(ParseError) as found:
            long_bodies.read(io.BytesIO(wrong.encode()))
        assert str(found.value.detail) == f"JSON parse error: {known.value}"


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{**ITEM, "source_path": ["/a"]}], "DATA[0].source_path: expected a string"),
        ([ITEM, [1]], "DATA[1]: expected a JSON object"),
        ([{"source_path": "/a"}], "DATA[0].destination_path: is missing"),
    ],
)
def test_what_is_wrong_with_an_item_is_said_with_its_number(
    api: Api, ep1: Endpoint, ep2: Endpoint, items: object, words: str
) -> None:
    answer = api.post("/transfer", {**submission(ep1, ep2, 0), "DATA": items})
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"] == words


@pytest.mark.parametrize("text", [
    '{"a":1', '{"DATA":[{}', '{"DATA":[{},]}', '{"DATA":[{}{}]}', '{"DATA":[{}]', '{"a" 1}', "{1:2}", '{"a":1,}', "{}x",
    '{"DATA":[{"a":NaN}]}', '{"a":1}\0{"b":2}',
])  # fmt: skip
def test_what_is_no_json_is_refused_in_whatever_pieces(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for piece in (1, 5, 1 << 18):
        monkeypatch.setattr(long_bodies, "PIECE", piece)
        with pytest.raises(Exception, match="JSON parse error"):
            long_bodies.read(io.BytesIO(text.encode()))


def test_paths_of_ascii_are_never_too_much_for_the_memory(settings: Any) -> None:
    """A text takes more memory than its octets in the body."""
    item = b'{"source_path":"/%b","destination_path":"/%b"}' % (b"a" * 160, b"b" * 160)
    body = b'{"DATA":[' + b",".join([item] * 1000) + b"]}"
    settings.LIMITS = replace(settings.LIMITS, items=1000, submission=len(body))
    assert len(long_bodies.read(io.BytesIO(body))["DATA"]) == 1000


@pytest.mark.parametrize(
    "body",
    [
        b'{"DATA":[' + b",".join([json.dumps(ITEM).encode()] * 40_000) + b"]}",
        b'{"DATA":[' + b",".join([b'{"x":[' + b"[]," * 100 + b"[]]}"] * 900) + b"]}",
        b'{"DATA":[' + b"[]," * 400_000 + b"[]]}",
        b'{"DATA":[{"source_path":"' + b"x" * 3_000_000 + b'"}]}',
        b'{"x":"' + b"x" * 3_000_000 + b'"}',
        '{{"DATA":[{}]}}'.format(",".join([f'{{"source_path":"{"x" * 900}\U0001f600"}}'] * 900)).encode(),
    ],
    ids=["items", "lists", "bare lists", "path", "label", "wide characters"],
)
def test_what_is_refused_takes_a_part_of_its_own_length_in_memory(api: Api, settings: Any, body: bytes) -> None:
    settings.LIMITS = replace(settings.LIMITS, items=1000, submission=1 << 20 if "xxxx" in str(body[:99]) else 1 << 23)
    stream = io.BytesIO(body)
    tracemalloc.start()
    try:
        answer = api.call("POST", "/transfer", raw=b"{", environ={"wsgi.input": stream, "CONTENT_LENGTH": len(body)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status in (400, 413)
    assert answer.code in ("ClientError.BadRequest", "ClientError.RequestTooLarge")
    assert peak < (8 << 20)


def test_a_hundred_thousand_items_are_taken_at_once(
    api: Api, ep1: Endpoint, ep2: Endpoint, redis_server: object
) -> None:
    body = submission(ep1, ep2, 100_000, skip_activation_check=True)
    answer = api.post("/transfer", body)
    assert answer.status == 202
    assert Item.objects.filter(task=answer.body["task_id"]).count() == 100_000


# ---- one after the other


def test_one_large_body_is_read_at_a_time(
    api: Api, alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_bodies, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(long_bodies, "LARGE", 1000)
    large, small = submission(ep1, ep2, 20), submission(ep1, ep2, 2)
    with long_bodies.turns.turn(alice.pk):
        answer = api.post("/transfer", large)
        assert_error(answer, 429, "ClientError.TooManyRequests")
        assert answer.headers["Retry-After"]
        answer = Api(bob).post("/transfer", large)
        assert_error(answer, 503, "ServiceUnavailable")
        assert answer.headers["Retry-After"]
        assert api.post("/transfer", small).status == 202, "small ones go past"
    Task.objects.all().delete()
    assert api.post("/transfer", large).status == 202
    assert api.post("/transfer", large).status == 202, "a turn ends with its answer"
    assert api.call("POST", "/transfer", raw=b"{" + b" " * 2000).status == 400
    assert api.post("/transfer", large).status == 202, "also with an error"


def test_who_waits_gets_a_turn_when_it_is_free() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with long_bodies.turns.turn("first"):
            begun.set()
            go_on.wait(60)

    first = threading.Thread(target=hold)
    first.start()
    begun.wait(60)
    threading.Timer(0.05, go_on.set).start()
    with long_bodies.turns.turn("second"), pytest.raises(ApiError), long_bodies.turns.turn("second"):
        pass
    first.join(60)


class Endless:
    """Counts what is read of a body without end."""

    def __init__(self) -> None:
        self.octets = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        self.octets += size
        return b" " * size

    readline = read


@pytest.mark.parametrize("length", [100_000, 10**12])
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/xml", "text/xml", "application/x-www-form-urlencoded"]
)
def test_of_strangers_no_door_reads_more_than_a_form(content_type: str, length: int) -> None:
    doors = [
        "/v0.10/transfer", "/v0.10/delete", "/v0.10/endpoint", "/v2/timer", "/v2/oauth2/token",
        "/v2/oauth2/token/revoke",
        "/v2/oauth2/token/introspect", "/v2/groups", "/signin", "/nothing",
    ]  # fmt: skip
    for door in doors:
        body = Endless()
        environ = {"wsgi.input": body, "CONTENT_LENGTH": str(length)}
        answer = Api(root="").call("POST", door, raw=b"{", content_type=content_type, environ=environ)
        assert answer.status >= 400, door
        assert body.octets <= (1 << 20) + 1, door
