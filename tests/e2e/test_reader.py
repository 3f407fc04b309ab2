"""The reader of transcripts tells output that is as expected from output that is not."""

from __future__ import annotations

import pytest

from tests.e2e.transcripts import FOLDER, Session, first_difference, steps

TEXT = """\
# Words.
$ first
one  {age}
$ second line
> goes on
$ third
of Kubernetes
=== muster: they differ
of Muster
[exit 1]
"""


def test_steps():
    first, second, third = steps(TEXT)
    assert (first.line, first.command, first.expected, first.by_muster) == (2, "first", ["one  {age}"], None)
    assert (second.command, second.expected) == ("second line\ngoes on", [])
    assert (third.expected, third.by_muster) == (["of Kubernetes"], ["of Muster", "[exit 1]"])


def test_a_difference_needs_a_reason():
    with pytest.raises(AssertionError, match="needs a reason"):
        list(steps("$ a\n=== muster: \nb\n"))


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ([], []),
        (["a  b"], ["a      b "]),
        (["{age} {uid}"], ["3d4h 01234567-89ab-cdef-0123-456789abcdef"]),
        (['{"a": "{number}"}'], ['{"a": "7"}']),
        (["deleted{from}"], ["deleted"]),
        (["deleted{from}"], ["deleted from here namespace"]),
        (["a", "...", "d"], ["a", "b", "c", "d"]),
        (["a", "..."], ["a", "b"]),
        (["a"], ["", "a", ""]),
    ],
)
def test_output_as_expected(expected, seen):
    assert first_difference(expected, seen) == ""


@pytest.mark.parametrize(
    ("expected", "seen", "got"),
    [
        (["a"], [], "nothing more"),
        ([], ["a"], "a"),
        (["a"], ["ab"], "ab"),
        (["a", "b"], ["a", "x", "b"], "x"),
        (["{number}"], ["seven"], "seven"),
        (["a.c"], ["abc"], "abc"),
        (["a", "...", "d"], ["a", "b"], "b"),
    ],
)
def test_output_that_is_not(expected, seen, got):
    assert first_difference(expected, seen).endswith(f"got       {got}")


BESIDE = """\
$ & tail -n +1 -f $FILE
$ echo {namespace} >&2; exit 3
here
[exit 3]
$ echo two >> $FILE
$ stop
one
two
"""


def test_a_session_runs_commands_beside_each_other(tmp_path):
    (tmp_path / "lines").write_text("one\n")
    session = Session(tmp_path, "here", {"FILE": str(tmp_path / "lines")})
    for step in steps(BESIDE):
        expected, seen = session.run(step)
        assert first_difference(expected, seen) == ""


def test_every_transcript_can_be_read():
    assert all(list(steps(path.read_text())) for path in FOLDER.glob("*.txt"))
