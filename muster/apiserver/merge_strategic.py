"""Strategic merge patches: merging that knows which lists are keyed. Called by `patches`.

The tables of `facts` say which lists merge, and by which key. A patch may also hold directives: `$patch` (replace,
delete), `$retainKeys`, `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. The order of a merged list is
that of the directive, else that of the patch; what only the object has keeps its place among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.apiserver.facts import TYPES, Field, Shape
from muster.apiserver.statuses import Problem, bad_request
from muster.model.errors import quoted

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ORDER = "$setElementOrder"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList"

Object = dict[str, Any]
_NO_FIELD = Field(name="", shape=Shape("raw"))


def merged(before: Object, patch: Object, type_name: str) -> Object:
    """The object of a type with the patch applied; a type without a name is a map of anything."""
    if DIRECTIVE in patch:
        return _replaced(patch)
    result, patch = _retained(before, patch)
    ordered = [name for name in patch if name.startswith(SET_ORDER)]
    for directive in ordered:
        name = _listed_name(directive, SET_ORDER)
        field = _field(type_name, name)
        both = _in_given_order(result.get(name), patch.get(name), patch[directive], field)
        if both is not None:
            result[name] = both
    done = {_listed_name(directive, SET_ORDER) for directive in ordered}
    for name, value in patch.items():
        if name.startswith(DELETE_PRIMITIVES):
            _delete_primitives(result, _listed_name(name, DELETE_PRIMITIVES), value)
        elif name not in done and name not in ordered:
            _merge_field(result, name, value, _field(type_name, name))
    return result


def _merge_field(result: Object, name: str, value: Any, field: Field) -> None:
    if value is None:
        result.pop(name, None)
        return
    present = result.get(name)
    if isinstance(present, dict) and isinstance(value, dict):
        is_replaced = "replace" in field.patch_strategy
        result[name] = value if is_replaced else merged(present, value, _item_type(field))
    elif isinstance(present, list) and isinstance(value, list):
        result[name] = _merged_list(present, value, field) if "merge" in field.patch_strategy else value
    elif isinstance(value, dict) and DIRECTIVE in value:
        result.pop(name, None)
    else:
        result[name] = _plain(value)


def _field(type_name: str, name: str) -> Field:
    return TYPES[type_name].fields.get(name, _NO_FIELD) if type_name else _NO_FIELD


def _item_type(field: Field) -> str:
    """The type of an object in a field, or of the objects in its list."""
    shape = field.shape.item if field.shape.kind == "list" else field.shape
    return shape.type_name


def _plain(value: Any) -> Any:
    """A value that the object does not have yet: without nulls, and without what a directive is about."""
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if one is not None and not _has_directive(one)}
        return {name: _plain(one) for name, one in kept.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value if not _has_directive(one)]
    return value


def _has_directive(value: Any) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


# Directives ----------------------------------------------------------------------------------------------------------


def _replaced(patch: Object) -> Object:
    match patch[DIRECTIVE]:
        case "replace":
            return {name: value for name, value in patch.items() if name != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _unprocessable(f"unknown patch type: {quoted(other)}")


def _retained(before: Object, patch: Object) -> tuple[Object, Object]:
    """The object with only the keys that the patch retains, and the patch without that directive."""
    if RETAIN_KEYS not in patch:
        return dict(before), patch
    keys = patch[RETAIN_KEYS]
    rest = {name: value for name, value in patch.items() if name != RETAIN_KEYS}
    given = {name for name, value in rest.items() if value is not None and not name.startswith((SET_ORDER, "$delete"))}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or not given <= set(keys):
        raise bad_request("invalid patch format of retainKeys")
    return {name: value for name, value in before.items() if name in keys}, rest


def _listed_name(directive: str, prefix: str) -> str:
    """The list that a directive is about."""
    start, slash, name = directive.partition("/")
    if start != prefix or not slash:
        what = "primitive list" if prefix == DELETE_PRIMITIVES else "setElementOrder list"
        raise bad_request(f"invalid patch format of {what}")
    return name


def _delete_primitives(result: Object, name: str, values: Any) -> None:
    present = result.get(name)
    if isinstance(present, list) and isinstance(values, list):
        gone = {_identity(one, "") for one in values}
        result[name] = [one for one in present if _identity(one, "") not in gone]


# Lists ---------------------------------------------------------------------------------------------------------------


def _merged_list(present: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if not present and not patch:
        return present
    if not _is_of_objects(present, patch):
        both = list(dict.fromkeys([*present, *patch]))
        return _arranged(both, order=patch, live=present, key="")
    key = field.patch_merge_key
    if not key:
        raise _unprocessable(f"cannot merge lists without merge key for {field.name}")
    present, patch, is_replaced = _without_special(present, patch, key)
    if is_replaced:
        return patch
    both = _merged_items(present, patch, field)
    return _arranged(both, order=patch, live=present, key=key)


def _merged_items(present: list[Any], patch: list[Any], field: Field) -> list[Any]:
    key = field.patch_merge_key
    result = list(present)
    places = {_identity(item, key): place for place, item in reversed(list(enumerate(result)))}
    for item in patch:
        identity = _identity(item, key)
        if identity in places:
            place = places[identity]
            result[place] = merged(result[place], item, _item_type(field))
        else:
            places[identity] = len(result)
            result.append(item)
    return result


def _without_special(present: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any], bool]:
    """The object's list without what the patch deletes, the patch without directives, and whether it replaces all."""
    rest = []
    gone = set()
    is_replaced = False
    for item in patch:
        match item.get(DIRECTIVE):
            case None:
                rest.append(item)
            case "delete":
                gone.add(_identity(item, key))
            case "replace":
                is_replaced = True
            case "merge":
                raise _unprocessable("merging lists cannot yet be specified in the patch")
            case other:
                raise _unprocessable(f"unknown patch type: {quoted(other)}")
    return [one for one in present if _identity(one, key) not in gone], rest, is_replaced


