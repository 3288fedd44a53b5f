"""Mails to users: rows of an outbox, written in the transaction of the change that they report, and sent later.

A mail is in the language of its reader (`identity.languages`): a paragraph is one line, which mail programs wrap.

One mail for the end of each task; one for all tasks that wait for the same credential, until there is a new one; one
for each credential that expires too early. A user without an address gets none. `mail_sender.py` sends the mails.

Where a task of another user waits at a shared endpoint, the owner of that endpoint must act and gets a mail, which
names no more of the task than its owner.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import CharField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils.translation import gettext as _

from endpoints.activation import status as activation
from endpoints.models import AccessRule, Endpoint
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.gsi.printable import readable
from identity.languages import speaking_to
from identity.models import User
from identity.vault.store import CredentialInfo
from transferapi.tasks import names as task_names
from transferapi.tasks.models import Event, Mail, Task, Webhook
from transferapi.tasks.notify import mail_preferences
from transferapi.tasks.states import Phase, Status, TaskType

#: A task that has waited more often than this causes no further mails.
MAX_WAITS = 30
CREDENTIAL_TROUBLES = ("NO_CREDENTIALS", "AUTH")
#: Mails a day to one user about folders that are shared with them.
MAX_ACCESS_MAILS = 20
#: Characters of a subject.
MAX_SUBJECT = 200
TASK, TASK_PAGE = "/v0.10/task/", "/activity/"
ENDPOINT, ENDPOINT_PAGE = "/v0.10/endpoint/", "/endpoints/"
WEBHOOK = "/v0.10/webhook/"
#: The owner has done this, unless a manager of an endpoint has.
SILENT = frozenset({"CANCELED"})


def _said(reason: str | None) -> str:
    """The reason in the language of the reader, if its sentence is marked for translation; else in English."""
    return _(reason) if reason else ""


def ended(task_id: uuid.UUID, now: datetime) -> None:
    """Write the mail about the end of a task; call it in the transaction that ends the task."""
    task = Task.objects.select_related("owner").get(pk=task_id)
    succeeded = task.status == Status.SUCCEEDED
    option = "notify_on_succeeded" if succeeded else "notify_on_failed"
    if (task.fatal_error_code in SILENT and not task.canceled_by_admin) or not _wanted(task, option):
        return
    with speaking_to(task.owner):
        lines = [_ended_line(task, succeeded), ""]
        if not succeeded:
            why, code = _said(task.fatal_error_description), task.fatal_error_code
            lines += [_("The reason: %(why)s (%(code)s)") % {"why": why, "code": code}, ""]
        lines += _numbers(task)
        if not succeeded:
            lines += [
                "",
                _(
                    "Files that arrived are complete. Remove the cause, then submit the rest again; with a "
                    "sync_level, only missing files are moved. The events of the task:"
                ),
            ]
            lines.append(_link(task, "/event_list"))
        subject = _("%(task)s succeeded") if succeeded else _("%(task)s failed")
        _write(task, f"ended:{task.pk}", subject % {"task": _short(task)}, lines, option, now)


def giver(task: Task, endpoint: Endpoint) -> User:
    """The user whose credential the task needs at this endpoint: its owner, or the owner of the shared endpoint."""
    return task.owner if endpoint.host_id is None else endpoint.owner


def waiting(task: Task, endpoint: Endpoint, why: Callable[[], str], how: Callable[[], str], now: datetime) -> None:
    """Write the mails about a wait for a credential, once for all tasks that wait for it.

    why, how: give the reason and the instructions in the language that is active.
    """
    if _has_waited_often(task):
        return
    if giver(task, endpoint).pk != task.owner_id:
        with speaking_to(endpoint.owner):
            _ask_giver(task, endpoint, how(), now)
    if _wanted(task, "notify_on_inactive"):
        with speaking_to(task.owner):
            _notify_owner(task, endpoint, why(), now)


def _ask_giver(task: Task, share: Endpoint, how: str, now: datetime) -> None:
    names = {"endpoint": canonical_name(share), "user": task.owner.username}
    lines = [
        _(
            "Tasks of other users wait for you at your shared endpoint %(endpoint)s; the first is a task of "
            "%(user)s. They use your credential for its host, and no credential is valid now."
        )
        % names,
        "",
    ]
    lines += [how, ""]
    lines.append(_("The tasks continue within seconds of a new credential. There is no further mail before that."))
    key = _wave(share.owner_id, share)
    _end_wave_without_tasks(key, share.owner_id, task)
    put(share.owner, None, key, _("%(endpoint)s waits for a credential of yours") % names, lines, now)


def _notify_owner(task: Task, endpoint: Endpoint, why: str, now: datetime) -> None:
    key = _wave(task.owner_id, endpoint)
    _end_wave_without_tasks(key, task.owner_id, task)
    own = giver(task, endpoint).pk == task.owner_id
    first = _("%(task)s waits for you.") if own else _("%(task)s waits for somebody else.")
    lines = [first % {"task": _what(task)}, "", why, ""]
    lines.append(
        _(
            "Files that have arrived stay. The task continues within seconds of a new credential, with all your "
            "other tasks that wait for the same one; there is no further mail about them."
        )
    )
    deadline = {"time": _time(task.deadline)}
    lines += [_("The deadline of the task is %(time)s; you can change it.") % deadline, "", *_numbers(task)]
    names = {"task": _short(task), "endpoint": canonical_name(endpoint)}
    subject = _("%(task)s waits for a credential for %(endpoint)s") % names
    _write(task, key, subject, lines, "notify_on_inactive", now)


def deletion_unconfirmed(task: Task, extra: int, total: int, now: datetime) -> None:
    """Write the mail about a mirror that waits for its owner's answer: once for each task and number."""
    if not _wanted(task, "notify_on_inactive"):
        return
    with speaking_to(task.owner):
        counts = {"extra": extra, "total": total}
        why = _(
            "All files have arrived. To mirror the source, %(extra)d of the %(total)d entries at the destination would "
            "be deleted. Look whether the source is complete: a disk that is not mounted is empty."
        )
        lines = [_("%(task)s waits for you.") % {"task": _what(task)}, "", why % counts, ""]
        lines.append(_("Confirm the deletion or refuse it, on the page of the task; until then nothing is deleted."))
        lines.append(_("The deadline of the task is %(time)s; you can change it.") % {"time": _time(task.deadline)})
        subject = _("%(task)s asks before it deletes") % {"task": _short(task)}
        _write(task, f"deletion:{task.pk}:{extra}:{total}", subject, lines, "notify_on_inactive", now)


