"""What -f reads: files, folders and standard input, and what it says when it cannot."""

from __future__ import annotations

import io
import os

import pytest

from muster.app import manifests
from muster.app.manifests import read_manifests
from muster.model.documents import MOST_BYTES
from muster.model.errors import InvalidObject


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder to work in; returns how to write a manifest of one named object into it."""
    monkeypatch.chdir(tmp_path)

    def write(*names: str) -> None:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"kind: {path.stem}\n")

    return write


def kinds(*arguments: str) -> list[str]:
    return [document.value["kind"] for document in read_manifests(arguments)]


def refusal(*arguments: str) -> str:
    with pytest.raises(InvalidObject) as caught:
        read_manifests(arguments)
    assert caught.value.hint
    return str(caught.value)


def test_files_come_in_the_order_given(tree):
    tree("b.yaml", "a.yaml", "any.txt")
    assert kinds("b.yaml", "a.yaml", "any.txt") == ["b", "a", "any"]


def test_a_folder_gives_its_manifests_by_name(tree):
    tree("in/b.yml", "in/a.yaml", "in/c.JSON", "in/notes.txt", "in/sub/d.yaml", "in/.hidden.yaml", "in/.git/e.yaml")
    assert kinds("in") == ["a", "b", "c", "d"]
    assert [document.source for document in read_manifests(["in"])][:1] == ["in/a.yaml"]


def test_each_file_is_read_once_whatever_links_lead_to_it(tree, tmp_path):
    tree("in/a.yaml", "in/sub/b.yaml")
    (tmp_path / "in/sub/up").symlink_to(tmp_path / "in", target_is_directory=True)
    (tmp_path / "in/again.yaml").symlink_to("a.yaml")
    assert kinds("in") == ["a", "b"]


def test_standard_input_is_read_once(tree):
    tree("a.yaml")
    got = read_manifests(["a.yaml", "-"], io.BytesIO(b"kind: piped"))
    assert [(document.value["kind"], document.source) for document in got] == [
        ("a", "a.yaml"),
        ("piped", "standard input"),
    ]
    with pytest.raises(InvalidObject, match="only once"):
        read_manifests(["-", "-"], io.BytesIO(b""))


def test_deep_folders_are_refused(tree):
    tree("/".join(["d"] * 10) + "/a.yaml")
    assert kinds("d") == ["a"]
    tree("/".join(["d"] * 11) + "/b.yaml")
    assert "is more than 10 folders deep" in refusal("d")


def test_errors_name_the_file(tree, tmp_path):
    tree("good.yaml")
    (tmp_path / "bad.yaml").write_text("a: 1\na: 2\n")
    assert refusal("good.yaml", "bad.yaml").startswith("bad.yaml, line 2, column 1: the key 'a'")
    assert refusal("none.yaml") == "none.yaml: does not exist; check the name"
    (tmp_path / "empty").mkdir()
    assert refusal("empty").startswith("empty: holds no manifest")
    assert refusal("https://example.com/a.yaml").startswith("https://example.com/a.yaml: is a URL")
    assert "cannot be read" in refusal("a\0b")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/broken.yaml").symlink_to("nowhere")
    assert refusal("folder") == "folder/broken.yaml: does not exist; check the name"


def test_long_files_are_refused_unread(tree, tmp_path, monkeypatch):
    with (tmp_path / "long.yaml").open("wb") as stream:
        stream.truncate(10 * MOST_BYTES)
    monkeypatch.setattr(manifests, "_capped", lambda *_: pytest.fail("the file was read"))
    assert refusal("long.yaml").startswith("long.yaml: is longer than")


def test_streams_without_end_are_cut_off(tree):
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size: int = -1) -> bytes:
            self.taken += min(size, 65536)
            return b"#" * min(size, 65536)

    stream = Endless()
    with pytest.raises(InvalidObject, match="standard input: is longer than"):
        read_manifests(["-"], stream)
    assert stream.taken == MOST_BYTES + 1


def test_a_pipe_is_a_file_too(tree, tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"kind: piped")
    os.close(writer)
    try:
        assert kinds(f"/dev/fd/{reader}") == ["piped"]
    finally:
        os.close(reader)


def test_too_many_files_are_refused(tree, monkeypatch):
    monkeypatch.setattr(manifests, "MOST_FILES", 2)
    tree("in/a.yaml", "in/b.yaml", "in/c.yaml")
    assert "holds more than 2 manifests" in refusal("in")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_of_others_are_named(tree, tmp_path):
    tree("a.yaml")
    (tmp_path / "a.yaml").chmod(0)
    assert "a.yaml: cannot be read: Permission denied" in refusal("a.yaml")
