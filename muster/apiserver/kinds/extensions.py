"""Other API servers, and requests for certificates: judged as in Kubernetes and kept. Nothing here acts upon them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cryptography import x509

from muster.apiserver.kinds.access import path_segment_problem
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import between, dns_subdomain
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import Problems, duplicate, invalid, not_supported, required
from muster.model.labels import dns1035_label_problem, dns1123_subdomain_problem

Object = dict[str, Any]

CERTIFICATES = "certificatesigningrequests.certificates.k8s.io"
_PRIORITIES = {"groupPriorityMinimum": between(1, 20_000), "versionPriority": between(1, 1_000)}
_SIGNER_PART = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_SIGNER_MOST = 571
_LEAST_S = 600
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip


# Other servers -------------------------------------------------------------------------------------------------------


def _fill_service(given: Object) -> None:
    service = given["spec"].get("service")
    if service is not None:
        fill(service, {"port": 443})


def _check_service(given: Object) -> Problems:
    spec, name = given["spec"], given["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    if name and name != f"{version}.{group}":
        yield invalid("metadata.name", name, 'must be `spec.version+"."+spec.group`')
    if not group:
        if version != "v1":
            yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    else:
        yield from dns_subdomain(group, "spec.group")
    if problem := dns1035_label_problem(version):
        yield invalid("spec.version", version, problem)
    for priority, check in _PRIORITIES.items():
        yield from check(spec.get(priority) or 0, f"spec.{priority}")
    yield from _reached(spec)


def _reached(spec: Object) -> Problems:
    service = spec.get("service")
    if service is None:
        if spec.get("caBundle"):
            yield invalid("spec.caBundle", "<certificates>", "local APIServices may not have a caBundle")
        if spec.get("insecureSkipTLSVerify"):
            yield invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        return
    for name in ("namespace", "name"):
        if not service.get(name):
            yield required(f"spec.service.{name}")
    yield from between(1, 65535)(service["port"], "spec.service.port")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        yield invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is specified")


# Certificates --------------------------------------------------------------------------------------------------------


def _check_request(given: Object) -> Problems:
    spec = given["spec"]
    if not _is_signing_request(spec.get("request") or ""):
        yield invalid("spec.request", "<request>", "must be a PEM block of type CERTIFICATE REQUEST")
    usages = spec.get("usages") or []
    if not usages:
        yield required("spec.usages")
    seen = set()
    for index, one in enumerate(usages):
        if one not in _USAGES:
            yield not_supported(f"spec.usages[{index}]", one, _USAGES)
        elif one in seen:
            yield duplicate(f"spec.usages[{index}]", one)
        seen.add(one)
    yield from signer_name(spec.get("signerName") or "", "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_S:
        yield invalid("spec.expirationSeconds", seconds, f"may not specify a duration less than {_LEAST_S} seconds")


def _is_signing_request(text: str) -> bool:
    try:
        return x509.load_pem_x509_csr(base64.b64decode(text)).is_signature_valid
    except ValueError:
        return False


def signer_name(name: str, path: str) -> Problems:
    """The name of who signs: a domain, a slash, and one part or more with dots between."""
    if not name:
        yield required(path)
        return
    domain, slash, rest = name.partition("/")
    is_right = slash and "." in domain and not dns1123_subdomain_problem(domain)
    if not is_right or len(name) > _SIGNER_MOST or not _SIGNER_PART.fullmatch(rest):
        yield invalid(path, name, "must be a domain and a path such as example.com/signer")


def _change_request(new: Object, before: Object) -> Problems:
    """What was asked for stays as it was, whatever a writer says."""
    new["spec"] = before["spec"]
    yield from ()


def asked_by(given: Object, name: str, *, uid: str, groups: Iterable[str], extra: Mapping[str, list[str]]) -> Object:
    """A new request with who makes it, as the server knows it."""
    spec = given.get("spec")
    if not isinstance(spec, dict):
        return given
    who = {"username": name, "uid": uid, "groups": list(groups), "extra": dict(extra)}
    kept = {field: value for field, value in spec.items() if field not in who}
    return {**given, "spec": {**kept, **{field: value for field, value in who.items() if value}}}


KINDS = (
    kind_rules(
        ("apiregistration.k8s.io", "v1", "APIService"),
        fill=_fill_service,
        check=_check_service,
        name_problem=path_segment_problem,
        has_generation=False,
        status_metadata=(),
    ),
    kind_rules(
        ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
        check=_check_request,
        change=_change_request,
        name_problem=path_segment_problem,
        has_generation=False,
    ),
)