def expiring(
    task: Task, endpoint: Endpoint, held: CredentialInfo, why: Callable[[], str], how: Callable[[], str], now: datetime
) -> None:
    """Write the mail about a credential that expires before its task ends: once for each, to its user."""
    key = f"expiring:{held.user_id}:{_digest(held.bound_to)}:{held.stored_at.isoformat()}"
    if held.user_id != task.owner_id and held.expires_at is not None:
        with speaking_to(endpoint.owner):
            _warn_giver(task, endpoint, held.expires_at, key, how(), now)
        return
    if not _wanted(task, "notify_on_inactive"):
        return
    with speaking_to(task.owner):
        lines = [_("%(task)s will have to wait for you.") % {"task": _what(task)}, "", why(), ""]
        lines.append(_("The task uses a new credential as soon as you store it."))
        subject = _("%(task)s will need a new credential") % {"task": _short(task)}
        _write(task, key, subject, lines, "notify_on_inactive", now)


def _warn_giver(task: Task, share: Endpoint, ends: datetime, key: str, how: str, now: datetime) -> None:
    names = {"endpoint": canonical_name(share), "time": _time(ends), "user": task.owner.username}
    text = _(
        "Your credential for the host of your shared endpoint %(endpoint)s expires at %(time)s, and a task of "
        "%(user)s that uses it will not be done by then."
    )
    lines = [text % names, "", how]
    put(share.owner, None, key, _("%(endpoint)s will need a new credential of yours") % names, lines, now)


def webhook_disabled(webhook: Webhook, why: str, now: datetime) -> None:
    """Write the mail about a webhook that was disabled because it has failed for too long."""
    with speaking_to(webhook.owner):
        address = {"address": webhook.url.partition("?")[0]}
        lines = [_("Your webhook %(address)s has failed for days and was disabled.") % address, ""]
        lines += [_("The error of the last attempt: %(error)s") % {"error": why}, ""]
        lines += [_("Repair it, then enable it again:"), f"{settings.PUBLIC_URL}{WEBHOOK}{webhook.pk}"]
        key = f"webhook:{webhook.pk}:{now.isoformat()}"
        put(webhook.owner, None, key, _("a webhook of yours was disabled"), lines, now)


def access_given(rule: AccessRule, recipient: User | None, grantor: User, **_more: object) -> None:
    """Write the mail about access to a shared folder (`endpoints.signals`).

    The number a day is limited, because rules can be created and deleted without end. For an address without a user,
    the same row is written and not sent, so that the time of the response does not reveal whether the user exists.
    """
    now = moment(None)
    prefix = f"access:{recipient.pk}:" if recipient else f"access to nobody:{grantor.pk}:"
    if Mail.objects.filter(key__startswith=prefix, created_at__gt=now - timedelta(days=1)).count() >= MAX_ACCESS_MAILS:
        return
    with speaking_to(recipient or grantor):
        subject = _("%(user)s shares %(endpoint)s with you")
        subject %= {"user": grantor.username, "endpoint": canonical_name(rule.endpoint)}
        lines = _access_lines(rule, grantor)
        put(recipient or grantor, None, f"{prefix}{rule.pk}", subject, lines, now, sent=recipient is not None)


