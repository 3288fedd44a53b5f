"""The QR code of an address with a secret, drawn here, so that the secret leaves the page only to a camera."""

from __future__ import annotations

import io

import segno
from django.utils.safestring import SafeString, mark_safe

from identity.hidden import Secret

#: Modules of white around the code (ISO/IEC 18004 asks for four).
BORDER = 4


def svg(address: Secret) -> SafeString:
    """An <svg> element without colours of its own: the stylesheet draws it dark on white in both schemes."""
    found = io.BytesIO()
    code = segno.make(address.value, error="m", micro=False)
    code.save(
        found, kind="svg", border=BORDER, xmldecl=False, svgns=False, omitsize=True, svgclass="qr", lineclass=None
    )
    return mark_safe(found.getvalue().decode())  # noqa: S308 - drawn by segno from modules, with no text of ours in it
