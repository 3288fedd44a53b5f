"""Streams of events: nothing is missed, whatever the order of commits, lost connections and slow readers."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import pytest
from django.db import connection, transaction
from django.test import Client

from deploy.stack.redis import Redis
from endpoints.models import Endpoint
from identity import tokens
from identity.clock import moment
from identity.models import ApiToken, User
from tests.integration.cast import make_user, submit, take
from tests.integration.rest import Api, assert_error
from tests.integration.tasks.test_mails import fail, succeed
from tests.waiting import eventually
from transferapi.rest.push import event_broadcaster, stream_transport
from transferapi.tasks import events, moves
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Event, Task
from transferapi.tasks.notify import feed
from transferapi.tasks.notify.feed import Cursor, Snapshot
from transferapi.tasks.worker import measurements, slice_end

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Told:
    """One message of a stream."""

    name: str = ""
    id: str | None = None
    data: Any = None


@dataclass
class Listener:
    """A client, which reads in a thread of its own."""

    user: User
    path: str
    last_event_id: str | None = None
    told: list[Told] = field(default_factory=list)
    raw: bytes = b""
    over: bool = False

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {tokens.issue(self.user)}", "Accept": "text/event-stream"}
        if self.last_event_id is not None:
            headers["Last-Event-ID"] = self.last_event_id
        self.response = Client().get(f"/v0.10{self.path}", headers=headers)
        assert self.response.status_code == 200, self.response.content
        assert self.response["Content-Type"] == "text/event-stream"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: self.last_id or self.over)

    def _read(self) -> None:
        for chunk in self.response.streaming_content:  # type: ignore[attr-defined]
            self.raw += chunk
            self.told = list(parse(self.raw))
        self.over = True

    @property
    def last_id(self) -> str | None:
        return next((one.id for one in reversed(self.told) if one.id), None)

    @property
    def codes(self) -> list[str]:
        return [one.name for one in self.told if one.name not in ("", "task")]

    @property
    def statuses(self) -> list[str]:
        return [one.data["status"] for one in self.told if one.name == "task"]

    def close(self) -> None:
        """Close the response, as a browser does that goes away: the server notices at its next send."""
        self.response.close()


def parse(raw: bytes) -> Iterator[Told]:
    """Parse an event stream like the HTML standard, simplified."""
    for block in raw.decode("ascii").split("\n\n")[:-1]:
        told = Told()
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "event":
                told.name = value
            elif name == "id":
                told.id = value
            elif name == "data":
                told.data = json.loads(value)
        yield told


@pytest.fixture(autouse=True)
def _stopped(settings: Any) -> Iterator[None]:
    """Streams of Django's test client hold threads: enough for each test."""
    settings.WEB_THREADS = 64
    yield
    event_broadcaster.stop()


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


def tell(task: Task, *codes: str) -> None:
    with transaction.atomic():
        events.append(task.pk, [NewEvent(code, f"It is {code}.") for code in codes], moment())


def test_a_stream_of_a_task_reports_each_event_and_ends_with_the_task(alice: User, task: Task) -> None:
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    eventually(lambda: listener.statuses == ["ACTIVE"])
    tell(task, "ONE", "TWO")
    succeed(task)
    eventually(lambda: listener.over)
    assert listener.codes == ["ONE", "TWO", "SUCCEEDED"]
    assert listener.statuses[-1] == "SUCCEEDED"
    assert listener.told[-1].name == "task"
    one = next(told for told in listener.told if told.name == "ONE")
    document = Api(alice).get(f"/task/{task.pk}/event_list", limit=100).body["DATA"]
    assert one.data in [{**row, "task_id": str(task.pk)} for row in document]
    assert one.id is not None
    assert one.id.split("@")[0] == str(Event.objects.get(code="ONE").pk)
    assert listener.raw.startswith(b": Waybill\nretry: ")


def test_a_task_in_a_stream_is_as_get_shows_it(alice: User, task: Task) -> None:
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    eventually(lambda: listener.statuses)
    shown = Api(alice).get(f"/task/{task.pk}").body
    told = next(one.data for one in listener.told if one.name == "task")
    assert {name: value for name, value in told.items() if "forecast" not in name} == {
        name: value for name, value in shown.items() if "forecast" not in name
    }


