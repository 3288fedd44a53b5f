"""Certificate subjects that sign a user in, in slash form ("/O=Grid/CN=Alice").

The web server or `identity.gsi.trust` verifies the certificate itself; this module only maps its subject to a user.

CertificateSubjectError
|- SubjectInvalidError(reason)      not a name in slash form
|- SubjectNotProvenError(subject)   the user has not proven to own the subject
|- SubjectTakenError(subject)       another user has registered it
|- TooManySubjectsError(limit)      this user has the maximum number
|- LastSubjectError                 without it the user could not sign in any more
|- SubjectNotFoundError(ref)        no such subject, or not one of this user
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db import transaction

from identity.gsi.printable import translatable as _

from . import sign_up as sign_up_rules
from . import users
from .database_rows import row_by_id, unless_taken
from .error_categories import CategorizedError, Category, LimitExceededError, NotFoundError
from .gsi.name_parsing import BadNameError, normalized_slash_name
from .hidden import Secret
from .models import CertificateSubject, Credential, User
from .sign_up import Applicant
from .signals import account_changed

#: Subjects of one user.
MOST = 50
#: Characters, as in the table's columns.
MAX_SUBJECT, MAX_LABEL = 1024, 128


class CertificateSubjectError(CategorizedError):
    """The root of this tree."""


class SubjectInvalidError(CertificateSubjectError):
    category = Category.INVALID
    template = "subject: {self.reason}"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _SubjectError(CertificateSubjectError):
    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.subject = subject


class SubjectNotProvenError(_SubjectError):
    category = Category.PERMISSION_DENIED
    code = "ClientError.SubjectNotProven"
    template = (
        "You have not shown that {self.subject} is yours: send this with that certificate (and your token), "
        "or activate an endpoint with it first"
    )


class SubjectTakenError(_SubjectError):
    category = Category.EXISTS
    template = "The subject {self.subject} is registered already"


class TooManySubjectsError(CertificateSubjectError, LimitExceededError):
    template = "A user has at most {self.limit} subjects"


class LastSubjectError(CertificateSubjectError):
    category = Category.CONFLICT
    reason = _("You could not sign in any more. Set a password, or add a passkey or another identity first.")


class SubjectNotFoundError(CertificateSubjectError, NotFoundError):
    kind = "certificate subject"


def user_of(subject: str) -> User | None:
    """The user of a normalized subject; None when nobody has registered it, or its user is inactive."""
    found = CertificateSubject.objects.select_related("user").filter(subject=subject).first()
    return found.user if found is not None and found.user.is_active else None


def is_registered(subject: str) -> bool:
    """Whether any user has registered it, also one who is inactive."""
    return CertificateSubject.objects.filter(subject=subject).exists()


def sign_up(subject: str, username: str, invitation: Secret | None = None) -> User:
    """Make a user who signs in by this subject, and has no password, if the rule of sign-up admits this person.

    The caller has verified the certificate of the present connection. It proves no mail address, so that only an
    invitation without an address admits. Raises CertificateSubjectError, SignUpError; nothing is changed then.
    """
    with transaction.atomic():
        user = sign_up_rules.sign_up(Applicant(username, "", "", is_proven=False), invitation)
        add(user, subject, proven=[_one_form(subject)])
    return user


def of(user: User) -> list[CertificateSubject]:
    """All subjects of this user, by name."""
    return list(CertificateSubject.objects.filter(user=user).order_by("subject"))


def add(user: User, subject: str, label: str = "", *, proven: Collection[str] = ()) -> CertificateSubject:
    """Register a subject: certificates with it then sign this user in. Raises CertificateSubjectError.

    The subject must be the user's own: one of `proven` (by the present connection, or by the operator), or the subject
    of a credential in the user's vault. Otherwise a user could register the subject of a colleague, who would then sign
    in to the wrong account and leave credentials there.
    """
    subject = _one_form(subject)
    if subject not in proven and not Credential.objects.filter(user=user, kind="x509", subject=subject).exists():
        raise SubjectNotProvenError(subject)
    with unless_taken("identity_certificatesubject_subject_key", SubjectTakenError(subject)):
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if CertificateSubject.objects.filter(user=user).count() >= MOST:
            raise TooManySubjectsError(MOST)
        row = CertificateSubject.objects.create(user=user, subject=subject, label=label[:MAX_LABEL])
    account_changed.send(CertificateSubject, user=user, what="subject_added", name=subject)
    return row


def provable(user: User) -> list[str]:
    """Subjects that the user could register now, from the credentials in the vault."""
    found = Credential.objects.filter(user=user, kind="x509").values_list("subject", flat=True)
    known = CertificateSubject.objects.filter(user=user).values_list("subject", flat=True)
    return sorted(set(found) - set(known))


def remove(user: User, subject_id: uuid.UUID | str) -> None:
    """Raises SubjectNotFoundError, LastSubjectError."""
    with transaction.atomic():
        # Changes happen one after another: two could remove the last two.
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        row = row_by_id(CertificateSubject.objects.filter(user=user), subject_id, SubjectNotFoundError(subject_id))
        if not users.can_sign_in_without(user, row):
            raise LastSubjectError
        row.delete()
    account_changed.send(CertificateSubject, user=user, what="subject_removed", name=row.subject)


def _one_form(subject: str) -> str:
    """The subject in normal form. Raises SubjectInvalidError."""
    if len(subject) > MAX_SUBJECT:
        raise SubjectInvalidError(f"A subject has at most {MAX_SUBJECT} characters")
    try:
        found = normalized_slash_name(subject.strip())
    except BadNameError as error:
        raise SubjectInvalidError(error.reason) from None
    if len(found) > MAX_SUBJECT:
        raise SubjectInvalidError(f"A subject has at most {MAX_SUBJECT} characters")
    return found
