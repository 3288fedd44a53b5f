"""What a user is told by mail: a row in the transaction of the change that it tells, sent later (an outbox).

One mail for each end of a task; one for all tasks that come to wait for one credential, until there is a new one; one
for each credential that will not last. Who has no address gets none. Sending is in `postman.py`.

Where a task of another user's waits at a shared endpoint, the owner of that has to act: he gets a mail of his own, that
tells nothing of the task but whose it is.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import CharField, F, Q, Value
from django.db.models.functions import Cast, Concat

from endpoints import activation
from endpoints.models import AccessRule, Endpoint
from endpoints.registry import canonical_name
from identity.models import User
from identity.vault import Held

from .clock import moment
from .models import Event, Mail, Task, Webhook
from .states import Phase, Status, TaskType

#: A task that has waited so often tells it by mail no more.
MAX_WAITS = 30
CREDENTIAL_TROUBLES = ("NO_CREDENTIALS", "AUTH")
#: A day, to one user, of folders that are shared with him.
MAX_ACCESS_MAILS = 20
#: Of a subject, which is one line.
MAX_SUBJECT = 200
TASK = "/v0.10/task/"
WEBHOOK = "/v0.10/webhook/"
#: The owner knows, unless a manager of an endpoint did it.
SILENT = frozenset({"CANCELED"})


def ended(task_id: uuid.UUID, now: datetime) -> None:
    """A task is over; in the transaction that ends it."""
    ends = ("owner", "source__owner", "destination__owner")
    task = Task.objects.select_related(*ends).get(pk=task_id)
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
        lines += ["", "What arrived is complete. Mend what the reason names, then submit the rest again; with a"]
        lines += ["sync_level only what is missing is moved. What happened in detail:", _link(task, "/event_list")]
    _write(task, f"ended:{task.pk}", f"{_short(task)} {how}", lines, option, now)


def giver(task: Task, endpoint: Endpoint) -> User:
    """Whose credential the task needs at this endpoint: that of its owner, or of the owner of what is shared."""
    return task.owner if endpoint.host_id is None else endpoint.owner


def waiting(task: Task, endpoint: Endpoint, why: str, how: str, now: datetime) -> None:
    """A task waits for a credential: the first one that does tells it for all. how: what its giver has to do."""
    if _has_waited_often(task):
        return
    if giver(task, endpoint).pk != task.owner_id:
        _ask_giver(task, endpoint, how, now)
    _tell_owner(task, endpoint, why, now)


def _ask_giver(task: Task, share: Endpoint, how: str, now: datetime) -> None:
    name = canonical_name(share)
    lines = [f"Tasks of other users wait for you at your shared endpoint {name}; the first is one of"]
    lines += [f"{task.owner.username}. They use your credential for its host, and there is none that is good.", "", how]
    lines += [
        "",
        "They go on by themselves within seconds of a new one; before that there is no other mail.",
    ]
    key = _wave(share.owner_id, share)
    _free(key, share.owner_id, task)
    _put(share.owner, None, key, f"{name} waits for a credential of yours", lines, now)


def _tell_owner(task: Task, endpoint: Endpoint, why: str, now: datetime) -> None:
    if not _wanted(task, "notify_on_inactive"):
        return
    key = _wave(task.owner_id, endpoint)
    _free(key, task.owner_id, task)
    whom = "you" if giver(task, endpoint).pk == task.owner_id else "somebody else"
    lines = [f"{_what(task)} waits for {whom}.", "", why, ""]
    lines += ["Nothing is lost: what has arrived stays, and the task goes on by itself within seconds of a new"]
    lines += ["credential. So do all your tasks that wait for the same one; there is no further mail about them."]
    lines += [f"Its deadline is {_time(task.deadline)}; it can be moved.", "", *_numbers(task)]
    subject = f"{_short(task)} waits for a credential for {canonical_name(endpoint)}"
    _write(task, key, subject, lines, "notify_on_inactive", now)


def expiring(task: Task, endpoint: Endpoint, held: Held, why: str, how: str, now: datetime) -> None:
    """A credential will end before the task that uses it: once for each credential, to the user whose it is."""
    key = f"expiring:{held.user_id}:{_digest(held.bound_to)}:{held.stored_at.isoformat()}"
    if held.user_id != task.owner_id and held.expires_at is not None:
        name = canonical_name(endpoint)
        ends = f"Your credential for the host of your shared endpoint {name} ends at {_time(held.expires_at)},"
        lines = [ends, f"and a task of {task.owner.username} that uses it will not be through by then. {how}"]
        _put(endpoint.owner, None, key, f"{name} will need a new credential of yours", lines, now)
        return
    if not _wanted(task, "notify_on_inactive"):
        return
    lines = [f"{_what(task)} will have to wait for you.", "", why, ""]
    lines.append("A new credential is used as soon as it is there.")
    _write(task, key, f"{_short(task)} will need a new credential", lines, "notify_on_inactive", now)


def webhook_disabled(webhook: Webhook, why: str, now: datetime) -> None:
    """A webhook has failed for too long."""
    lines = [f"Your webhook {webhook.url.partition('?')[0]} has failed for days, and is told nothing more.", ""]
    lines += [f"What was wrong with the last try: {why}", "", "Mend it, then enable it again:"]
    lines.append(f"{settings.PUBLIC_URL}{WEBHOOK}{webhook.pk}")
    key = f"webhook:{webhook.pk}:{now.isoformat()}"
    _put(webhook.owner, None, key, "a webhook of yours was disabled", lines, now)


def access_given(rule: AccessRule, recipient: User | None, grantor: User, **_: object) -> None:
    """Somebody may use a shared folder now, and shall know it (`endpoints.signals`). So often a day, and no more:
    rules can be made and taken back without end.

    For an address that is nobody's the same is written, and not sent: how long the answer takes tells nothing either.
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
        lines += [f"It ends on {_time(rule.expires_at.astimezone(UTC))}.", ""]
    if rule.notify_message:
        lines += [f"{grantor.username} writes:", "", *(f"  {line}" for line in rule.notify_message.splitlines()), ""]
    lines += ["You need no credential for it. The endpoint:", f"{settings.PUBLIC_URL}/v0.10/endpoint/{share.pk}"]
    subject = f"{grantor.username} shares {canonical_name(share)} with you"
    _put(recipient or grantor, None, f"{prefix}{rule.pk}", subject, lines, now, sent=recipient is not None)


