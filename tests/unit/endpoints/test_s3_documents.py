"""Signatures, paths and documents of object stores."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.s3.answers import StoreError, list_page, parsed, refusal
from endpoints.s3.http import AnswerHead
from endpoints.s3.places import place_of
from endpoints.s3.session import modified_of, mtime_text
from endpoints.s3.signature import EMPTY, AccessKey, encoded_path, encoded_query, signed

#: The examples of the Amazon S3 API Reference, "Signature Calculations for the Authorization Header".
KEY = AccessKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = {"host": "examplebucket.s3.amazonaws.com"}
WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "payload", "signature"),
    [
        (
            "GET", "/test.txt", {}, {"range": "bytes=0-9"}, EMPTY,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test$file.text", {},
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}, WELCOME,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/", {"lifecycle": ""}, {}, EMPTY, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "GET", "/", {"max-keys": "2", "prefix": "J"}, {}, EMPTY,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_a_signature_is_that_of_the_examples_of_aws(method, path, query, headers, payload, signature) -> None:
    moment = datetime(2013, 5, 24, tzinfo=UTC)
    sent = signed(KEY, "us-east-1", moment, method, path, query, HOST | headers, payload)
    assert sent["authorization"].endswith(f"Signature={signature}")
    assert KEY.secret not in str(sent)


def test_the_token_of_temporary_credentials_is_signed_and_survives_the_vault() -> None:
    key = AccessKey.unpack(AccessKey("id", "secret", "token").pack())
    sent = signed(key, "eu", datetime(2026, 1, 1, tzinfo=UTC), "GET", "/", {}, HOST, EMPTY)
    assert (sent["x-amz-security-token"], "x-amz-security-token" in sent["authorization"]) == ("token", True)
    assert "secret" not in repr(key)
    assert "token" not in repr(key)


def test_everything_but_unreserved_characters_is_encoded_once() -> None:
    assert encoded_path("/b/a b+c%41é~.txt") == "/b/a%20b%2Bc%2541%C3%A9~.txt"
    assert encoded_query({"prefix": "a/b c", "list-type": "2"}) == "list-type=2&prefix=a%2Fb%20c"


# ---- paths


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", ("", "")), ("/~/", ("", "")), ("/~/b/k", ("b", "k")), ("/b", ("b", "")), ("/b/", ("b", "")),
        ("/b/a/c/", ("b", "a/c")), ("/b/ ", ("b", " ")), (f"/b/{'k' * 1024}", ("b", "k" * 1024)),
    ],
)  # fmt: skip
def test_a_path_is_a_bucket_and_a_key(path: str, place: tuple[str, str]) -> None:
    assert tuple(place_of(path)) == place


@pytest.mark.parametrize(
    "path",
    ["", "b/k", "/b//k", "/b/../c", "/b/.", "/../b", "/b/a\0", "/b/\udcff", f"/b/{'k' * 1025}", f"/b/{'é' * 513}"],
)
def test_a_path_that_no_key_can_have_is_refused_for_good(path: str) -> None:
    with pytest.raises(FaultError) as caught:
        place_of(path)
    assert (caught.value.fault.kind, caught.value.fault.retryable) == (Kind.INVALID_PATH_NAME, False)


# ---- documents


def page(*contents: str, more: str = "<IsTruncated>false</IsTruncated>", encoding: str = "url") -> bytes:
    rows = "".join(contents)
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    text = f"<EncodingType>{encoding}</EncodingType>{rows}{more}"
    return f'<?xml version="1.0"?><ListBucketResult xmlns="{namespace}">{text}</ListBucketResult>'.encode()


def content(key: str, size: str = "1") -> str:
    return (
        f"<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>"
    )


def test_a_page_has_objects_and_folders_with_their_names_decoded() -> None:
    prefixes = "<CommonPrefixes><Prefix>a%2Fsub+folder%2F</Prefix></CommonPrefixes>"
    found = list_page(page(content("a%2Fb%2Bc+%C3%A9", "12"), prefixes), "a/")
    [one] = found.objects
    assert (one.key, one.size, one.modified) == ("a/b+c é", 12, datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
    assert (found.prefixes, found.token, found.unreadable) == (("a/sub folder/",), "", ())


def test_a_page_without_encoding_is_taken_as_it_is() -> None:
    assert list_page(page(content("a+b%41"), encoding=""), "").objects[0].key == "a+b%41"


@pytest.mark.parametrize(("key", "size"), [("%FF", "1"), ("a", "-1"), ("a", ""), ("a", "1e3"), ("a", "9" * 20)])
def test_what_has_no_name_or_no_size_is_reported(key: str, size: str) -> None:
    found = list_page(page(content(key, size), content("good")), "")
    assert ([one.key for one in found.objects], len(found.unreadable)) == (["good"], 1)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"\xff", b"<ListBucketResult/>", b"<Other/>",
        page(more=""), page(more="<IsTruncated>maybe</IsTruncated>"), page(more="<IsTruncated>true</IsTruncated>"),
        page(content("other")),
        b'<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>',
    ],
)  # fmt: skip
def test_a_page_that_is_none_is_a_fault(body: bytes) -> None:
    with pytest.raises(FaultError):
        list_page(body, "a/")


def test_an_error_in_a_success_is_an_error() -> None:
    with pytest.raises(StoreError) as caught:
        parsed(
            b"<Error><Code>InternalError</Code><Message>Try again</Message></Error>", "CompleteMultipartUploadResult"
        )
    assert (caught.value.code, caught.value.fault.kind) == ("InternalError", Kind.ENDPOINT_ERROR)


@pytest.mark.parametrize(
    ("status", "code", "kind", "scope"),
    [
        (404, "NoSuchKey", Kind.FILE_NOT_FOUND, FaultScope.FILE),
        (404, "", Kind.FILE_NOT_FOUND, FaultScope.FILE),
        (404, "SomethingElse", Kind.ENDPOINT_ERROR, FaultScope.FILE),
        (403, "AccessDenied", Kind.PERMISSION_DENIED, FaultScope.FILE),
        (403, "SignatureDoesNotMatch", Kind.AUTH, FaultScope.ENDPOINT),
        (400, "ExpiredToken", Kind.NO_CREDENTIALS, FaultScope.ENDPOINT),
        (403, "RequestTimeTooSkewed", Kind.ENDPOINT_ERROR, FaultScope.ENDPOINT),
        (503, "SlowDown", Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT),
        (503, "", Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT),
        (429, "", Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT),
        (307, "TemporaryRedirect", Kind.ENDPOINT_ERROR, FaultScope.ENDPOINT),
        (500, "", Kind.ENDPOINT_ERROR, FaultScope.FILE),
    ],
)
def test_a_refusal_has_the_kind_of_its_code(status: int, code: str, kind: Kind, scope: FaultScope) -> None:
    body = f"<Error><Code>{code}</Code><Message>words</Message></Error>".encode() if code else b"<html>proxy</html>"
    fault = refusal(status, {}, body).fault
    assert (fault.kind, fault.scope) == (kind, scope)


def test_a_region_is_a_word() -> None:
    body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>%s</Region></Error>"
    assert refusal(400, {}, body % b"eu-north-1").region == "eu-north-1"
    assert refusal(400, {}, body % b"eu/../s3\n").region == ""


@pytest.mark.parametrize("moment", [datetime(2020, 1, 2, 3, 4, 5, 678000, UTC), datetime(1969, 12, 31, tzinfo=UTC)])
def test_a_modification_time_is_kept_as_rclone_keeps_it(moment: datetime) -> None:
    assert modified_of(AnswerHead(200, {"x-amz-meta-mtime": mtime_text(moment)})) == moment


@pytest.mark.parametrize("text", ["nan", "inf", "1e300", "yesterday", ""])
def test_another_time_is_that_of_the_upload(text: str) -> None:
    headers = {"x-amz-meta-mtime": text, "last-modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
    assert modified_of(AnswerHead(200, headers)) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert modified_of(AnswerHead(200, {"last-modified": "never"})) is None
