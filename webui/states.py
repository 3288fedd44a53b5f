"""The states of tasks as pages show them: an icon and a word for each."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from transferapi.tasks.display_state import DisplayState


class ShownState(NamedTuple):
    """key: the class of the chip, and the value in addresses."""

    key: str
    icon: str
    word: str | Promise


#: An active or queued task that does not go on for a fault that is tried again. Filters count it as what it is.
STALLED = ShownState("stalled", "alert", _("Stalled"))
SHOWN = {
    state: ShownState(state.value, icon, word)
    for state, icon, word in (
        (DisplayState.QUEUED, "queue", _("Queued")),
        (DisplayState.ACTIVE, "activity", _("Active")),
        (DisplayState.NEEDS_YOU, "person-needed", _("Needs you")),
        (DisplayState.PAUSED, "pause", _("Paused")),
        (DisplayState.DONE, "check-circle", _("Done")),
        (DisplayState.SKIPS, "check-skips", _("Done with skips")),
        (DisplayState.FAILED, "cross-circle", _("Failed")),
        (DisplayState.CANCELED, "ban", _("Canceled")),
    )
}
