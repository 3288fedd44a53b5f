"""Transactions begin with their first statement, whatever that is, and end whole (`transferapi.outages.database`)."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg2
import pytest
from django.db import IntegrityError, connection, transaction
from psycopg2.sql import SQL

from identity.models import User
from tests.integration.cast import make_user
from transferapi.tasks.models import Space

pytestmark = pytest.mark.django_db(transaction=True)


class UndoneError(Exception):
    """Undoes a transaction."""


def copy(owner: User) -> None:
    with connection.cursor() as cursor:
        cursor.copy_expert(
            "COPY tasks_space (owner_id, tasks, rows, octets) FROM STDIN", io.StringIO(f"{owner.pk}\t1\t0\t0\n")
        )


def insert(owner: User) -> None:
    Space.objects.create(owner=owner, tasks=1)


def insert_many(owner: User) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO tasks_space VALUES (%s, 1, 0, 0)", [[owner.pk]])


def insert_as(kind: Callable[[str], Any]) -> Callable[[User], None]:
    def insert_so(owner: User) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                kind(f"INSERT INTO tasks_space (owner_id, tasks, rows, octets) VALUES ('{owner.pk}', 1, 0, 0)")
            )

    return insert_so


def read_in_parts(owner: User) -> None:
    assert [row.pk for row in User.objects.iterator(chunk_size=1)] == [owner.pk]
    insert(owner)


FIRST = {
    "a statement": insert,
    "octets": insert_as(str.encode),
    "a composed statement": insert_as(SQL),
    "COPY": copy,
    "executemany": insert_many,
    "a cursor with a name": read_in_parts,
}


@pytest.mark.parametrize("first", FIRST)
def test_a_transaction_is_kept_or_undone_whole_whatever_comes_first(first: str) -> None:
    alice = make_user("alice")
    with suppress(UndoneError), transaction.atomic():
        FIRST[first](alice)
        raise UndoneError
    assert not Space.objects.exists()
    with transaction.atomic():
        FIRST[first](alice)
        assert _others_see() == 0
    assert _others_see() == 1


def test_a_first_statement_that_fails_ends_the_transaction() -> None:
    alice = make_user("alice")
    insert(alice)
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(alice)
    assert connection.connection.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_IDLE
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic():
            insert(alice)
        Space.objects.update(tasks=7)
    assert Space.objects.get().tasks == 7


def _others_see() -> int:
    """The rows that another session sees."""
    other = psycopg2.connect(connection.connection.dsn)
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tasks_space")
            return int(cursor.fetchone()[0])  # type: ignore[index]
    finally:
        other.close()
