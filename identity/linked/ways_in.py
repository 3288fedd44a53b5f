"""The ways in which a user signs in to the pages: by password, passkey, linked identity or certificate."""

from __future__ import annotations

from identity.models import CertificateSubject, LinkedIdentity, Passkey, User


def has_another(user: User, without: Passkey | LinkedIdentity | CertificateSubject) -> bool:
    """Whether the user could sign in to the pages without this row. A copied passkey signs nobody in.

    Call it with the row of the user locked: two requests could remove the last two ways.
    """
    rows = (
        *Passkey.objects.filter(user=user, copied_at=None),
        *LinkedIdentity.objects.filter(user=user),
        *CertificateSubject.objects.filter(user=user),
    )
    return user.has_usable_password() or any(row != without for row in rows)