def _access_lines(rule: AccessRule, grantor: User) -> list[str]:
    share, names = rule.endpoint, {"user": grantor.username, "path": rule.path}
    may_write = rule.permissions == "rw"
    read = _("%(user)s lets you read the folder %(path)s of the shared endpoint")
    write = _("%(user)s lets you read and change the folder %(path)s of the shared endpoint")
    lines = [(write if may_write else read) % names, ""]
    lines += [f"  {canonical_name(share)} ({share.display_name or share.name})", f"  id {share.pk}", ""]
    if rule.expires_at is not None:
        lines += [_("The access ends on %(time)s.") % {"time": _time(rule.expires_at.astimezone(UTC))}, ""]
    if rule.notify_message:
        lines += [_("%(user)s writes:") % names, "", *(f"  {line}" for line in rule.notify_message.splitlines()), ""]
    lines.append(_("You need no credential for it. The endpoint, as a page and for programs:"))
    return [*lines, f"{settings.PUBLIC_URL}{ENDPOINT_PAGE}{share.pk}", f"{settings.PUBLIC_URL}{ENDPOINT}{share.pk}"]


def end_wave(user_id: uuid.UUID, endpoint: Endpoint) -> None:
    """End a wave: there is a new credential, and the next wait for one gets a mail again."""
    _free(Mail.objects.filter(key=_wave(user_id, endpoint)))


def _free(mail: QuerySet[Mail]) -> None:
    """Free the key of a mail for the next wave."""
    mail.update(key=Concat(F("key"), Value(":"), Cast(F("pk"), CharField())))


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


def _end_wave_without_tasks(key: str, user_id: uuid.UUID, task: Task) -> None:
    """Free the key of an earlier mail where no other task of its wave waits any more."""
    earlier = Mail.objects.filter(key=key).values_list("pk", flat=True).first()
    if earlier is not None and not _others_wait(key, user_id, task):
        _free(Mail.objects.filter(pk=earlier, key=key))


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
    foot = ["", _("The task, as a page and for programs:"), f"{settings.PUBLIC_URL}{TASK_PAGE}{task.pk}", _link(task)]
    foot += ["", _("Submit a task with %(option)s false to get no such mail.") % {"option": option}]
    put(task.owner, task, key, subject, [*lines, *foot], now)


def put(
    user: User, task: Task | None, key: str, subject: str, lines: Sequence[str], now: datetime, *, sent: bool = True
) -> None:
    """Write a mail, once for each key. Not sent: the row alone is written."""
    if sent and not user.email:
        return
    # A row that is not sent still counts: the fact is reported once, and nobody sees by the time that it is not.
    sent = sent and mail_preferences.enabled(user)
    row = Mail(user=user, task=task, key=key, subject=subject_line(subject), body=body_of(lines))
    row.created_at = now
    row.next_try_at = now if sent else None
    Mail.objects.bulk_create([row], ignore_conflicts=True)


def subject_line(text: str) -> str:
    """The subject as one line, so that no label or text of a server can add a header."""
    line = readable(f"Waybill: {text}")
    return line if len(line) <= MAX_SUBJECT else line[: MAX_SUBJECT - 1] + "…"


def body_of(lines: Iterable[str]) -> str:
    """The lines as the text of a mail."""
    return "\n".join(map(readable, lines)) + "\n"


def _short(task: Task) -> str:
    if task.type == TaskType.DELETE and not task.label:
        return task_names.of(task)
    text = _("the transfer %(way)s") if task.type == TaskType.TRANSFER else _("the deletion %(way)s")
    return text % {"way": f'"{task_names.of(task)}"'}


def _what(task: Task) -> str:
    text = _("Your transfer %(way)s") if task.type == TaskType.TRANSFER else _("Your deletion %(way)s")
    return text % {"way": way(task)} + f' ("{task_names.of(task)}")'


def _ended_line(task: Task, succeeded: bool) -> str:
    text = _("%(task)s has succeeded.") if succeeded else _("%(task)s has failed.")
    return text % {"task": _what(task)}


def way(task: Task) -> str:
    """The endpoints of a task, in words of the language that is active."""
    source = canonical_name(task.source)
    if task.destination is None:
        return _("on %(endpoint)s") % {"endpoint": source}
    return _("from %(source)s to %(destination)s") % {
        "source": source,
        "destination": canonical_name(task.destination),
    }


def _numbers(task: Task) -> list[str]:
    deletion = task.type == TaskType.DELETE
    pairs = [
        (_("files deleted") if deletion else _("files moved"), str(task.files_transferred)),
        (_("files left as they were"), str(task.files_skipped)),
        (_("files that failed"), str(task.files_failed)),
        (_("files not reached"), str(task.files_left)),
    ]
    if not deletion:
        values = {"moved": task.bytes_transferred, "total": task.bytes_total}
        pairs.append((_("bytes"), _("%(moved)d of %(total)d") % values))
    pairs.append((_("asked for"), _time(task.request_time)))
    if task.completion_time:
        pairs.append((_("ended"), _time(task.completion_time)))
    return [f"  {name}: {value}" for name, value in pairs]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _link(task: Task, more: str = "") -> str:
    return f"{settings.PUBLIC_URL}{TASK}{task.pk}{more}"