def test_a_stream_of_a_user_has_all_tasks_of_the_user_and_no_others(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint, task: Task
) -> None:
    listener = Listener(alice, "/event_stream")
    eventually(lambda: listener.statuses == ["ACTIVE"])
    other, foreign = submit(alice, ep1, ep2), submit(bob, public, public, ("/a", "/b"))
    fail(foreign)
    fail(task)
    succeed(other)
    eventually(lambda: "SUCCEEDED" in listener.statuses)
    told = {one.data["task_id"] for one in listener.told if one.data}
    assert told == {str(task.pk), str(other.pk)}
    assert listener.codes == ["SUBMITTED", "QUOTA_EXCEEDED", "SUCCEEDED"]
    assert not listener.over


def test_who_comes_back_goes_on_at_the_last_event(alice: User, task: Task) -> None:
    first = Listener(alice, f"/task/{task.pk}/event_stream")
    tell(task, "ONE")
    eventually(lambda: first.codes == ["ONE"])
    place = first.last_id
    first.close()
    tell(task, "TWO", "THREE")
    for again in (
        Listener(alice, f"/task/{task.pk}/event_stream", place),
        Listener(alice, f"/task/{task.pk}/event_stream?last_event_id={place}"),
    ):
        eventually(lambda again=again: len(again.codes) == 2)  # type: ignore[misc]
        assert again.codes == ["TWO", "THREE"]


def test_the_place_of_another_user_shows_nothing_of_that_user(
    alice: User, bob: User, public: Endpoint, task: Task
) -> None:
    """bob has the place and the task of alice, and asks for what came before, by each way to name a place."""
    first = Listener(alice, f"/task/{task.pk}/event_stream")
    place = first.last_id
    tell(task, "ONE", "TWO")
    mine = submit(bob, public, public, ("/a", "/b"))
    headers = {"Authorization": f"Bearer {tokens.issue(bob)}", "Accept": "text/event-stream"}
    for path in (f"/task/{task.pk}/event_stream", f"/task/{task.pk}/event_stream?last_event_id={place}"):
        assert Client().get(f"/v0.10{path}", headers={**headers, "Last-Event-ID": str(place)}).status_code == 404
    for listener in (
        Listener(bob, "/event_stream", place),
        Listener(bob, f"/event_stream?last_event_id={place}&task_id={task.pk}"),
        Listener(bob, "/event_stream", "0"),
    ):
        fail(submit(bob, public, public, ("/a", "/c")))
        eventually(lambda listener=listener: "FAILED" in listener.statuses)  # type: ignore[misc]
        assert str(task.pk).encode() not in listener.raw
        assert not {"ONE", "TWO"} & set(listener.codes)
        listener.close()
    assert mine.owner == bob


def test_in_the_midst_of_what_came_together_nothing_comes_twice(alice: User, task: Task) -> None:
    first = Listener(alice, f"/task/{task.pk}/event_stream")
    tell(task, "ONE", "TWO", "THREE")
    eventually(lambda: len(first.codes) == 3)
    for number, told in enumerate(one for one in first.told if one.name not in ("", "task")):
        again = Listener(alice, f"/task/{task.pk}/event_stream", told.id)
        eventually(lambda again=again: again.statuses)  # type: ignore[misc]
        assert again.codes == ["ONE", "TWO", "THREE"][number + 1 :]
        again.close()


def test_zero_is_the_beginning(alice: User, task: Task) -> None:
    tell(task, *(f"E{number}" for number in range(3)))
    listener = Listener(alice, f"/task/{task.pk}/event_stream", "0")
    eventually(lambda: listener.statuses)
    assert listener.codes == ["SUBMITTED", "E0", "E1", "E2"]


def test_what_commits_late_is_not_missed(alice: User, task: Task, database_url: str) -> None:
    """The late event has a smaller id than an event that the stream has already sent."""
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    late = psycopg2.connect(database_url)
    late.cursor().execute(
        "INSERT INTO tasks_event (task_id, time, code, is_error, description, details)"
        " VALUES (%s, now(), 'LATE', false, '', '')",
        [str(task.pk)],
    )
    tell(task, "EARLY")
    eventually(lambda: listener.codes == ["EARLY"])
    place = listener.last_id
    listener.close()
    late.commit()
    late.close()
    again = Listener(alice, f"/task/{task.pk}/event_stream", place)
    eventually(lambda: again.codes == ["LATE"])
    ids = dict(Event.objects.filter(task=task).values_list("code", "pk"))
    assert ids["LATE"] < ids["EARLY"]
    tell(task, "NEXT")
    eventually(lambda: again.codes == ["LATE", "NEXT"])