def end_wave(user_id: uuid.UUID, endpoint: Endpoint) -> None:
    """There is a new credential: when that ends one day, it is told again."""
    key = _wave(user_id, endpoint)
    earlier = Mail.objects.filter(key=key).values_list("pk", flat=True).first()
    if earlier is not None:
        _end_wave(key, earlier)


def _end_wave(key: str, mail_id: int) -> None:
    """Its key is free for the next one."""
    over = Concat(F("key"), Value(":"), Cast(F("pk"), CharField()))
    Mail.objects.filter(pk=mail_id, key=key).update(key=over)


def _wave(user_id: uuid.UUID, endpoint: Endpoint) -> str:
    """All endpoints that name one server for credentials are one wave: one credential ends it for all.

    So do, for each who may use them, those that one user shares of one host.
    """
    if endpoint.host is None:
        return f"waiting:{user_id}:{_digest(_shared(endpoint))}"
    giver = "" if endpoint.owner_id == user_id else f" of {endpoint.owner_id}"
    return f"waiting:{user_id}:{_digest(_shared(endpoint.host) + giver)}"


def _has_waited_often(task: Task) -> bool:
    """An endpoint's owner can send a task to bed and up again, by what its servers are, as often as he likes."""
    return Event.objects.filter(task=task, code__in=CREDENTIAL_TROUBLES)[MAX_WAITS:].exists()


def _shared(endpoint: Endpoint) -> str:
    """What a credential for it is bound to: its first server that gives any, which others may name too, or itself."""
    return activation.bindings(endpoint)[:2][-1]


def _free(key: str, user_id: uuid.UUID, task: Task) -> None:
    """An earlier mail with this key does not stand in the way when no other task waits any more that it told of."""
    earlier = Mail.objects.filter(key=key).values_list("pk", flat=True).first()
    if earlier is not None and not _others_wait(key, user_id, task):
        _end_wave(key, earlier)


def _others_wait(key: str, user_id: uuid.UUID, task: Task) -> bool:
    his = Q(owner=user_id) | Q(waits_at__host__isnull=False, waits_at__owner=user_id)
    waiting = Task.objects.filter(his, phase=Phase.SUSPENDED, waits_at__isnull=False).exclude(pk=task.pk)
    others = waiting.select_related("waits_at__host")
    return any(_wave(user_id, other.waits_at) == key for other in others if other.waits_at is not None)


def _digest(binding: str) -> str:
    return hashlib.sha256(binding.encode()).hexdigest()[:32]


def _wanted(task: Task, option: str) -> bool:
    return bool(task.owner.email) and bool(task.options.get(option, True))


def _write(task: Task, key: str, subject: str, lines: Sequence[str], option: str, now: datetime) -> None:
    """Put it into the outbox, once for each key."""
    foot = ["", "The task:", _link(task), "", f"Submit a task with {option} false, and there is no such mail."]
    _put(task.owner, task, key, subject, [*lines, *foot], now)


def _put(
    user: User, task: Task | None, key: str, subject: str, lines: Sequence[str], now: datetime, *, sent: bool = True
) -> None:
    if sent and not user.email:
        return
    body = "\n".join(_printable(line) for line in lines) + "\n"
    row = Mail(user=user, task=task, key=key, subject=subject_line(subject), body=body)
    row.created_at = now
    row.next_try_at = now if sent else None
    Mail.objects.bulk_create([row], ignore_conflicts=True)


def subject_line(text: str) -> str:
    """One line, whatever a label or a server has put into it: nobody else's header begins in it."""
    line = _printable(f"Waybill: {text}")
    return line if len(line) <= MAX_SUBJECT else line[: MAX_SUBJECT - 1] + "…"


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in line)


def _short(task: Task) -> str:
    kind = "the transfer" if task.type == TaskType.TRANSFER else "the deletion"
    return f'{kind} "{task.label}"' if task.label else f"{kind} {_way(task)}"


def _what(task: Task) -> str:
    kind = "transfer" if task.type == TaskType.TRANSFER else "deletion"
    return f"Your {kind} {_way(task)}" + (f' ("{task.label}")' if task.label else "")


def _way(task: Task) -> str:
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
