"""What queues, users, groups and rules may be called in a queue configuration."""

from __future__ import annotations

import re

QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
QUEUE_NAME_HINT = "give 1 to 64 letters, digits, or - _ : # / @"
# Names of users and groups may be those of service accounts, with colons.
USER_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
GROUP_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
RULE_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
EXPRESSION_SIGNS = re.compile(r"[\^$*+?()\[{}|]")  # what no name has and an expression does
EVERYBODY = "*"
