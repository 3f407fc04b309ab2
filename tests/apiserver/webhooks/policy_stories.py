"""Stories of policies: what is in effect, requests, and in `policies_told.json` what a real API server said to each.

tests/kubernetes/test_admission.py writes that file with MUSTER_RECORD=1, and compares both servers otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.apiserver.webhooks.stories import CONFIGS, DEPLOYMENTS, GROUP, MERGE, PODS, config, deployment, pod

Json = dict[str, Any]
TOLD = Path(__file__).parent / "policies_told.json"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
SECRETS = "/api/v1/namespaces/{ns}/secrets"


@dataclass(frozen=True, kw_only=True)
class Story:
    """A policy, how it is bound, what else there is, and what is asked."""

    policy: Json
    bindings: tuple[Json, ...] = ({},)
    objects: tuple[tuple[str, Json], ...] = ()  # path and body
    requests: tuple[tuple[Any, ...], ...]  # method, path, body, perhaps the content type


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("CREATE", "UPDATE"), **more: Any) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": [*operations],
        "resources": [*resources],
        **more,
    }


def policy(*validations: Json | str, rules: tuple[Json, ...] = (rule("configmaps"),), **more: Any) -> Json:
    match = {"resourceRules": [*rules], **more.pop("match", {})}
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    return {"matchConstraints": match, "validations": checks, **more}


def configurations(story: Story, namespace: str) -> list[tuple[str, Json]]:
    """The objects of a story with their paths, the binding that says when it is in effect last."""
    made = [(path.format(ns=namespace), body) for path, body in story.objects]
    made.append((POLICIES, {"metadata": {"name": namespace}, "spec": story.policy}))
    for index, binding in enumerate(story.bindings):
        spec = {"policyName": namespace, "validationActions": ["Deny"], **binding}
        match = dict(spec.get("matchResources") or {})
        match.setdefault("namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": namespace}})
        made.append(
            (BINDINGS, {"metadata": {"name": f"{namespace}-{index}"}, "spec": {**spec, "matchResources": match}})
        )
    # A policy of its own tells when a real server has heard of all the others.
    probe = policy("false", rules=(rule("podtemplates"),))
    made.append((POLICIES, {"metadata": {"name": f"{namespace}-probe"}, "spec": probe}))
    bound = {"policyName": f"{namespace}-probe", "validationActions": ["Deny"]}
    bound["matchResources"] = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    made.append((BINDINGS, {"metadata": {"name": f"{namespace}-probe"}, "spec": bound}))
    return made


PROBE = {
    "metadata": {"generateName": "probe-"},
    "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
}
NAMED = "object.metadata.name.startsWith('good')"
GOOD, BAD = ("POST", CONFIGS, config("good")), ("POST", CONFIGS, config("bad"))
PARAMETERS = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = (CONFIGS, {"metadata": {"name": "limit", "labels": {"use": "limit"}}, "data": {"least": "3"}})
LONG = "has(object.data) && size(object.data.word) >= int(params.data.least)"


def with_word(name: str, word: str) -> Json:
    return {**config(name), "data": {"word": word}}


def with_limit(**reference: Any) -> Json:
    return {"paramRef": {"parameterNotFoundAction": "Deny", **reference}}


def labelled(value: str) -> Json:
    return {"objectSelector": {"matchLabels": {"kind": value}}}


def short(value: str) -> tuple[str, str, Json]:
    return ("POST", CONFIGS, {**with_word("short", "a"), "metadata": {"name": "short", "labels": {"kind": value}}})


SHORT = ("POST", CONFIGS, with_word("short", "a"))
SHORT_ONES = (short("one"), short("other"))
WORDS = (("POST", SECRETS, {"metadata": {"name": "x"}}), GOOD, ("POST", CONFIGS, with_word("long", "abcd")))
LONG_POLICY = policy(LONG, paramKind=PARAMETERS, matchConditions=[{"name": "own", "expression": "has(object.data)"}])
STORIES = {
    "a name": Story(policy=policy(NAMED), requests=(GOOD, BAD, ("POST", PODS, pod("bad")))),
    "a message": Story(policy=policy({"expression": NAMED, "message": "be good"}), requests=(BAD,)),
    "a reason": Story(policy=policy({"expression": NAMED, "message": "no", "reason": "Forbidden"}), requests=(BAD,)),
    "too large": Story(policy=policy({"expression": NAMED, "reason": "RequestEntityTooLarge"}), requests=(BAD,)),
    "a message made": Story(
        policy=policy(
            {"expression": NAMED, "messageExpression": "'name ' + object.metadata.name + ' is not good'"},
        ),
        requests=(BAD,),
    ),
    "a message that fails": Story(
        policy=policy({"expression": NAMED, "message": "plain", "messageExpression": "string(object.nothing.there)"}),
        requests=(BAD,),
    ),
    "a message of lines": Story(policy=policy({"expression": NAMED, "messageExpression": "'a\\nb'"}), requests=(BAD,)),
    "variables": Story(
        policy=policy(
            {"expression": "variables.count <= 1", "messageExpression": "'count is ' + string(variables.count)"},
            "variables.twice < 4",
            rules=(rule("deployments", group="apps"),),
            variables=[
                {"name": "count", "expression": "object.spec.replicas"},
                {"name": "twice", "expression": "variables.count * 2"},
            ],
        ),
        requests=(("POST", DEPLOYMENTS, deployment("a")),),
    ),
    "a variable that fails and is not read": Story(
        policy=policy(NAMED, variables=[{"name": "odd", "expression": "object.nothing.there"}]),
        requests=(GOOD, BAD),
    ),
    "a variable that fails": Story(
        policy=policy("variables.odd == 1", variables=[{"name": "odd", "expression": "object.nothing.there"}]),
        requests=(GOOD,),
    ),
    "an error refuses": Story(policy=policy("object.nothing.there == 1"), requests=(GOOD,)),
    "an error is ignored": Story(policy=policy("object.nothing.there == 1", failurePolicy="Ignore"), requests=(GOOD,)),
    "a failure is not ignored": Story(policy=policy(NAMED, failurePolicy="Ignore"), requests=(BAD,)),
    "conditions": Story(
        policy=policy("false", matchConditions=[{"name": "c", "expression": "object.metadata.name == 'bad'"}]),
        requests=(GOOD, BAD),
    ),
    "a condition that fails": Story(
        policy=policy("false", matchConditions=[{"name": "c", "expression": "object.nothing.there == 1"}]),
        requests=(GOOD,),
    ),
    "warnings": Story(policy=policy(NAMED), bindings=({"validationActions": ["Warn"]},), requests=(GOOD, BAD)),
    "audit alone": Story(policy=policy(NAMED), bindings=({"validationActions": ["Audit"]},), requests=(BAD,)),
    "warned and noted": Story(
        policy=policy(NAMED, "size(object.metadata.name) > 20"),
        bindings=({"validationActions": ["Warn", "Audit"]},),
        requests=(BAD,),
    ),
    "two bindings": Story(
        policy=policy(NAMED),
        bindings=({"validationActions": ["Warn"]}, {"validationActions": ["Deny"]}),
        requests=(BAD,),
    ),
    "updates and deletes": Story(
        policy=policy(
            "request.operation != 'UPDATE' || oldObject.data.word == object.data.word",
            "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'",
            rules=(rule("configmaps", operations=("*",)),),
        ),
        requests=(
            ("POST", CONFIGS, with_word("kept", "a")),
            ("PATCH", f"{CONFIGS}/kept", {"data": {"word": "b"}}, MERGE),
            ("PATCH", f"{CONFIGS}/kept", {"data": {"more": "b"}}, MERGE),
            ("DELETE", f"{CONFIGS}/kept", None),
            ("POST", f"{CONFIGS}?dryRun=All", with_word("other", "a")),
        ),
    ),
    "names and exceptions": Story(
        policy=policy(
            "false",
            rules=(rule("configmaps", "secrets"),),
            match={"excludeResourceRules": [rule("configmaps", resourceNames=["good"])]},
        ),
        requests=(GOOD, BAD),
    ),
    "selected objects": Story(
        policy=policy("false", match={"objectSelector": {"matchLabels": {"strict": "yes"}}}),
        requests=(GOOD, ("POST", CONFIGS, config("strict", labels={"strict": "yes"}))),
    ),
    "another version": Story(
        policy=policy(
            "object.apiVersion == 'apps/v1' && request.requestKind.version == 'v1' && object.spec.replicas > 2",
            rules=(rule("deployments", group="apps"),),
        ),
        requests=(("POST", DEPLOYMENTS, deployment("a")),),
    ),
    "a part": Story(
        policy=policy("object.spec.replicas < 3", rules=(rule("deployments/scale", group="apps"),)),
        requests=(
            ("POST", DEPLOYMENTS, deployment("a")),
            ("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 5}}, MERGE),
            ("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 1}}, MERGE),
        ),
    ),
    "the namespace": Story(
        policy=policy("namespaceObject.metadata.name == request.namespace && namespaceObject.metadata.name == 'x'"),
        requests=(GOOD,),
    ),
    "rights": Story(
        policy=policy(
            "authorizer.group('').resource('pods').namespace('default').check('create').allowed()",
            "authorizer.path('/healthz').check('get').allowed()",
            "!authorizer.serviceAccount('default', 'nobody').group('apps').resource('deployments').subresource('scale')"
            ".name('x').check('update').allowed()",
            "authorizer.serviceAccount('default', 'nobody').path('/healthz').check('post').reason() == 'x'",
        ),
        requests=(GOOD,),
    ),
    "the user": Story(policy=policy("request.userInfo.username == 'nobody'"), requests=(GOOD,)),
    "parameters by selector and by name": Story(
        policy=LONG_POLICY,
        # Each for objects of its own: which of two bindings a real server names where both deny is left to chance.
        bindings=(
            {**with_limit(selector={"matchLabels": {"use": "limit"}}), "matchResources": labelled("one")},
            {**with_limit(name="limit"), "matchResources": labelled("other")},
        ),
        objects=(LIMIT,),
        requests=(*WORDS, *SHORT_ONES, SHORT),
    ),
    "parameters that nothing is chosen of": Story(
        policy=LONG_POLICY, bindings=(with_limit(selector={"matchLabels": {"use": "nothing"}}),), requests=(SHORT,)
    ),
    "no parameters": Story(policy=LONG_POLICY, bindings=(with_limit(name="none"),), requests=(SHORT, GOOD)),
    "no parameters, which is fine": Story(
        policy=LONG_POLICY,
        bindings=({"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}},),
        requests=(SHORT,),
    ),
    "no reference to parameters": Story(policy=LONG_POLICY, requests=(SHORT,)),
    "no kind of parameters": Story(
        policy=policy("true", paramKind={"apiVersion": "example.com/v1", "kind": "Nothing"}),
        bindings=(with_limit(name="none"),),
        requests=(GOOD,),
    ),
    "annotations": Story(
        policy=policy(NAMED, auditAnnotations=[{"key": "name", "valueExpression": "'name ' + object.metadata.name"}]),
        requests=(GOOD, BAD),
    ),
    "only annotations, one that fails": Story(
        policy=policy(auditAnnotations=[{"key": "name", "valueExpression": "string(object.nothing.there)"}]),
        requests=(GOOD,),
    ),
}
