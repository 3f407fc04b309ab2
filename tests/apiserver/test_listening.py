"""Where the server listens: on loopback, and elsewhere only for those who are asked who they are."""

from __future__ import annotations

import pytest

from muster.apiserver.server import CannotListen, listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com", ""])
def test_strangers_are_not_let_in(host):
    with pytest.raises(CannotListen, match="nobody would be asked"):
        listen(host, 0, is_authenticated=False)


@pytest.mark.parametrize("is_authenticated", [True, False])
def test_loopback_is_fine(is_authenticated):
    with listen("127.0.0.1", 0, is_authenticated=is_authenticated) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken(tmp_path):
    with (
        listen("127.0.0.1", 0, is_authenticated=True) as first,
        pytest.raises(CannotListen, match="cannot be listened on"),
    ):
        listen("127.0.0.1", first.getsockname()[1], is_authenticated=True)