def _in_given_order(present: Any, patch: Any, order: Any, field: Field) -> list[Any] | None:
    """The two lists merged and in the order that the patch asks for; `None` where there is neither."""
    for value in (order, [] if present is None else present, [] if patch is None else patch):
        if not isinstance(value, list):
            raise _unprocessable("expected a list for a list that is put in order")
    if not present and not patch:
        if present is None and patch is None:
            return None
        raise _unprocessable("no elements in any of the given slices")
    key = field.patch_merge_key
    _check_order(patch or [], order, key)
    if patch is None:
        both = present
    elif present is None:
        both = [_plain(item) for item in patch if not _has_directive(item)]
    else:
        both = _merged_list(present, patch, field) if "merge" in field.patch_strategy else patch
    return _arranged(both, order=order, live=present or [], key=key)


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The patch's own items must be in the order that it asks for."""
    if not order or not patch:
        return
    wanted = iter([_identity(item, key) for item in order])
    for item in patch:
        if not _has_directive(item) and _identity(item, key) not in wanted:  # which moves on to the item
            raise _unprocessable(f"The order in patch list does not match the {SET_ORDER} list")


def _arranged(items: list[Any], *, order: Sequence[Any], live: Sequence[Any], key: str) -> list[Any]:
    """Items in the wanted order; others, in the order of the live list, before the first that was behind them there."""
    wanted = {_identity(item, key): place for place, item in reversed(list(enumerate(order)))}
    places = {_identity(item, key): place for place, item in reversed(list(enumerate(live)))}
    named = sorted(
        (item for item in items if _identity(item, key) in wanted), key=lambda item: wanted[_identity(item, key)]
    )
    others = [item for item in items if _identity(item, key) not in wanted]
    others.sort(key=lambda item: places.get(_identity(item, key), len(live)))
    result: list[Any] = []
    taken = 0
    for item in named:
        place = places.get(_identity(item, key), -1)
        while taken < len(others) and places.get(_identity(others[taken], key), len(live)) < place:
            result.append(others[taken])
            taken += 1
        result.append(item)
    return result + others[taken:]


def _identity(item: Any, key: str) -> Any:
    """What tells an item from others: the value of its key, or itself where it is a plain value."""
    if not key:
        if isinstance(item, (dict, list)):
            raise _unprocessable("list element types are not identical")
        return item
    if not isinstance(item, dict):
        raise _unprocessable("list element types are not identical")
    value = item.get(key)
    if key not in item or isinstance(value, (dict, list)):
        raise _unprocessable(f"map: {quoted(item)} does not contain declared merge key: {key}")
    return value


def _is_of_objects(*lists: list[Any]) -> bool:
    """Whether lists hold objects; mixed ones are refused."""
    types = {type(item) for one in lists for item in one}
    if list in types:
        raise _unprocessable("lists of lists are not supported")
    if len(types) > 1:
        raise _unprocessable("list element types are not identical")
    return dict in types


def _unprocessable(problem: str) -> Problem:
    return Problem(422, "Invalid", problem)
