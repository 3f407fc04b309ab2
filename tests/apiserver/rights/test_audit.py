"""The audit log: every request that got in has its line, nothing secret is in it, and it does not grow for ever."""

from __future__ import annotations

import asyncio
import json
import stat

from muster.apiserver.requests import User
from muster.apiserver.rights.audit import FILES, AuditLog, Entry
from muster.apiserver.rights.rbac import Question
from tests.apiserver.rights.guarded import ADMIN, Guarded, guarded

HERE = "/api/v1/namespaces/default"


def lines(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


def test_who_did_what_with_which_result(tmp_path):
    log = AuditLog(tmp_path)

    async def story(world: Guarded) -> None:
        agent = {"user-agent": "kubectl/v1"}
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "planted"}}
        assert (await world.admin("POST", f"{HERE}/secrets", secret, **agent)).status == 201
        token = await world.account()
        assert (await world.ask(token, "GET", f"{HERE}/secrets/s", **agent)).status == 403
        await world.admin("GET", f"{HERE}/pods?limit=5", **{"impersonate-user": "ann"})
        await world.admin("GET", "/nope")
        assert (await world.ask("wrong", "GET", f"{HERE}/pods")).status == 401
        assert (await world.ask("", "GET", "/healthz")).status == 200
        watch = world.exchange(
            "GET", f"{HERE}/pods?watch=1&timeoutSeconds=1", headers={"authorization": f"Bearer {ADMIN}"}
        )
        async with watch as exchange:
            await asyncio.sleep(0)
            assert not exchange.done.done()

    guarded(story, log)
    log.close()
    text = (tmp_path / "audit.log").read_text()
    for hidden in ("planted", "cGxhbnRlZA", ADMIN + '"', "Bearer", "eyJ"):
        assert hidden not in text
    created, *_, denied, as_ann, nowhere, watched = lines(tmp_path)
    assert (created["verb"], created["responseStatus"]["code"], created["userAgent"]) == ("create", 201, "kubectl/v1")
    assert created["objectRef"] == {"resource": "secrets", "namespace": "default", "name": "s"}
    assert created["user"]["username"] == "kubernetes-admin"
    assert (created["level"], created["stage"]) == ("Metadata", "ResponseComplete")
    assert denied["user"]["username"] == "system:serviceaccount:default:robot"
    assert (denied["responseStatus"]["code"], denied["annotations"]["authorization.k8s.io/decision"]) == (403, "forbid")
    assert (as_ann["impersonatedUser"]["username"], as_ann["requestURI"]) == ("ann", f"{HERE}/pods?limit=5")
    assert (nowhere["responseStatus"]["code"], nowhere["requestURI"]) == (404, "/nope")
    assert (watched["verb"], watched["responseStatus"]["code"]) == ("watch", 200)
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def entry(number: int, uri: str = "/") -> Entry:
    return Entry(User(f"u{number}"), None, Question("get", path="/"), uri, "", "", 200, 0.0, 0.0)


def write_each(log: AuditLog, entries: list[Entry]) -> None:
    async def run() -> None:
        for one in entries:
            log.add(one)
            log._flush()
            assert log._writing is not None
            await asyncio.wrap_future(log._writing)

    asyncio.run(run())
    log.close()


def test_old_lines_make_room(tmp_path):
    log = AuditLog(tmp_path, file_bytes=1_000)
    write_each(log, [entry(number) for number in range(100)])
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) <= FILES
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000 * FILES
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    newest = (tmp_path / "audit.log.1").read_text().splitlines()[-1]
    assert json.loads(newest)["user"]["username"] in ("u98", "u99")


def test_a_client_cannot_write_lines_of_its_own(tmp_path):
    log = AuditLog(tmp_path)
    write_each(log, [entry(1, '/\n{"kind":"Event"}'), entry(2, "/" + "x" * 100_000)])
    first, second = lines(tmp_path)
    assert first["requestURI"] == '/\n{"kind":"Event"}'
    assert len(second["requestURI"]) == 1_024


def test_a_disk_that_fails_stops_nobody(tmp_path, caplog):
    log = AuditLog(tmp_path / "not-there")
    write_each(log, [entry(1)])
    assert "cannot be written" in caplog.text


def test_no_link_is_followed(tmp_path, caplog):
    (tmp_path / "audit.log").symlink_to(tmp_path / "elsewhere")
    write_each(AuditLog(tmp_path), [entry(1)])
    assert not (tmp_path / "elsewhere").exists()
