"""Users of an embedded server: a kubeconfig with a certificate that says who they are. Called by `muster user`."""

from __future__ import annotations

from pathlib import Path

from muster.apiserver.certificates import TlsFiles, client_certificate
from muster.apiserver.kubeconfig import server_in, write_certified
from muster.apiserver.requests import User
from muster.app.state_folder import WrongFolder, is_ours, kubeconfig_in, tls_folder_in
from muster.store.clock import RealClock

_MOST = 64  # characters that a name in a certificate has room for


def make_user(folder: Path, user: User, target: Path, *, days: int) -> None:
    """Write a kubeconfig for a user to a new file; what the user may do is for roles to say."""
    for name in (user.name, *user.groups):
        if not 0 < len(name) <= _MOST or not name.isprintable():
            raise WrongFolder(f"{name!r} is no name: give one of 1 to {_MOST} characters")
    if not is_ours(folder) or not kubeconfig_in(folder).exists():
        raise WrongFolder(f"{folder} has no state of Muster in it: run muster up once")
    if target.exists():
        raise WrongFolder(f"{target} exists already")
    files = TlsFiles(tls_folder_in(folder))
    certificate, key = client_certificate(files, user, days=days, now_s=RealClock().now_s())
    url = server_in(kubeconfig_in(folder))
    try:
        write_certified(target, url=url, authority=files.authority.read_bytes(), certificate=certificate, key=key)
    except OSError as problem:
        raise WrongFolder(f"{target} cannot be written: {problem.strerror}") from None
