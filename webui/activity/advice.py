"""Errors in words: a title for each kind of fault, and what the user can do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from endpoints.gridftp.faults import Kind
from transferapi.tasks.causes import Cause, Outcome
from transferapi.tasks.models import File, Task
from webui.templatetags.waybill import count

_LOOK_AT_RIGHTS = gettext_lazy("Ask the owner of the endpoint for access, or correct the rights of these files.")
_NOTHING = gettext_lazy("Nothing, for now. If it goes on, ask those who run the endpoint.")
_RENEW = gettext_lazy("Give a new credential for the endpoint.")
_OTHER_NAME = gettext_lazy("Rename the files, or choose another destination.")
_OPERATOR = gettext_lazy("Those who run the endpoint must correct it: give them the answer of the server below.")

#: Kind -> its title, and what to do.
KNOWN: dict[str, tuple[str | Promise, str | Promise]] = {
    Kind.ACL_CHANGED: (gettext_lazy("Access was withdrawn"), gettext_lazy("Ask the owner of the shared endpoint.")),
    Kind.AGENT_AWAY: (
        gettext_lazy("A computer is not connected"),
        gettext_lazy("Start the agent on that computer, or wake it up. The task then goes on by itself."),
    ),
    Kind.AGENT_PAUSED: (
        gettext_lazy("A computer is paused"),
        gettext_lazy("Wait until its owner ends the pause. The task then goes on by itself."),
    ),
    Kind.AUTH: (gettext_lazy("Login refused"), _RENEW),
    Kind.CONNECT_FAILED: (gettext_lazy("The server cannot be reached"), _NOTHING),
    Kind.CONNECTION_BROKEN: (gettext_lazy("The connection was lost"), _NOTHING),
    Kind.CONNECTION_RESET: (gettext_lazy("The connection was lost"), _NOTHING),
    Kind.ENDPOINT_ERROR: (gettext_lazy("An error of the server"), _NOTHING),
    Kind.ENDPOINT_TOO_BUSY: (gettext_lazy("The server has too much to do"), _NOTHING),
    Kind.EXTERNAL_CHECKSUM_MISMATCH: (
        gettext_lazy("The file is not the expected one"),
        gettext_lazy("Compare the checksum that you gave with the source."),
    ),
    Kind.FILE_NOT_FOUND: (gettext_lazy("File not found"), gettext_lazy("Put the files back, or correct the paths.")),
    Kind.FILE_SIZE_CHANGED: (
        gettext_lazy("The file changed while it was read"),
        gettext_lazy("Wait until nothing writes to the source, then retry."),
    ),
    Kind.GSI_DN_MISMATCH: (gettext_lazy("The certificate is of another host"), _OPERATOR),
    Kind.HOST_KEY_CHANGED: (
        gettext_lazy("The host key of the server has changed"),
        gettext_lazy("The owner of the endpoint compares the keys and accepts the new one, on the endpoint's page."),
    ),
    Kind.INSECURE_SERVER: (gettext_lazy("The server cannot protect the connection"), _OPERATOR),
    Kind.INTERNAL_ERROR: (
        gettext_lazy("An error of this service"),
        gettext_lazy("Give the id of this task to those who run this service."),
    ),
    Kind.INVALID_PATH_NAME: (gettext_lazy("A name that the server does not take"), _OTHER_NAME),
    Kind.INVALID_SERVICE_CREDENTIAL: (gettext_lazy("The certificate of the server is not accepted"), _OPERATOR),
    Kind.INVALID_SYMLINK: (
        gettext_lazy("A symbolic link that leads nowhere"),
        gettext_lazy("Correct the links, or ignore links in the options."),
    ),
    Kind.AMBIGUOUS_PATH: (gettext_lazy("Two sources have one destination"), _OTHER_NAME),
    Kind.IS_A_DIRECTORY: (gettext_lazy("A folder is in the place of the file"), _OTHER_NAME),
    Kind.NOT_A_DIRECTORY: (gettext_lazy("A file is in the place of the folder"), _OTHER_NAME),
    Kind.NOT_A_SYMLINK: (gettext_lazy("No symbolic link is there"), gettext_lazy("Correct the paths.")),
    Kind.PATH_EXISTS: (gettext_lazy("There is something of this name already"), _OTHER_NAME),
    Kind.DIRECTORY_NOT_EMPTY: (
        gettext_lazy("The folder is not empty"),
        gettext_lazy("Delete with all that is in it (recursive), or empty it first."),
    ),
    Kind.LIMIT_EXCEEDED: (gettext_lazy("A limit is reached"), gettext_lazy("Divide the transfer into parts.")),
    Kind.NO_SPACE_LEFT: (gettext_lazy("No space left"), gettext_lazy("Make room at the destination.")),
    Kind.QUOTA_EXCEEDED: (
        gettext_lazy("The quota is used up"),
        gettext_lazy("Make room at the destination, or ask for more."),
    ),
    Kind.PERMISSION_DENIED: (gettext_lazy("Permission denied"), _LOOK_AT_RIGHTS),
    Kind.NO_CREDENTIALS: (gettext_lazy("No credential"), _RENEW),
    Kind.TIMEOUT: (gettext_lazy("No answer in time"), _NOTHING),
    Kind.UNSUPPORTED: (gettext_lazy("The server cannot do this"), gettext_lazy("Turn off the option that needs it.")),
    Kind.VERIFY_CHECKSUM: (
        gettext_lazy("The checksums differ"),
        gettext_lazy("Nothing: the files are sent again. If it goes on, a disk or a network is faulty."),
    ),
}
_UNKNOWN = (gettext_lazy("An error"), _OPERATOR)


@dataclass(frozen=True)
class CauseShown:
    """A cause for the page. next_words: what happens next, before `next_try`."""

    title: str
    code: str
    next_words: str
    next_try: datetime | None
    do: str
    raw: str
    files: list[File]
    more: int
    passed: bool


def title_of(code: str) -> str:
    return str(KNOWN.get(code, (_(code.replace("_", " ").capitalize()), ""))[0])


def shown(task: Task, cause: Cause) -> CauseShown:
    return CauseShown(
        title=_on_files(cause.code, cause.files),
        code=cause.code,
        next_words=_next(task, cause),
        next_try=cause.next_try if cause.outcome is Outcome.RETRIED else None,
        do=what_to_do(cause.code),
        raw=cause.raw,
        files=cause.first,
        more=cause.files - len(cause.first),
        passed=cause.outcome is Outcome.PASSED_OVER,
    )


def what_to_do(code: str) -> str:
    return str(KNOWN.get(code, _UNKNOWN)[1])


def _on_files(code: str, files: int) -> str:
    text = ngettext("%(title)s on %(files)s file", "%(title)s on %(files)s files", files)
    return text % {"title": title_of(code), "files": count(files)}


def _next(task: Task, cause: Cause) -> str:
    if cause.outcome is Outcome.RETRIED:
        return _("They are tried again, until the deadline.")
    if cause.outcome is Outcome.PASSED_OVER:
        return _("They were passed over, as the options ask for it.")
    if task.fatal_error_code in ("CANCELED", "EXPIRED"):
        return _("Nothing: the task ended before they arrived.")
    return _("Nothing: no repetition could help.")
