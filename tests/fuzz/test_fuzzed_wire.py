"""A part of the damaged requests over TLS to `muster up`: the same promises, and the process lives on."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from tests import support
from tests.e2e.process import Muster, started
from tests.fuzz.requests import Case, case
from tests.fuzz.test_fuzzed_requests import wrong_with
from tests.kubernetes.client import trusting

FULL = 5_000
TIMEOUT_S = 30.0
FROM = 1_000_000  # numbers that no other test has


def problem_with(connection: http.client.HTTPSConnection, muster: Muster, one: Case) -> str:
    """What is wrong with the answer to one request; what a client of ours cannot even send is not asked."""
    headers = {**one.headers, "Authorization": f"Bearer {muster.client.token}"}
    headers.pop("content-length", None)  # the next request would be read as the rest of this one
    try:
        connection.request(one.method, one.path, one.body, headers)
    except (ValueError, http.client.InvalidURL):  # UnicodeEncodeError is one
        connection.close()
        return ""
    answer = connection.getresponse()
    told = {name.lower(): value for name, value in answer.getheaders()}
    problem = wrong_with(answer.status, answer.read(), told, is_head=one.method == "HEAD")
    return f"{one}: {problem}" if problem else ""


@pytest.mark.prove
def test_damaged_requests_over_tls(tmp_path):
    with started(tmp_path / "state") as muster:
        place, found = urlsplit(muster.url), []
        context = trusting(muster.client.ca_file)
        connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=TIMEOUT_S, context=context)
        for number in range(FROM, FROM + support.proof_count(FULL)):
            one = case(number)
            if "watch" in one.path:  # it would last as long as it says
                continue
            try:
                problem = problem_with(connection, muster, one)
            except http.client.HTTPException as broken:  # hung up, as on a head that is too long
                connection.close()
                problem = "" if isinstance(broken, http.client.RemoteDisconnected) else f"{one}: {broken!r}"
            if problem:
                found.append(problem)
        connection.close()
        assert muster.client.request("GET", "/readyz").status == 200
        muster.stop()
        errors = muster.process.stderr.read() if muster.process.stderr is not None else ""
    assert not found, "\n".join(found[:20])
    assert "Traceback" not in errors, errors[-3000:]
