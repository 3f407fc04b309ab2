"""The Common Expression Language as Kubernetes uses it: rules of definitions, match conditions of webhooks.

No input or output, no clock. `compile_expression` checks an expression against the types of its variables, the
program runs within a `Budget`; every problem is a `CelProblem` with a message for the user. See docs/cel.md.
"""

from muster.apiserver.cel.budget import OBJECT_STEPS, RULE_STEPS, Budget
from muster.apiserver.cel.problems import CelProblem, CostExceeded
from muster.apiserver.cel.program import STRING_OR_NULL, Program, compile_expression
from muster.apiserver.cel.schemas import escaped, type_of_schema
from muster.apiserver.cel.types import (
    AUTHORIZER,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
)

__all__ = [
    "AUTHORIZER",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "OBJECT_STEPS",
    "RULE_STEPS",
    "STRING",
    "STRING_OR_NULL",
    "TIMESTAMP",
    "UINT",
    "Budget",
    "CelProblem",
    "CostExceeded",
    "Program",
    "Type",
    "compile_expression",
    "escaped",
    "list_of",
    "map_of",
    "optional_of",
    "type_of_schema",
]
