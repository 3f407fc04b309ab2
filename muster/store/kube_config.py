"""How a cluster is reached and who we are there: from a kubeconfig file, or as a pod inside of it. Called by `app`.

Files that others renew, such as the token of a service account, are read again while we run.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME = Path("~/.kube/config")
_VARIABLE = "KUBECONFIG"


class Credentials(Protocol):
    """Who we are, as each request says it."""

    async def headers(self, *, is_refused: bool = False) -> Mapping[str, str]:
        """The headers of a request; where the last ones were refused, newer ones if there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where a cluster is, whom to trust there, and who we are."""

    url: str
    credentials: Credentials
    tls: ssl.SSLContext | None = None  # None: plain HTTP
    server_name: str | None = None  # that the server's certificate has, where it is not that of the address
    proxy: str | None = None
    namespace: str = "default"


class FixedCredentials:
    """Headers that stay as they are; none where a certificate says who we are."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    async def headers(self, *, is_refused: bool = False) -> Mapping[str, str]:  # noqa: ARG002
        return self._headers


class TokenFile:
    """A token in a file that others write anew before it ends."""

    def __init__(self, path: Path, others: Mapping[str, str]) -> None:
        self._path = path
        self._others = others
        self._stamp: tuple[int, int] | None = None
        self._token = ""

    async def headers(self, *, is_refused: bool = False) -> Mapping[str, str]:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp or is_refused:
                self._token, self._stamp = self._path.read_text().strip(), stamp
        except OSError as problem:
            if not self._token:
                raise InvalidObject(str(self._path), f"cannot be read: {problem.strerror}", "") from None
        return {**self._others, "Authorization": f"Bearer {self._token}"}