def test_many_who_write_at_once_are_all_reported_once(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    tasks = [submit(alice, ep1, ep2) for _ in range(4)]
    listener = Listener(alice, "/event_stream")

    def write(task: Task) -> None:
        try:
            for number in range(25):
                with transaction.atomic():
                    events.append(task.pk, [NewEvent(f"{task.pk}-{number}", "")], moment())
                    if number % 3 == 0:
                        events.append(task.pk, [NewEvent(f"{task.pk}-{number}-more", "")], moment())
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    places = []
    while any(thread.is_alive() for thread in threads):
        places += [place] if (place := listener.last_id) else []
    for thread in threads:
        thread.join()
    everything = set(Event.objects.exclude(code="SUBMITTED").values_list("code", flat=True))
    eventually(lambda: set(listener.codes) == everything)
    assert len(listener.codes) == len(everything), "none came twice"
    listener.close()
    # A listener that reconnects after any of these events gets all later ones.
    had = [one.id for one in listener.told]
    for place in {*places[:: max(1, len(places) // 3)]}:
        again = Listener(alice, "/event_stream", place)
        rest = [one.name for one in listener.told[had.index(place) + 1 :] if one.name not in ("", "task")]
        eventually(lambda again=again, rest=rest: sorted(again.codes) == sorted(rest))  # type: ignore[misc]
        again.close()
        event_broadcaster.stop()


def test_a_long_absence_is_caught_up_page_by_page(alice: User, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PAGE", 3)
    monkeypatch.setattr(event_broadcaster, "PAGE", 3)
    codes = [f"E{number}" for number in range(10)]
    for code in codes:
        tell(task, code)
    listener = Listener(alice, f"/task/{task.pk}/event_stream", "0")
    eventually(lambda: listener.statuses)
    assert listener.codes == ["SUBMITTED", *codes]
    tell(task, *(f"F{number}" for number in range(10)))
    eventually(lambda: len(listener.codes) == 21)
    assert listener.codes[11:] == [f"F{number}" for number in range(10)], "more than a page at once, while it listened"


def test_after_a_very_long_absence_it_says_that_there_was_more(
    alice: User, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_REPLAYED", 4)
    tell(task, *(f"E{number}" for number in range(10)))
    listener = Listener(alice, f"/task/{task.pk}/event_stream", "0")
    eventually(lambda: listener.statuses)
    assert listener.codes == ["missed", "E6", "E7", "E8", "E9"]


def test_what_would_take_too_long_to_find_among_all_tasks_is_not_sought(
    alice: User, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Listener(alice, "/event_stream")
    place = first.last_id
    tell(task, "ONE", "TWO", "THREE")
    eventually(lambda: len(first.codes) == 3)
    near = Listener(alice, "/event_stream", place)
    eventually(lambda: near.codes == ["ONE", "TWO", "THREE"])
    event_broadcaster.stop()
    monkeypatch.setattr(feed, "MOST_LOOKED_THROUGH", 2)
    for far in (Listener(alice, "/event_stream", place), Listener(alice, "/event_stream", "0")):
        eventually(lambda far=far: far.codes == ["missed"])  # type: ignore[misc]
    tell(task, "FOUR")
    eventually(lambda: far.codes == ["missed", "FOUR"])
    of_task = Listener(alice, f"/task/{task.pk}/event_stream", place)
    eventually(lambda: of_task.codes == ["ONE", "TWO", "THREE", "FOUR"])


def test_a_reader_who_takes_nothing_costs_a_bounded_place_and_catches_up(
    alice: User, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_broadcaster, "ROOM", 2000)
    transport = stream_transport.ThreadTransport()
    stream = event_broadcaster.current().open(feed.FeedScope(alice.pk, task.pk), None, lambda: True, transport)
    eventually(lambda: stream.live)
    codes = [f"E{number}" for number in range(2000)]
    for start in range(0, len(codes), 50):
        tell(task, *codes[start : start + 50])
    eventually(lambda: not stream.live)
    # The room, and what one look brings: all of it would be half a million octets.
    assert transport.pending < 2000 + 300 * feed.PAGE
    taken = b""
    chunks = iter(transport)
    while f"event: {codes[-1]}\n".encode() not in taken:
        taken += next(chunks)
    assert [told.name for told in parse(taken) if told.name.startswith("E")] == codes


def test_the_database_may_go_away_and_nothing_is_missed(alice: User, task: Task, database_url: str) -> None:
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    tell(task, "BEFORE")
    eventually(lambda: listener.codes == ["BEFORE"])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        assert cursor.rowcount >= 1
    tell(task, "MEANWHILE")
    eventually(lambda: listener.codes == ["BEFORE", "MEANWHILE"])
    tell(task, "AFTER")
    eventually(lambda: listener.codes == ["BEFORE", "MEANWHILE", "AFTER"])


def test_a_lost_notification_costs_seconds_and_no_event(
    alice: User, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_broadcaster, "SAFETY_SECONDS", 0.2)
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    Event.objects.create(task=task, time=moment(), code="SILENT", description="", details="")
    eventually(lambda: listener.codes == ["SILENT"])


def test_progress_is_reported_at_most_once_a_second_and_changes_of_state_at_once(alice: User, task: Task) -> None:
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    grant = take(task)
    for files in range(50):
        Task.objects.filter(pk=task.pk).update(files=files)
        measurements.add_event(task.pk, grant.epoch, NewEvent("PROGRESS", ""))
    eventually(lambda: listener.codes.count("PROGRESS") == 50)
    eventually(lambda: any(one.data["files"] == 49 for one in listener.told if one.name == "task"))
    assert len(listener.statuses) < 25
    Task.objects.filter(pk=task.pk).update(files=0)
    slice_end.fail(task.pk, grant.epoch, "X", "x")
    eventually(lambda: listener.over)
    assert listener.statuses[-1] == "FAILED"


# ---- who may listen


def test_a_task_that_is_done_is_reported_and_who_has_all_need_not_come_back(alice: User, task: Task) -> None:
    moves.cancel(alice, task.pk)
    listener = Listener(alice, f"/task/{task.pk}/event_stream")
    eventually(lambda: listener.over)
    assert (listener.codes, listener.statuses) == ([], ["FAILED"])
    whole = Listener(alice, f"/task/{task.pk}/event_stream", "0")
    eventually(lambda: whole.over)
    assert (whole.codes, whole.statuses) == (["SUBMITTED", "CANCELED"], ["FAILED"])
    again = Api(alice).call("GET", f"/task/{task.pk}/event_stream", headers={"Last-Event-ID": str(whole.last_id)})
    assert (again.status, again.body) == (204, None)


@pytest.mark.parametrize(
    "bad", ["x", "-1", "1@", "1@2:1:", "1@0:0:", "1@1:5:9", "1@1:1:@", "9" * 5000, "1@1:99999999999999999999:"]
)
def test_a_place_that_is_none_is_refused(alice: User, task: Task, bad: str) -> None:
    for path in ("/event_stream", f"/task/{task.pk}/event_stream"):
        assert_error(Api(alice).get(path, last_event_id=bad), 400, "ClientError.BadRequest")


def test_a_place_in_another_database_begins_anew(alice: User, task: Task) -> None:
    listener = Listener(alice, f"/task/{task.pk}/event_stream", "99@900000000:900000000:")
    eventually(lambda: listener.codes == ["SUBMITTED"])


def test_events_of_another_database_are_of_long_ago_here(alice: User, task: Task) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_event SET written_by = '900000000'")
    listener = Listener(alice, f"/task/{task.pk}/event_stream", "0")
    eventually(lambda: listener.codes == ["SUBMITTED"])
    assert Event.objects.get(task=task).written_by == 3


def test_errors_are_documents_whatever_the_client_accepts(bob: User, task: Task) -> None:
    headers = {"Accept": "text/event-stream"}
    for path in (f"/task/{task.pk}/event_stream", f"/task/{uuid.uuid4()}/event_stream"):
        assert_error(Api(bob).call("GET", path, headers=headers), 404, "ClientError.NotFound")
    assert_error(Api().call("GET", "/event_stream", headers=headers), 401, "ClientError.AuthenticationFailed")


@pytest.mark.parametrize(
    "shut_out",
    [
        lambda user: ApiToken.objects.filter(user=user).delete(),
        lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
    ],
)
def test_who_may_not_listen_any_more_is_hung_up_on(
    alice: User, task: Task, monkeypatch: pytest.MonkeyPatch, shut_out: Callable[[User], object]
) -> None:
    monkeypatch.setattr(event_broadcaster, "CHECK_SECONDS", 0.1)
    listener = Listener(alice, "/event_stream")
    shut_out(alice)
    eventually(lambda: listener.over)


def _changes_password(browser: Client, user: User) -> None:
    """Change the password outside of this session, whose row stays."""
    user.set_password("another horse battery")
    user.save()


@pytest.mark.parametrize("ends", [lambda browser, _: browser.logout(), _changes_password])
def test_a_stream_ends_with_its_session(
    alice: User, redis_server: Redis, monkeypatch: pytest.MonkeyPatch, ends: Callable[[Client, User], object]
) -> None:
    monkeypatch.setattr(event_broadcaster, "CHECK_SECONDS", 0.1)
    browser = Client()
    browser.force_login(alice)
    answer = browser.get("/v0.10/event_stream", headers={"Accept": "text/event-stream"})
    chunks = iter(answer.streaming_content)  # type: ignore[attr-defined]
    taken = b""
    while b"id: " not in taken:
        taken += next(chunks)
    monkeypatch.setattr(stream_transport, "THREAD_HEARTBEAT_SECONDS", 0.05)
    assert next(chunks) == stream_transport.HEARTBEAT, "as long as he is signed in he may listen"
    ends(browser, alice)
    assert set(chunks) <= {stream_transport.HEARTBEAT}


def test_head_gets_no_stream(alice: User, task: Task) -> None:
    for path in ("/event_stream", f"/task/{task.pk}/event_stream"):
        answer = Api(alice).call("HEAD", path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")


def test_a_user_has_so_many_streams_and_no_more(
    alice: User, bob: User, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_broadcaster, "MOST_OF_A_USER", 2)
    listeners = [Listener(alice, "/event_stream"), Listener(alice, f"/task/{task.pk}/event_stream")]
    refused = Api(alice).get("/event_stream")
    assert_error(refused, 429, "ClientError.TooManyRequests")
    assert int(refused.headers["Retry-After"]) > 0
    other = Listener(bob, "/event_stream")
    monkeypatch.setattr(event_broadcaster, "THREADS_OF_ALL", 20)
    assert_error(Api(bob).get("/event_stream"), 429, "ClientError.TooManyRequests")
    moves.cancel(alice, task.pk)
    eventually(lambda: listeners[1].over)
    Listener(bob, "/event_stream")
    assert not other.over


@pytest.mark.parametrize(("threads", "most_of_a_user", "most"), [(8, 2, 4), (3, 0, 1), (1, 0, 0)])
def test_streams_that_hold_threads_of_the_web_server_leave_most_for_requests(
    alice: User, settings: Any, threads: int, most_of_a_user: int, most: int
) -> None:
    settings.WEB_THREADS = threads
    open_ones = [Listener(alice, "/event_stream") for _ in range(most_of_a_user)]
    assert_error(Api(alice).get("/event_stream"), 429, "ClientError.TooManyRequests")
    if most_of_a_user:
        other = make_user("other")
        open_ones += [Listener(other, "/event_stream") for _ in range(most - most_of_a_user)]
        assert_error(Api(make_user("last")).get("/event_stream"), 429, "ClientError.TooManyRequests")
    assert not any(listener.over for listener in open_ones)


def test_a_page_without_room_for_its_stream_gets_an_answer_that_is_no_error(alice: User, settings: Any) -> None:
    """A browser writes each status of an error to its console, and ends quietly at 204."""
    settings.WEB_THREADS = 1
    browser = Client()
    browser.force_login(alice)
    answer = browser.get("/v0.10/event_stream", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_stream_that_holds_a_thread_ends_soon_after_its_client(
    alice: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The web server sees that a client is gone when it sends."""
    settings.WEB_THREADS = 4
    monkeypatch.setattr(stream_transport, "THREAD_HEARTBEAT_SECONDS", 0.05)
    gone = Listener(alice, "/event_stream")
    assert_error(Api(alice).get("/event_stream"), 429, "ClientError.TooManyRequests")
    gone.close()
    Listener(alice, "/event_stream")


def test_a_quiet_stream_gives_signs_of_life(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_transport, "THREAD_HEARTBEAT_SECONDS", 0.05)
    listener = Listener(alice, "/event_stream")
    eventually(lambda: listener.raw.count(b"\n\n: \n\n") >= 2)


def test_a_snapshot_says_what_it_sees() -> None:
    found = Snapshot.parse("10:15:11,13")
    assert [number for number in range(8, 18) if found.sees(number)] == [8, 9, 10, 12, 14]
    assert Cursor.parse(str(Cursor(7, found, Snapshot(12, 20)))) == Cursor(7, found, Snapshot(12, 20))
    crowd = Snapshot(10**9, 10**9 + 5000, frozenset(range(10**9, 10**9 + 5000, 2)))
    assert Snapshot.parse(str(crowd)) == Snapshot(10**9, 10**9), "shorter: some comes twice, and nothing is missed"
