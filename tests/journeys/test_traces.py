"""One trace from the POST to the last settled file, over two workers, of which the first is killed in between."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from tests.instance import Api, instance
from tests.journeys.conftest import _answers
from tests.servers.otlp_collector import collecting
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)
FILES = 1500


@contextmanager
def server(folder: Path) -> Iterator[int]:
    folder.mkdir()
    port = free_port()
    words = ["-m", "endpoints.gridftp.server", "--root", str(folder), "--port", str(port)]
    process = spawn([sys.executable, *words], log=folder.parent / f"{folder.name}.log")
    try:
        wait_ready("the server", process, lambda: _answers(port), timeout=60)
        yield port
    finally:
        stop(process)


def kill_workers(api: Api) -> None:
    for name, pid in api.connection["pids"].items():
        if name.startswith("worker"):
            os.kill(pid, signal.SIGKILL)


def test_a_takeover_is_in_the_same_trace(give_schema: Callable[[Path], object], workspace: Path) -> None:
    with (
        collecting() as collector,
        server(workspace / "a") as one,
        server(workspace / "b") as two,
        instance(before=give_schema, WAYBILL_TRACES=collector.url) as api,
    ):
        for number in range(FILES):
            (workspace / "a" / f"file{number}").write_bytes(b"x" * 1000)
        with (workspace / "a" / "large").open("wb") as large:
            for _ in range(150):
                large.write(os.urandom(2**20) * 8)
        task_id = api.transfer(
            api.endpoint("traced-a", one),
            "/",
            api.endpoint("traced-b", two),
            "/copy/",
            recursive=True,
            verify_checksum=True,
        )
        mine = lambda: [span for span in list(collector.spans) if span.facts.get("waybill.task") == task_id]  # noqa: E731
        # The first worker has sent spans of its own before it is killed: they do not wait for the end of the task.
        eventually(lambda: any(span.name == "lease" or span.service == "waybill-worker" for span in collector.spans))
        eventually(lambda: api.call("GET", f"/task/{task_id}")["bytes_transferred"] > 0)
        kill_workers(api)
        task = api.wait(task_id, timeout=120)
        assert task["status"] == "SUCCEEDED"
        eventually(lambda: any(span.name == "task" for span in mine()))
        eventually(lambda: any(span.name == "slice" and not span.failed for span in mine()))
        [whole] = [span for span in mine() if span.name == "task"]
        trace = collector.of_trace(whole.trace)
        [request] = [span for span in trace if not span.parent]
        assert (request.name, request.service) == ("POST /v0.10/transfer", "waybill-web")
        assert whole.parent == request.id
        turns = {span.facts["waybill.slice"]: span for span in trace if span.name == "slice"}
        assert turns[1].facts["error.type"] == "worker lost"
        assert turns[2].facts["waybill.taken_over"] is True
        assert {span.trace for span in mine()} == {whole.trace}
        assert {span.parent for span in trace} <= {span.id for span in trace} | {""}
        assert {"session", "lane", "scan", "files", "settle", "verify"} <= {span.name for span in trace}
        settled = [span for span in trace if span.name == "settle" and span.parent == turns[2].id]
        files = sum(span.facts["waybill.files"] for span in settled)
        assert 0 < files <= FILES + 1
        assert whole.facts["waybill.files_transferred"] == FILES + 1
        assert len(trace) < 100
