"""The commands of the shell about access rules, roles and bookmarks."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from endpoints import bookmarks
from endpoints.models import AccessRule, Endpoint, Role
from identity import groups
from identity.models import User
from tests.integration.rest import Api
from tests.integration.shared import make_share
from tests.shell_context import Shell
from transferapi.tasks.models import Mail

pytestmark = pytest.mark.django_db


@pytest.fixture
def shell(alice: User) -> Shell:
    return Shell(alice)


@pytest.fixture
def share(ep1: Endpoint) -> Endpoint:
    return make_share(ep1, "share")


def rule_of(out: str) -> AccessRule:
    """The rule whose id is the last word of the output."""
    assert out.count("\n") == 1
    return AccessRule.objects.get(pk=uuid.UUID(out.split()[-1]))


# ---- access rules


def test_the_last_word_of_acl_add_is_the_id_of_the_rule(shell: Shell, share: Endpoint, bob: User) -> None:
    rule = rule_of(shell.ok("acl-add share/data/ --perm rw --identityusername bob"))
    assert (rule.endpoint, rule.path, rule.permissions) == (share, "/data/", "rw")
    assert (rule.principal_type, rule.principal) == ("identity", bob.pk)
    rule = rule_of(shell.ok(f"acl-add 'alice#share/with%20blank%25' --perm=r --identityid={bob.pk}"))
    assert rule.path == "/with blank%/"
    assert rule_of(shell.ok(f"acl-add {share.pk} --perm r --all")).principal_type == "all_authenticated_users"
    assert rule_of(shell.ok("acl-add share:/~/open --anonymous --perm r")).path == "/open/"
    made = shell.run(f"acl-add share/json/ --perm r --identityid {bob.pk} -O json").json
    assert AccessRule.objects.filter(pk=made["access_id"], path="/json/").exists()


def test_a_rule_for_a_group_and_until_a_date(shell: Shell, share: Endpoint) -> None:
    group = groups.create(shell.user, name="the team").group
    rule = rule_of(shell.ok(f"acl-add share/x/ --perm r --groupid {group.pk} --expires 2d"))
    assert (rule.principal_type, rule.principal) == ("group", group.pk)
    assert rule.expires_at is not None
    assert abs(rule.expires_at - datetime.now(UTC) - timedelta(days=2)) < timedelta(minutes=1)


def test_a_user_is_informed_by_mail_where_the_line_says_so(shell: Shell, share: Endpoint, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(email="bob@example.org")
    shell.ok("acl-add share/a/ --perm r --identityusername bob --notify-email bob@example.org --message 'Have a look'")
    [mail] = Mail.objects.filter(user=bob)
    assert "Have a look" in mail.body


def test_a_name_that_is_an_address_is_taken_by_email(shell: Shell, share: Endpoint) -> None:
    dora = User.objects.create(username="dora@example.org", email="dora@example.org")
    assert rule_of(shell.ok("acl-add share/d/ --perm r --email dora@example.org")).principal == dora.pk
    assert Mail.objects.filter(user=dora).count() == 1
    error = shell.fails("acl-add share/d/ --perm r --email nobody@example.org")
    assert "No identity has the name 'nobody@example.org'; give the name of a user by --identityusername" in error


def test_whose_an_address_is_cannot_be_found_out(shell: Shell, share: Endpoint, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(email="secret@example.org")
    known, unknown = (
        shell.fails(f"acl-add share/ --perm r --email {name}@example.org") for name in ("secret", "other")
    )
    assert known.replace("secret", "other") == unknown


def test_acl_list_is_a_json_array_of_the_documents_of_rest(shell: Shell, share: Endpoint, bob: User) -> None:
    assert shell.run("acl-list share").json == []
    rule = rule_of(shell.ok("acl-add share/data/ --perm rw --identityusername bob"))
    of_rest = [row for row in Api(shell.user).get("/endpoint/share/access_list").body["DATA"] if row["id"]]
    assert shell.run("acl-list share").json == shell.run("acl-list share -O json").json == of_rest
    assert shell.ok("acl-list share -f path,permissions -O csv") == "/data/,rw\n"
    assert shell.ok("acl-list share -f id") == f"ID: {rule.pk}\n"
    assert shell.ok("acl-list share -O text").startswith("ID             : ")


def test_a_rule_is_removed_by_its_id(shell: Shell, share: Endpoint, bob: User) -> None:
    for line in ("acl-remove share --id {}", "acl-remove share {}"):
        rule = rule_of(shell.ok("acl-add share/data/ --perm rw --identityusername bob"))
        assert shell.ok(line.format(rule.pk)) == ""
        assert "No such access rule" in shell.fails(line.format(rule.pk))


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("acl-add share/x/ --all", 2, "--perm is missing: r or rw"),
        ("acl-add share/x/ --perm w --all", 2, "'w' is neither r nor rw"),
        ("acl-add share/x/ --perm r", 2, "a principal is missing: --identityusername"),
        ("acl-add share/x/ --perm r --all --anonymous", 2, "name one principal only"),
        ("acl-add share/../x --perm r --all", 1, 'no ".." components'),
        ("acl-add share/x/ --perm r --identityid nonsense", 1, "of a group, a UUID"),
        ("acl-add share/x/ --perm r --identityusername nobody", 1, "No identity has the name 'nobody'"),
        ("acl-add share/x/ --perm r --all --expires 2001-01-01", 1, "in the past"),
        ("acl-add share/x/ --perm r --all --expires soon", 2, "'soon' is not a deadline"),
        ("acl-add ep1/x/ --perm r --all", 1, "endpoint-add NAME --sharing alice#ep1/FOLDER/"),
        ("acl-list ep1", 1, "alice#ep1 is no shared endpoint"),
        ("acl-remove share", 2, "an operand is missing"),
        ("acl-remove share --id nonsense", 1, "No such access rule 'nonsense'"),
        ("endpoint-role-add ep1 --identityusername alice", 2, "--role is missing"),
        ("endpoint-role-add ep1 --identityusername alice --role king", 2, "'king' is not one of administrator"),
        ("endpoint-role-add ep1 --role administrator", 2, "a principal is missing"),
        ("endpoint-role-remove ep1 --id nonsense", 1, "No such role 'nonsense'"),
        ("bookmark-add ep1", 2, "an operand is missing"),
        ("bookmark-add nix/x name", 1, "No such endpoint 'nix'"),
        ("bookmark-add ep1/x ''", 1, "A name must not be empty"),
        ("bookmark-remove nix", 1, "No such bookmark 'nix'"),
        ("bookmark-rename nix nux", 1, "No such bookmark 'nix'"),
    ],
)
def test_bad_input_is_reported_with_the_form_that_works(
    shell: Shell, share: Endpoint, line: str, status: int, words: str
) -> None:
    error = shell.fails(line, status=status)
    assert words in error
    assert AccessRule.objects.count() == 0


# ---- roles


def test_roles_are_given_shown_and_taken_back(shell: Shell, ep1: Endpoint, bob: User) -> None:
    out = shell.ok("endpoint-role-add ep1 --identityusername bob --role activity_manager")
    role = Role.objects.get(pk=out.split()[-1])
    assert (role.principal, role.role) == (bob.pk, "activity_manager")
    assert shell.ok("endpoint-role-list ep1 -f principal,role -O csv") == (
        f"{shell.user.pk},administrator\n{bob.pk},activity_manager\n"
    )
    of_rest = Api(shell.user).get("/endpoint/ep1/role_list").body["DATA"]
    assert shell.run("endpoint-role-list ep1 -O json").json == of_rest
    assert "is activity_manager already" in shell.fails(
        f"endpoint-role-add ep1 --identityid {bob.pk} --role activity_manager"
    )
    assert Shell(bob).ok("endpoint-role-list alice#ep1 -f role") == "Role: activity_manager\n"
    assert shell.ok(f"endpoint-role-remove ep1 --id {role.pk}") == ""
    owners = of_rest[0]["id"]
    assert "stays its administrator" in shell.fails(f"endpoint-role-remove ep1 {owners}")


# ---- bookmarks


def test_a_bookmark_stands_for_its_endpoint_with_its_folder(shell: Shell, ep1: Endpoint) -> None:
    out = shell.ok("bookmark-add ep1/data/ results")
    row = bookmarks.all_of(shell.user)[0]
    assert out == f"Bookmark ID: {row.pk}\n"
    shell.ok("bookmark-add 'my%2Fname and blanks' ep1:~/x")
    assert shell.ok("bookmark-list -f name,endpoint,path -O csv") == (
        "my/name and blanks,alice#ep1,/~/x/\nresults,alice#ep1,/data/\n"
    )
    shell.ok("bookmark-add ^results/inner below")
    assert shell.ok("bookmark-list -f name,path -O csv").splitlines()[0] == "below,/data/inner/"
    of_rest = Api(shell.user).get("/bookmark_list").body["DATA"]
    assert shell.run("bookmark-list -O json").json == of_rest
    assert "have a bookmark named 'results' already" in shell.fails("bookmark-add ep1/y results")


def test_bookmarks_are_renamed_and_removed_by_name_or_id(shell: Shell, ep1: Endpoint) -> None:
    shell.ok("bookmark-add ep1/a first")
    assert shell.ok("bookmark-rename first ^second") == ""
    assert shell.run("bookmark-rename second third -O json").json["name"] == "third"
    assert shell.ok("bookmark-remove ^third") == ""
    made = shell.run("bookmark-add ep1/a first -O json").json
    assert shell.ok(f"bookmark-remove {made['id']}") == ""
    assert shell.ok("bookmark-list") == ""


# ---- permission


def test_others_see_and_change_nothing(shell: Shell, share: Endpoint, bob: User, charlie: User) -> None:
    rule = rule_of(shell.ok("acl-add share/data/ --perm rw --identityusername bob"))
    shell.ok("bookmark-add ep1/a mine")
    lines = [
        "acl-add alice#share/x/ --perm rw --all",
        "acl-list alice#share",
        f"acl-remove alice#share --id {rule.pk}",
        "endpoint-role-add alice#share --role administrator --identityusername charlie",
        "endpoint-role-list alice#share",
        f"endpoint-role-remove alice#share --id {rule.pk}",
    ]
    for line in lines:
        assert Shell(charlie).fails(line) == "Error: No such endpoint 'alice#share'\n"
        assert Shell(bob).fails(line) == "Error: You do not have permission for this on this endpoint\n"
    for line in ("bookmark-remove mine", "bookmark-rename mine x"):
        assert Shell(bob).fails(line) == "Error: No such bookmark 'mine'\n"
    assert Shell(bob).ok("bookmark-list") == ""
    assert list(AccessRule.objects.all()) == [rule]


def test_a_bookmark_of_an_endpoint_that_is_gone_is_shown_without_its_name(
    shell: Shell, bob: User, public: Endpoint
) -> None:
    shell.ok("bookmark-add bob#public/x saved")
    Endpoint.objects.filter(pk=public.pk).update(public=False)
    assert shell.ok("bookmark-list -f name,endpoint -O csv") == "saved,n/a\n"
