"""Certificate subjects that prove a user at the door, in slash form ("/O=Grid/CN=Alice").

Whether a certificate is genuine is another's matter (a front server's, or `endpoints.gridftp.trust`'s): here it is only
known whose it is.

CertificateSubjectError
|- SubjectInvalidError(reason)      not a name in slash form
|- SubjectNotProvenError(subject)   the user has not shown that it is his
|- SubjectTakenError(subject)       somebody has it already
|- TooManySubjectsError(limit)      this user has as many as he may
|- SubjectNotFoundError(ref)        no such subject, or not one of this user
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from endpoints.gridftp.written_names import BadNameError, one_form

from .conflicts import unless_taken
from .models import CertificateSubject, Credential, User

#: Of one user.
MOST = 50
#: Characters; what the table holds.
MAX_SUBJECT, MAX_LABEL = 1024, 128


class CertificateSubjectError(Exception):
    """The root of this tree."""


class SubjectInvalidError(CertificateSubjectError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SubjectNotProvenError(CertificateSubjectError):
    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.subject = subject


class SubjectTakenError(CertificateSubjectError):
    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.subject = subject


class TooManySubjectsError(CertificateSubjectError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class SubjectNotFoundError(CertificateSubjectError):
    """`ref` is as it was asked for."""

    def __init__(self, ref: object) -> None:
        super().__init__(ref)
        self.ref = ref


def user_of(subject: str) -> User | None:
    """Whose a subject in its one form is; None when it is nobody's, or its user is not active."""
    found = CertificateSubject.objects.select_related("user").filter(subject=subject).first()
    return found.user if found is not None and found.user.is_active else None


def of(user: User) -> list[CertificateSubject]:
    """All of this user, by name."""
    return list(CertificateSubject.objects.filter(user=user).order_by("subject"))


def add(user: User, subject: str, label: str = "", *, proven: Collection[str] = ()) -> CertificateSubject:
    """Let a certificate with this subject speak for this user. -> CertificateSubjectError

    It must be the user's own: among `proven` (by the connection that he asks by, or by the operator's word), or that of
    a credential that he has in the vault now. Else whoever registers a colleague's subject would be who the colleague
    signs in as, and would be given the credentials that the colleague then gives.
    """
    subject = _one_form(subject)
    if subject not in proven and not Credential.objects.filter(user=user, kind="x509", subject=subject).exists():
        raise SubjectNotProvenError(subject)
    with unless_taken("identity_certificatesubject_subject_key", SubjectTakenError(subject)):
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if CertificateSubject.objects.filter(user=user).count() >= MOST:
            raise TooManySubjectsError(MOST)
        return CertificateSubject.objects.create(user=user, subject=subject, label=label[:MAX_LABEL])


def provable(user: User) -> list[str]:
    """What the user could add now by what the vault has of him."""
    found = Credential.objects.filter(user=user, kind="x509").values_list("subject", flat=True)
    known = CertificateSubject.objects.filter(user=user).values_list("subject", flat=True)
    return sorted(set(found) - set(known))


def remove(user: User, subject_id: uuid.UUID | str) -> None:
    """-> SubjectNotFoundError"""
    try:
        deleted, _ = CertificateSubject.objects.filter(user=user, pk=uuid.UUID(str(subject_id))).delete()
    except ValueError:
        deleted = 0
    if not deleted:
        raise SubjectNotFoundError(subject_id)


def _one_form(subject: str) -> str:
    """-> SubjectInvalidError"""
    if len(subject) > MAX_SUBJECT:
        raise SubjectInvalidError(f"A subject has at most {MAX_SUBJECT} characters")
    try:
        found = one_form(subject.strip())
    except BadNameError as error:
        raise SubjectInvalidError(error.reason) from None
    if len(found) > MAX_SUBJECT:
        raise SubjectInvalidError(f"A subject has at most {MAX_SUBJECT} characters")
    return found
