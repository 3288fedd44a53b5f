"""The commands of the ssh shell, as docs/shell.md lists them: the manual pages of `man COMMAND`."""

from __future__ import annotations

import os

import django


def commands() -> str:
    """A section for each heading of `help`, and in it the manual page of each command, word for word."""
    # The commands import the models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    django.setup()
    from transferapi.shell.command import COMMANDS, Heading
    from transferapi.shell.commands import load
    from transferapi.shell.commands.help import manual

    load()

    sections = []
    for heading in Heading:
        listed = [one for _, one in sorted(COMMANDS.items()) if one.heading is heading and not one.hidden]
        pages = [f"### {one.name}\n\n{one.summary}.\n\n```text\n{manual(one)}```\n" for one in listed]
        if pages:
            sections.append(f"## {heading}\n\n" + "\n".join(pages))
    return "\n" + "\n".join(sections)