# Inside a cluster ----------------------------------------------------------------------------------------------------


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether we are a pod whose cluster has told it where its API is."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access of a pod by its service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InvalidObject("KUBERNETES_SERVICE_HOST", "is not set", "give --kubeconfig outside of a cluster")
    namespace = folder / "namespace"
    return Access(
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(folder / "token", {}),
        tls=_tls(str(folder / "ca.crt"), None, is_insecure=False),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


# Kubeconfig ----------------------------------------------------------------------------------------------------------


def default_access(environment: Mapping[str, str] = os.environ, *, context: str = "") -> Access:
    """The access where no file is named: what $KUBECONFIG says, that of a pod, or the file in the home folder."""
    if named := environment.get(_VARIABLE):
        return read_kubeconfig(*(Path(one) for one in named.split(os.pathsep) if one), context=context)
    if is_in_cluster(environment) and not context:
        return in_cluster(environment)
    return read_kubeconfig(HOME.expanduser(), context=context)


def read_kubeconfig(*paths: Path, context: str = "") -> Access:
    """The access of the current context; of several files the first one that names a thing counts."""
    return _access_of([_File.read(path) for path in paths], context)


def read_kubeconfig_text(text: bytes, source: str) -> Access:
    """The access that a text gives which somebody else has written: it stands for itself.

    Files that it names would be ours, programs would be run by us, and what it sends unseen others could read.
    """
    return _access_of([_File(None, Fields.of(parse_value(text, source)))], "")


def _access_of(files: list[_File], context: str) -> Access:
    chosen = context or next((name for one in files if (name := one.fields.text("current-context"))), "")
    if not chosen:
        raise InvalidObject("current-context", "is not given", "kubectl config use-context NAME sets it")
    entry = _named(files, "contexts", chosen)[1].child("context")
    cluster_file, cluster = _named(files, "clusters", entry.text("cluster"))
    cluster = cluster.child("cluster")
    url = cluster.text("server").rstrip("/")
    is_ours = cluster_file.folder is not None
    if not url.startswith(("https://", "http://") if is_ours else "https://"):
        raise cluster.error("server", f"is {url!r}", "give an address that begins with https://")
    if not is_ours and cluster.flag("insecure-skip-tls-verify"):
        raise cluster.error("insecure-skip-tls-verify", "is set", "give certificate-authority-data instead")
    tls = None
    if url.startswith("https://"):
        authority = cluster_file.material(cluster, "certificate-authority")
        tls = _tls(
            authority if isinstance(authority, str) else None,
            authority if isinstance(authority, bytes) else None,
            is_insecure=cluster.flag("insecure-skip-tls-verify"),
        )
    credentials: Credentials = FixedCredentials({})
    if name := entry.text("user"):
        user_file, user = _named(files, "users", name)
        credentials = _credentials(user_file, user.child("user"), tls, url)
    return Access(
        url=url,
        credentials=credentials,
        tls=tls,
        server_name=cluster.text("tls-server-name") or None,
        proxy=cluster.text("proxy-url") or None,
        namespace=entry.text("namespace") or "default",
    )


@dataclass(frozen=True, slots=True)
class _File:
    """One kubeconfig file; the files that it names are beside it."""

    folder: Path | None  # None: it is no file, and names none
    fields: Fields = field(default_factory=lambda: Fields({}))

    @staticmethod
    def read(path: Path) -> _File:
        try:
            text = path.read_bytes()
        except OSError as problem:
            raise InvalidObject(
                str(path), f"cannot be read: {problem.strerror}", "name another: --kubeconfig"
            ) from None
        return _File(path.parent, Fields.of(parse_value(text, str(path))))

    def path_of(self, name: str) -> Path:
        if self.folder is None:
            raise InvalidObject(name, "is a file", "give what is in it instead")
        return self.folder / Path(name).expanduser()

    def material(self, fields: Fields, name: str) -> str | bytes | None:
        """A certificate or key: what stands in the file itself, or the path of the file that has it."""
        if data := fields.text(f"{name}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error:
                raise fields.error(f"{name}-data", "is not base64", "give the whole file, encoded") from None
        named = fields.text(name)
        return str(self.path_of(named)) if named else None


def _named(files: list[_File], name: str, wanted: str) -> tuple[_File, Fields]:
    for file in files:
        for one in file.fields.children(name):
            if one.text("name") == wanted:
                return file, one
    raise InvalidObject(name, f"has no entry {wanted!r}", "the current context needs it")


def _credentials(file: _File, user: Fields, tls: ssl.SSLContext | None, url: str) -> Credentials:
    certificate, key = file.material(user, "client-certificate"), file.material(user, "client-key")
    if certificate is not None and tls is not None:
        if key is None:
            raise user.error("client-key", "is not given", "a certificate is of no use without its key")
        present(tls, certificate, key)
    others = dict(_impersonation(user))
    if token := user.text("token"):
        return FixedCredentials({**others, "Authorization": f"Bearer {token}"})
    if named := user.text("tokenFile"):
        return TokenFile(file.path_of(named), others)
    if user.has("exec"):
        if file.folder is None:
            raise user.error("exec", "is a program", "give a token or a certificate")
        # Few need it, and it brings processes along.
        from muster.store.kube_exec import ExecCredentials

        return ExecCredentials(user.child("exec"), file.folder, others, tls=tls, url=url)
    if user.has("auth-provider"):
        raise user.error("auth-provider", "is no longer a part of Kubernetes", "use an exec plugin")
    if user.has("username"):
        pair = f"{user.text('username')}:{user.text('password')}".encode()
        return FixedCredentials({**others, "Authorization": f"Basic {base64.b64encode(pair).decode()}"})
    return FixedCredentials(others)


def _impersonation(user: Fields) -> Iterator[tuple[str, str]]:
    if name := user.text("as"):
        yield "Impersonate-User", name
    if uid := user.text("as-uid"):
        yield "Impersonate-Uid", uid


# Certificates --------------------------------------------------------------------------------------------------------


def _tls(authority_file: str | None, authority: bytes | None, *, is_insecure: bool) -> ssl.SSLContext:
    try:
        text = authority.decode("ascii") if authority is not None else None
        context = ssl.create_default_context(cafile=authority_file, cadata=text)
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidObject("certificate-authority", f"cannot be used: {problem}", "give a file in PEM form") from None
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def present(tls: ssl.SSLContext, certificate: str | bytes, key: str | bytes) -> None:
    """Have new connections show a certificate; each part is a path or the text itself."""
    try:
        with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
            tls.load_cert_chain(certificate_file, key_file)
    except OSError as problem:
        raise InvalidObject("client-certificate", f"cannot be used: {problem}", "give both in PEM form") from None


@contextmanager
def _as_file(given: str | bytes) -> Iterator[str]:
    """A path for what only files can be loaded from; the copy is readable by us alone and gone at once."""
    if isinstance(given, str):
        yield given
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(given)
        file.flush()
        yield file.name


def text_of(status: Mapping[str, Any], name: str) -> str:
    """A text of a credential plugin's answer; empty where it gives none."""
    value = status.get(name)
    return value if isinstance(value, str) else ""
