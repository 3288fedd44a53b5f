"""The options of a transfer, as the page asks for them: each has a sentence, and a few words for the summary."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Words = str | Promise


class Switch(NamedTuple):
    """An option that is on or off. name: as in a transfer document. short: for the summary."""

    name: str
    label: Words
    sentence: Words
    short: Words
    on: bool = False


class Choice(NamedTuple):
    """One value of a selection. short: for the summary; "" where it is the usual one."""

    value: str
    label: Words
    short: Words = ""


SWITCHES = (
    Switch(
        "verify_checksum",
        _("Verify what arrives"),
        _("The checksums of both sides are compared, and what differs is sent again."),
        _("checksums on"),
        on=True,
    ),
    Switch(
        "preserve_timestamp",
        _("Keep modification times"),
        _("The copies get the modification times of their sources."),
        _("times kept"),
    ),
    Switch(
        "encrypt_data",
        _("Encrypt the data"),
        _("The data is encrypted on its way. This can be slower."),
        _("encrypted"),
    ),
    Switch(
        "skip_source_errors",
        _("Pass over files that cannot be read"),
        _("The transfer goes on without them, and lists them."),
        _("unreadable files are passed over"),
    ),
    Switch(
        "delete_destination_extra",
        _("Mirror: delete what is only at the destination"),
        _("Files in the copied folders that the source does not have are deleted at the destination, after all else."),
        _("mirror, deletes extra files"),
    ),
)
SYNC = (
    Choice("", _("Copy everything")),
    Choice("0", _("Only files that are missing at the destination"), _("only missing files")),
    Choice("1", _("Also files of another size"), _("files of another size")),
    Choice("2", _("Also files that are newer at the source"), _("newer files")),
    Choice("3", _("Also files with another checksum"), _("files with another checksum")),
)
#: Percent of the destination above which a mirror asks before it deletes; the first is chosen at the beginning.
CONFIRM = (
    Choice("50", _("before more than half of the destination is deleted")),
    Choice("10", _("before more than a tenth of the destination is deleted")),
    Choice("0", _("before anything is deleted")),
    Choice("", _("never")),
)
DEADLINES = (
    Choice("1", _("1 day, and longer while it makes progress"), _("1 day")),
    Choice("3", _("3 days"), _("deadline 3 days")),
    Choice("7", _("7 days"), _("deadline 7 days")),
    Choice("30", _("30 days"), _("deadline 30 days")),
)


def of_form(form: Mapping[str, str]) -> dict[str, object]:
    """The fields of a transfer document, from the form of the page."""
    found: dict[str, object] = {one.name: form.get(one.name) == "on" for one in SWITCHES}
    if form.get("sync_level", "").isdecimal():
        found["sync_level"] = int(form["sync_level"])
    confirm = form.get("confirm_deletion_above", CONFIRM[0].value)
    if found["delete_destination_extra"] and confirm.isdecimal():
        found["confirm_deletion_above"] = int(confirm)
    return found


def deadline(form: Mapping[str, str]) -> datetime | None:
    """None: the default, which progress extends."""
    days = form.get("deadline_days", "1")
    known = {one.value for one in DEADLINES[1:]}
    return datetime.now(UTC) + timedelta(days=int(days)) if days in known else None
