"""Mails to users: rows of an outbox, written in the transaction of the change that they report, and sent later.

One mail for the end of each task; one for all tasks that wait for the same credential, until there is a new one; one
for each credential that expires too early. A user without an address gets none. `mail_sender.py` sends the mails.

Where a task of another user waits at a shared endpoint, the owner of that endpoint must act and gets a mail, which
names no more of the task than its owner.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import CharField, F, Q, Value
from django.db.models.functions import Cast, Concat

from endpoints.activation import status as activation
from endpoints.models import AccessRule, Endpoint
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.models import User
from identity.vault.store import CredentialInfo
from transferapi.tasks.models import WITH_OWNERS, Event, Mail, Task, Webhook
from transferapi.tasks.states import Phase, Status, TaskType

from . import mail_preferences

#: A task that has waited more often than this causes no further mails.
MAX_WAITS = 30
CREDENTIAL_TROUBLES = ("NO_CREDENTIALS", "AUTH")
#: Mails a day to one user about folders that are shared with them.
MAX_ACCESS_MAILS = 20
#: Characters of a subject.
MAX_SUBJECT = 200
TASK = "/v0.10/task/"
WEBHOOK = "/v0.10/webhook/"
#: The owner has done this, unless a manager of an endpoint has.
SILENT = frozenset({"CANCELED"})


def ended(task_id: uuid.UUID, now: datetime) -> None:
    """Write the mail about the end of a task; call it in the transaction that ends the task."""
    task = Task.objects.select_related(*WITH_OWNERS).get(pk=task_id)
    succeeded = task.status == Status.SUCCEEDED
    option = "notify_on_succeeded" if succeeded else "notify_on_failed"
    if (task.fatal_error_code in SILENT and not task.canceled_by_admin) or not _wanted(task, option):
        return
    how = "succeeded" if succeeded else "failed"
    lines = [f"{_what(task)} has {how}.", ""]
    if not succeeded:
        lines += [f"The reason: {task.fatal_error_description} ({task.fatal_error_code})", ""]
    lines += _numbers(task)
    if not succeeded:
        lines += ["", "Files that arrived are complete. Remove the cause, then submit the rest again; with a"]
        lines += ["sync_level, only missing files are moved. The events of the task:", _link(task, "/event_list")]
    _write(task, f"ended:{task.pk}", f"{_short(task)} {how}", lines, option, now)


def giver(task: Task, endpoint: Endpoint) -> User:
    """The user whose credential the task needs at this endpoint: its owner, or the owner of the shared endpoint."""
    return task.owner if endpoint.host_id is None else endpoint.owner


def waiting(task: Task, endpoint: Endpoint, why: str, how: str, now: datetime) -> None:
    """Write the mails about a wait for a credential, once for all tasks that wait for it. how: instructions."""
    if _has_waited_often(task):
        return
    if giver(task, endpoint).pk != task.owner_id:
        _ask_giver(task, endpoint, how, now)
    _notify_owner(task, endpoint, why, now)


def _ask_giver(task: Task, share: Endpoint, how: str, now: datetime) -> None:
    name = canonical_name(share)
    lines = [f"Tasks of other users wait for you at your shared endpoint {name}; the first is a task of"]
    lines += [f"{task.owner.username}. They use your credential for its host, and no credential is valid now.", "", how]
    lines += ["", "The tasks continue within seconds of a new credential. There is no further mail before that."]
    key = _wave(share.owner_id, share)
    _free(key, share.owner_id, task)
    put(share.owner, None, key, f"{name} waits for a credential of yours", lines, now)


def _notify_owner(task: Task, endpoint: Endpoint, why: str, now: datetime) -> None:
    if not _wanted(task, "notify_on_inactive"):
        return
    key = _wave(task.owner_id, endpoint)
    _free(key, task.owner_id, task)
    whom = "you" if giver(task, endpoint).pk == task.owner_id else "somebody else"
    lines = [f"{_what(task)} waits for {whom}.", "", why, ""]
    lines += ["Files that have arrived stay. The task continues within seconds of a new credential, with all"]
    lines += ["your other tasks that wait for the same one; there is no further mail about them."]
    lines += [f"The deadline of the task is {_time(task.deadline)}; you can change it.", "", *_numbers(task)]
    subject = f"{_short(task)} waits for a credential for {canonical_name(endpoint)}"
    _write(task, key, subject, lines, "notify_on_inactive", now)


def expiring(task: Task, endpoint: Endpoint, held: CredentialInfo, why: str, how: str, now: datetime) -> None:
    """Write the mail about a credential that expires before its task ends: once for each, to its user."""
    key = f"expiring:{held.user_id}:{_digest(held.bound_to)}:{held.stored_at.isoformat()}"
    if held.user_id != task.owner_id and held.expires_at is not None:
        name = canonical_name(endpoint)
        ends = f"Your credential for the host of your shared endpoint {name} expires at {_time(held.expires_at)},"
        lines = [ends, f"and a task of {task.owner.username} that uses it will not be done by then. {how}"]
        put(endpoint.owner, None, key, f"{name} will need a new credential of yours", lines, now)
        return
    if not _wanted(task, "notify_on_inactive"):
        return
    lines = [f"{_what(task)} will have to wait for you.", "", why, ""]
    lines.append("The task uses a new credential as soon as you store it.")
    _write(task, key, f"{_short(task)} will need a new credential", lines, "notify_on_inactive", now)


def webhook_disabled(webhook: Webhook, why: str, now: datetime) -> None:
    """Write the mail about a webhook that was disabled because it has failed for too long."""
    lines = [f"Your webhook {webhook.url.partition('?')[0]} has failed for days and was disabled.", ""]
    lines += [f"The error of the last attempt: {why}", "", "Repair it, then enable it again:"]
    lines.append(f"{settings.PUBLIC_URL}{WEBHOOK}{webhook.pk}")
    key = f"webhook:{webhook.pk}:{now.isoformat()}"
    put(webhook.owner, None, key, "a webhook of yours was disabled", lines, now)


def access_given(rule: AccessRule, recipient: User | None, grantor: User, **_: object) -> None:
    """Write the mail about access to a shared folder (`endpoints.signals`).

    The number a day is limited, because rules can be created and deleted without end. For an address without a user,
    the same row is written and not sent, so that the time of the response does not reveal whether the user exists.
    """
    now = moment(None)
    prefix = f"access:{recipient.pk}:" if recipient else f"access to nobody:{grantor.pk}:"
    if Mail.objects.filter(key__startswith=prefix, created_at__gt=now - timedelta(days=1)).count() >= MAX_ACCESS_MAILS:
        return
    share = rule.endpoint
    what = "read and change" if rule.permissions == "rw" else "read"
    lines = [f"{grantor.username} lets you {what} the folder {rule.path} of the shared endpoint", ""]
    lines += [f"  {canonical_name(share)} ({share.display_name or share.name})", f"  id {share.pk}", ""]
    if rule.expires_at is not None:
        lines += [f"The access ends on {_time(rule.expires_at.astimezone(UTC))}.", ""]
    if rule.notify_message:
        lines += [f"{grantor.username} writes:", "", *(f"  {line}" for line in rule.notify_message.splitlines()), ""]
    lines += ["You need no credential for it. The endpoint:", f"{settings.PUBLIC_URL}/v0.10/endpoint/{share.pk}"]
    subject = f"{grantor.username} shares {canonical_name(share)} with you"
    put(recipient or grantor, None, f"{prefix}{rule.pk}", subject, lines, now, sent=recipient is not None)


def end_wave(user_id: uuid.UUID, endpoint: Endpoint) -> None:
    """End a wave: there is a new credential, and the next wait for one gets a mail again."""
    key = _wave(user_id, endpoint)
    earlier = Mail.objects.filter(key=key).values_list("pk", flat=True).first()
    if earlier is not None:
        _end_wave(key, earlier)


def _end_wave(key: str, mail_id: int) -> None:
    """Free the key of a mail for the next wave."""
    over = Concat(F("key"), Value(":"), Cast(F("pk"), CharField()))
    Mail.objects.filter(pk=mail_id, key=key).update(key=over)


def _wave(user_id: uuid.UUID, endpoint: Endpoint) -> str:
    """The key of a wave of waiting tasks: all endpoints with the same credential server share it.

    One credential ends the wait for all of them. For each user with access, the endpoints that one owner shares from
    one host also share a key.
    """
    if endpoint.host is None:
        return f"waiting:{user_id}:{_digest(_shared(endpoint))}"
    giver = "" if endpoint.owner_id == user_id else f" of {endpoint.owner_id}"
    return f"waiting:{user_id}:{_digest(_shared(endpoint.host) + giver)}"


def _has_waited_often(task: Task) -> bool:
    """Whether the task has caused enough mails: a hostile server can suspend a task again and again."""
    return Event.objects.filter(task=task, code__in=CREDENTIAL_TROUBLES)[MAX_WAITS:].exists()


def _shared(endpoint: Endpoint) -> str:
    """The binding of a credential for the endpoint: its first credential server, or the endpoint itself."""
    return activation.bindings(endpoint)[:2][-1]


def _free(key: str, user_id: uuid.UUID, task: Task) -> None:
    """Free the key of an earlier mail where no other task of its wave waits any more."""
    earlier = Mail.objects.filter(key=key).values_list("pk", flat=True).first()
    if earlier is not None and not _others_wait(key, user_id, task):
        _end_wave(key, earlier)


def _others_wait(key: str, user_id: uuid.UUID, task: Task) -> bool:
    own = Q(owner=user_id) | Q(waits_at__host__isnull=False, waits_at__owner=user_id)
    waiting = Task.objects.filter(own, phase=Phase.SUSPENDED, waits_at__isnull=False).exclude(pk=task.pk)
    others = waiting.select_related("waits_at__host")
    return any(_wave(user_id, other.waits_at) == key for other in others if other.waits_at is not None)


def _digest(binding: str) -> str:
    return hashlib.sha256(binding.encode()).hexdigest()[:32]


def _wanted(task: Task, option: str) -> bool:
    return bool(task.owner.email) and bool(task.options.get(option, True))


def _write(task: Task, key: str, subject: str, lines: Sequence[str], option: str, now: datetime) -> None:
    """Write a mail to the owner of a task, once for each key."""
    foot = ["", "The task:", _link(task), "", f"Submit a task with {option} false to get no such mail."]
    put(task.owner, task, key, subject, [*lines, *foot], now)


def put(
    user: User, task: Task | None, key: str, subject: str, lines: Sequence[str], now: datetime, *, sent: bool = True
) -> None:
    """Write a mail, once for each key. Not sent: the row alone is written."""
    if sent and not user.email:
        return
    # A row that is not sent still counts: the fact is reported once, and nobody sees by the time that it is not.
    sent = sent and mail_preferences.enabled(user)
    body = "\n".join(printable(line) for line in lines) + "\n"
    row = Mail(user=user, task=task, key=key, subject=subject_line(subject), body=body)
    row.created_at = now
    row.next_try_at = now if sent else None
    Mail.objects.bulk_create([row], ignore_conflicts=True)


def subject_line(text: str) -> str:
    """The subject as one line, so that no label or text of a server can add a header."""
    line = printable(f"Waybill: {text}")
    return line if len(line) <= MAX_SUBJECT else line[: MAX_SUBJECT - 1] + "…"


def printable(line: str) -> str:
    """The line with a mark for each character that is none of a line of text."""
    return "".join(letter if letter.isprintable() else "�" for letter in line)


def _short(task: Task) -> str:
    kind = "the transfer" if task.type == TaskType.TRANSFER else "the deletion"
    return f'{kind} "{task.label}"' if task.label else f"{kind} {way(task)}"


def _what(task: Task) -> str:
    kind = "transfer" if task.type == TaskType.TRANSFER else "deletion"
    return f"Your {kind} {way(task)}" + (f' ("{task.label}")' if task.label else "")


def way(task: Task) -> str:
    """The endpoints of a task, in words."""
    source = canonical_name(task.source)
    return f"from {source} to {canonical_name(task.destination)}" if task.destination else f"on {source}"


def _numbers(task: Task) -> list[str]:
    deletion = task.type == TaskType.DELETE
    pending = task.files - task.files_transferred - task.files_skipped - task.files_failed
    lines = [
        f"  files {'deleted' if deletion else 'moved'}: {task.files_transferred}",
        f"  files left as they were: {task.files_skipped}",
        f"  files that failed: {task.files_failed}",
        f"  files not reached: {pending}",
    ]
    if not deletion:
        lines.append(f"  bytes: {task.bytes_transferred} of {task.bytes_total}")
    lines.append(f"  asked for: {_time(task.request_time)}")
    if task.completion_time:
        lines.append(f"  ended: {_time(task.completion_time)}")
    return lines


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _link(task: Task, more: str = "") -> str:
    return f"{settings.PUBLIC_URL}{TASK}{task.pk}{more}"
