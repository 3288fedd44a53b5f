"""Ways to declare documents, side by side: a page of 100 tasks out, and the items of a submission in.

    python -m bench.api.documents [--tasks 100] [--items 100000] [--rounds 15]

Each way makes the same documents from the same sources, and reads the same items: our declarations, one dict written by
hand (the floor), serializers of Django REST framework, and msgspec where it is installed (it is no dependency). The
ways take turns; the table has medians of CPU time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from bench.table import print_table

Way = Callable[[], object]
OURS = "our declarations"
#: Rounds of the submission, which takes seconds.
FEW = 3


def tasks(count: int) -> list[Any]:
    """Rows as the database gives them, with their owner and endpoints."""
    from endpoints.models import Endpoint
    from identity.models import User
    from transferapi.tasks.models import Task

    owner = User(username="alice")
    source, destination = (Endpoint(owner=owner, name=f"ep{number}") for number in (1, 2))
    now = datetime.now(UTC)
    phases = [("done", now), ("transferring", None)]
    return [
        Task(
            owner=owner, source=source, destination=destination, type="TRANSFER", status="ACTIVE", phase=phase,
            request_time=now, deadline=now, completion_time=end, options={"sync_level": 3}, files=3, items_total=1,
        )
        for phase, end in (phases[number % 2] for number in range(count))
    ]  # fmt: skip


def by_hand() -> Callable[[Any], object]:
    """A function with one dict, as a person would write it."""
    from transferapi.rest.openapi.document_types import Always
    from transferapi.rest.transfer.task_documents import TASK

    names: dict[str, Any] = {}
    parts = ["'DATA_TYPE': 'task'"]
    for number, field in enumerate(TASK.fields):
        value = f"row.{field.source or field.name}"
        if isinstance(field.source, Always):
            value = repr(field.source.value)
        elif callable(field.source):
            names[f"get{number}"], value = field.source, f"get{number}(row)"
        kind = field.schema.get("format")
        if kind == "uuid":
            value = f"str(found) if (found := {value}) else None"
        elif kind == "date-time":
            value = f"found.isoformat('T', 'seconds') if (found := {value}) else None"
        parts.append(f"{field.name!r}: {value}")
    exec(f"def document(row):\n    return {{{', '.join(parts)}}}", names)
    found: Callable[[Any], object] = names["document"]
    return found


def by_serializer() -> Callable[[Any], object]:
    """A serializer of Django REST framework with a field for each of ours."""
    from rest_framework import serializers

    from transferapi.rest.transfer.task_documents import TASK

    class Computed(serializers.Field):  # type: ignore[type-arg]
        def __init__(self, get: Callable[[Any], object]) -> None:
            super().__init__(source="*", read_only=True)
            self._get = get

        def to_representation(self, value: Any) -> object:
            return self._get(value)

    fields = {name: Computed(get) for name, get in TASK.sources}
    serializer = type("TaskSerializer", (serializers.Serializer,), fields)
    return lambda row: serializer(row).data


def by_struct(msgspec: Any) -> Callable[[Any], object]:
    """A struct of msgspec with a field for each of ours."""
    from transferapi.rest.transfer.task_documents import TASK

    names = [(name, Any) for name, _ in TASK.sources]
    constants = [(name, Any, value) for name, value in TASK.constants.items() if name not in dict(names)]
    struct = msgspec.defstruct("Task", [*names, *constants])
    gets = [get for _, get in TASK.sources]
    return lambda row: struct(*[get(row) for get in gets])


def out(count: int, msgspec: Any) -> Mapping[str, Way]:
    from transferapi.rest.http.json_documents import dumps
    from transferapi.rest.transfer.task_documents import TASK

    rows, hand, serializer = tasks(count), by_hand(), by_serializer()
    ways: dict[str, Way] = {
        OURS: lambda: dumps([TASK.document(row) for row in rows]),
        "one dict by hand": lambda: dumps([hand(row) for row in rows]),
        "serializers": lambda: dumps([serializer(row) for row in rows]),
    }
    if msgspec:
        one = by_struct(msgspec)
        ways["msgspec"] = lambda: msgspec.json.encode([one(row) for row in rows])
    return ways


def body(count: int) -> bytes:
    items = [
        {
            "DATA_TYPE": "transfer_item",
            "source_path": f"/archive/2026/night-{number % 365:03}/observation-{number:06}.fits",
            "destination_path": f"/projects/survey/night-{number % 365:03}/observation-{number:06}.fits",
            "recursive": False,
        }
        for number in range(count)
    ]
    return json.dumps({"DATA_TYPE": "transfer", "submission_id": str(uuid.uuid4()), "DATA": items}).encode()


def into(count: int, msgspec: Any) -> Mapping[str, Way]:
    from rest_framework import serializers

    from transferapi.rest.http.parsing import Document
    from transferapi.rest.transfer.submission_documents import TRANSFER_ITEM
    from transferapi.tasks.submission import TransferItem

    data = body(count)

    def read(item: Callable[[Document], TransferItem]) -> list[TransferItem]:
        return [item(one) for one in Document(json.loads(data), "transfer").documents("DATA", "transfer_item")]

    def hand(one: Document) -> TransferItem:
        return TransferItem(
            one.required_text("source_path"),
            one.required_text("destination_path"),
            one.flag("recursive"),
            one.text("external_checksum"),
            one.text("checksum_algorithm"),
        )

    class ItemSerializer(serializers.Serializer):  # type: ignore[type-arg]
        source_path = serializers.CharField(trim_whitespace=False)
        destination_path = serializers.CharField(trim_whitespace=False)
        recursive = serializers.BooleanField(allow_null=True, required=False)
        external_checksum = serializers.CharField(allow_null=True, required=False)
        checksum_algorithm = serializers.CharField(allow_null=True, required=False)

    def serialized() -> object:
        found = ItemSerializer(data=json.loads(data)["DATA"], many=True)
        found.is_valid(raise_exception=True)
        return [TransferItem(**one) for one in found.validated_data]

    ways: dict[str, Way] = {
        OURS: lambda: read(lambda one: TransferItem(**TRANSFER_ITEM.values(one))),
        "field by field": lambda: read(hand),
        "serializers": serialized,
    }
    if msgspec:
        texts = [("source_path", str), ("destination_path", str)]
        optional = [("recursive", bool | None, None), ("external_checksum", str | None, None)]
        item = msgspec.defstruct("Item", [*texts, *optional, ("checksum_algorithm", str | None, None)])
        whole = msgspec.defstruct("Transfer", [("DATA", list[item])])  # type: ignore[valid-type]
        ways["msgspec"] = lambda: msgspec.json.decode(data, type=whole)
    return ways


def measured(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU time of each way, in turns."""
    runs: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 else reversed(list(ways)):
            begun = time.thread_time()
            ways[name]()
            runs[name].append((time.thread_time() - begun) * 1e3)
    return runs


def keeps_octets(msgspec: Any) -> bool:
    """Whether a name with an octet that is no UTF-8 (a lone surrogate) goes through msgspec."""
    try:
        msgspec.json.encode(msgspec.json.decode(b'"\\udcff"'))
    except (ValueError, UnicodeError):
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    importlib.import_module("django").setup()
    try:
        msgspec = importlib.import_module("msgspec")
    except ImportError:
        msgspec = None
    sent = measured(out(options.tasks, msgspec), options.rounds)
    taken = measured(into(options.items, msgspec), min(options.rounds, FEW))
    print_table(f"{options.tasks} tasks to JSON", "ms", sent, OURS)
    print_table(f"{options.items:,} items from JSON", "ms", taken, OURS)
    if msgspec:
        word = "keeps" if keeps_octets(msgspec) else "refuses"
        sys.stdout.write(f"\nmsgspec {word} names with octets that are no UTF-8\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
