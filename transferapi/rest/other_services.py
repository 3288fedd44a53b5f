"""Services of Globus that are not here: their clients get an error which they can read, and show as a sentence.

Clients that have one address for all services send requests for Flows, Search and Compute here. They do not repeat a
request that is answered by 501. The documents have the form of each service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, JsonResponse

from .http.errors import request_id

STATUS, CODE = 501, "ServiceNotHere"


@dataclass(frozen=True, slots=True)
class OtherService:
    name: str
    #: Of the addresses of its routes.
    paths: re.Pattern[str]


_FLOWS = OtherService("Globus Flows", re.compile(r"/(flows|runs|registered_apis|web_inputs)(/|\Z)"))
_SEARCH = OtherService("Globus Search", re.compile(r"/v1/(index|index_list|search|task|task_list)(/|\Z)|/beta/"))
_COMPUTE = OtherService(
    "Globus Compute",
    re.compile(
        r"/v3/(endpoints|functions)(/|\Z)"
        r"|/v2/(batch_status|endpoints|functions|get_amqp_result_connection_url|submit|taskgroup|tasks|version)(/|\Z)"
    ),
)
_GCS = OtherService("the manager of Globus Connect Server", re.compile(r"/api/"))
OTHERS = (_FLOWS, _SEARCH, _COMPUTE, _GCS)


def answer(request: HttpRequest) -> JsonResponse | None:
    """The error, for the address of a service that is not here; else None."""
    found = next((one for one in OTHERS if one.paths.match(request.path_info)), None)
    if found is None:
        return None
    sentence = f"This service transfers data; {found.name} is not here"
    return JsonResponse(_document(found, sentence, request_id(request)), status=STATUS)


def _document(service: OtherService, sentence: str, name: str) -> Mapping[str, Any]:
    if service is _FLOWS:
        return {"error": {"code": CODE, "detail": sentence}, "request_id": name}
    more: dict[str, Any] = {"code": CODE, "message": sentence, "request_id": name}
    if service is _SEARCH:
        return {"@datatype": "GError", "@version": "2017-09-01", "status": STATUS, "error_data": None, **more}
    if service is _COMPUTE:
        return {"status": "Failed", "reason": sentence, "http_status_code": STATUS, **more}
    return {"DATA_TYPE": "result#1.0.0", "http_response_code": STATUS, "data": [], "detail": None, **more}
