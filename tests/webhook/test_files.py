from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plugins.framework.errors import ConfigError
from webhook.files import Follower, Identity, identity_of, read_inputs, read_tree, title_of
from webhook.yamlio import MAX_BYTES, Document


def runtime(name: str, namespace: str = "", kind: str = "TrainingRuntime") -> str:
    where = f"\n  namespace: {namespace}" if namespace else ""
    return f"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}{where}\n"


def names(documents: list[Document]) -> list[str]:
    return [document.obj["metadata"]["name"] for document in documents]


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_a_folder_is_read_recursively_in_the_order_of_its_paths(tree: Callable[..., Path]) -> None:
    folder = tree(
        {
            "b.yaml": runtime("b") + "---\n" + runtime("c"),
            "a/z.yml": runtime("z"),
            "a.json": '{"kind": "Namespace", "metadata": {"name": "j"}}',
            "notes.txt": "not: [yaml",
            "c/d/e.yaml": runtime("e"),
        }
    )
    documents = read_tree(folder)
    assert names(documents) == ["z", "j", "b", "c", "e"]
    assert [document.where for document in documents][:2] == [
        f"{folder}/a/z.yml:1",
        f"{folder}/a.json:1",
    ]
    assert documents[3].line == 6


def test_documents_without_a_kind_are_left_out(tree: Callable[..., Path]) -> None:
    folder = tree(
        {"values.yaml": "replicas: 3\n---\n- 1\n---\ntext\n---\nkind: 3\n---\n" + runtime("a")}
    )
    assert names(read_tree(folder)) == ["a"]


def test_lists_are_taken_apart(tree: Callable[..., Path]) -> None:
    inner = "{kind: List, items: [{kind: Namespace, metadata: {name: b}}]}"
    folder = tree(
        {
            "list.yaml": f"kind: List\nitems:\n- {{kind: Namespace, metadata: {{name: a}}}}\n- {inner}\n- null\n",
            "typed.json": '{"apiVersion": "v1", "kind": "NamespaceList", "items": [{"metadata": {"name": "c"}}]}',
            "empty.yaml": "kind: List\nitems: []",
            "none.yaml": "kind: AllowList\nmetadata: {name: d}",
        }
    )
    documents = read_tree(folder)
    assert names(documents) == ["a", "b", "d", "c"]
    assert documents[1].where == f"{folder}/list.yaml:1 items[1].items[0]"
    assert documents[3].obj == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    data = tmp_path / "..2024_05_01"
    data.mkdir()
    (data / "a.yaml").write_text(runtime("a"))
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert [d.where for d in read_tree(tmp_path)] == [f"{tmp_path}/a.yaml:1"]


def test_links_are_followed_without_reading_twice(tree: Callable[..., Path]) -> None:
    folder = tree(
        {"real/a.yaml": runtime("a"), ".git/x.yaml": "broken: [", ".hidden.yaml": "broken: ["}
    )
    (folder / "real" / "up").symlink_to("..")
    (folder / "link.yaml").symlink_to("real/a.yaml")
    (folder / "twin").symlink_to("real")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe.yaml")
    assert [d.where for d in read_tree(folder)] == [f"{folder}/link.yaml:1"]


def test_all_that_is_wrong_is_told_with_its_place(tree: Callable[..., Path]) -> None:
    folder = tree(
        {
            "a.yaml": runtime("same", "team") + "---\n" + runtime("fine"),
            "b.yaml": "# a comment\n" + runtime("same", "team"),
            "c.yaml": "a: 1\na: 2\n",
            "d.json": '{"kind": ',
        }
    )
    with pytest.raises(ConfigError) as caught:
        read_tree(folder)
    assert str(caught.value).splitlines() == [
        f'{folder}/c.yaml:2: key "a" is repeated: it is set on line 1 already',
        f"{folder}/d.json:2: while parsing a flow node: did not find expected node content",
        f"TrainingRuntime team/same is there twice: {folder}/a.yaml:1 and {folder}/b.yaml:2",
    ]


class Pair(NamedTuple):
    first: str
    second: str
    is_same: bool


PAIRS = {
    "no namespace is the namespace default": Pair(
        runtime("a"), runtime("a", "default"), is_same=True
    ),
    "another namespace is another object": Pair(
        runtime("a", "x"), runtime("a", "y"), is_same=False
    ),
    "another kind is another object": Pair(
        runtime("a"), runtime("a", kind="ClusterTrainingRuntime"), is_same=False
    ),
    "another version is the same object": Pair(
        runtime("a"), runtime("a").replace("v1alpha1", "v1"), is_same=True
    ),
    "another group is another object": Pair(
        runtime("a"), runtime("a").replace("trainer.kubeflow.org/", ""), is_same=False
    ),
    "objects that have no name yet are different": Pair(
        "kind: A\nmetadata: {generateName: x-}",
        "kind: A\nmetadata: {generateName: x-}",
        is_same=False,
    ),
}


@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS)
def test_objects_are_the_same_by_group_kind_namespace_and_name(
    case: Pair, tree: Callable[..., Path]
) -> None:
    folder = tree({"a.yaml": case.first, "b.yaml": case.second})
    if case.is_same:
        with pytest.raises(ConfigError, match="is there twice"):
            read_tree(folder)
    else:
        assert len(read_tree(folder)) == 2


@pytest.mark.parametrize("shape", [None, [], "x", {"kind": "A"}, {"kind": "A", "metadata": []}])
def test_what_has_no_name_has_no_identity(shape: Any) -> None:
    assert identity_of(shape) is None


def test_an_identity_does_not_trip_over_wrong_shapes() -> None:
    shape = {"kind": "A", "apiVersion": 1, "metadata": {"name": "n", "namespace": {}}}
    assert identity_of(shape) == Identity(group="", kind="A", namespace="default", name="n")


def test_titles_name_what_there_is() -> None:
    assert (
        title_of({"kind": "TrainJob", "metadata": {"name": "a", "namespace": "b"}})
        == "TrainJob b/a"
    )
    assert title_of({"kind": "TrainJob", "metadata": {"generateName": "a-"}}) == "TrainJob a-"
    assert title_of({"kind": "Trai\x1b[2JnJob", "metadata": {}}) == "Trai\\u001b[2JnJob (no name)"
    assert title_of([]) == "object (no name)"


def test_what_is_named_must_be_there(tree: Callable[..., Path]) -> None:
    folder = tree({"a.yaml": "a: 1"})
    with pytest.raises(ConfigError, match=r"nowhere: No such file or directory$"):
        read_tree(folder / "nowhere")
    with pytest.raises(ConfigError, match=r"nothing\.yaml: No such file or directory$"):
        read_tree(folder, folder / "nothing.yaml")


def test_files_and_folders_are_read_beside_a_folder_each_file_once(
    tree: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tree({"a.yaml": "kind: A\nmetadata: {name: a}"})
    beside = tmp_path / "rules.txt"
    beside.write_text("kind: B\nmetadata: {name: b}")
    documents = read_tree(folder, beside, folder / "a.yaml", folder)
    assert sorted(d.obj["kind"] for d in documents) == ["A", "B"]


def test_the_same_object_in_a_folder_and_beside_it_is_there_twice(
    tree: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tree({"a.yaml": "kind: A\nmetadata: {name: a}"})
    beside = tmp_path / "b.yaml"
    beside.write_text("kind: A\nmetadata: {name: a}")
    with pytest.raises(ConfigError, match=r"A a is there twice: .*a\.yaml:1 and .*b\.yaml:1$"):
        read_tree(folder, beside)


def test_a_link_to_nowhere_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "README").symlink_to("nowhere")
    assert read_tree(tmp_path) == []
    (tmp_path / "a.yaml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"a\.yaml: No such file or directory$"):
        read_tree(tmp_path)


def test_a_file_that_may_not_be_read_is_named(
    tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    folder = tree({"a.yaml": runtime("a")})
    monkeypatch.setattr("webhook.files._read", deny)
    with pytest.raises(ConfigError, match=r"a\.yaml: Permission denied$"):
        read_tree(folder)


def test_a_file_that_is_too_large_is_named(tree: Callable[..., Path]) -> None:
    folder = tree({"a.yaml": "#" * (MAX_BYTES + 1)})
    with pytest.raises(ConfigError, match=r"a\.yaml: larger than 8 MiB$"):
        read_tree(folder)


def test_inputs_come_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    text = "kind: List\nitems:\n- {kind: A}\n- {kind: B}\n---\nc: [\n---\nd: 1\n"
    file = tmp_path / "in.yaml"
    file.write_text(text)
    for path, source in ((str(file), str(file)), ("-", "standard input")):
        inputs = read_inputs(path, io.BytesIO(text.encode()))
        assert [d.obj for d in inputs.documents] == [{"kind": "A"}, {"kind": "B"}, {"d": 1}]
        assert [d.where for d in inputs.documents] == [
            f"{source}:1 items[0]",
            f"{source}:1 items[1]",
            f"{source}:8",
        ]
        assert [str(b) for b in inputs.broken] == [
            f"{source}:7: while parsing a flow node: did not find expected node content"
        ]


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_an_input_must_be_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"No such file|Is a directory"):
        read_inputs(str(tmp_path / name), io.BytesIO())


class Following:
    """A Follower of a folder, polled by hand, and what it told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: list[list[str]] = []
        self.problems: list[str] = []
        self.reads = 0
        self.follower = Follower(
            folder,
            on_change=lambda documents: self.states.append(names(documents)),
            on_problem=self.problems.append,
            read=self.read,
        )
        self.first = names(self.follower.load())

    def read(self, folder: Path) -> list[Document]:
        self.reads += 1
        return read_tree(folder)

    async def polls(self, times: int) -> None:
        for _ in range(times):
            await self.follower.poll()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


@pytest.fixture
def following(tree: Callable[..., Path]) -> Following:
    return Following(tree({"a.yaml": runtime("a"), "b.yaml": runtime("b")}))


async def test_nothing_is_read_while_nothing_changes(following: Following) -> None:
    await following.polls(3)
    assert (following.first, following.states, following.reads) == (["a", "b"], [], 1)


async def test_a_change_is_handed_over_whole_once_it_has_settled(following: Following) -> None:
    following.write("c.yaml", runtime("c"))
    await following.polls(1)
    assert following.states == []
    await following.polls(3)
    assert following.states == [["a", "b", "c"]]
    (following.folder / "b.yaml").unlink()
    await following.polls(3)
    assert following.states == [["a", "b", "c"], ["a", "c"]]


async def test_a_folder_that_never_settles_is_read_all_the_same(following: Following) -> None:
    for i in range(6):
        following.write("c.yaml", runtime(f"c{i}" + "x" * i))
        await following.polls(1)
    assert following.states == [["a", "b", "c5xxxxx"]]


async def test_the_last_good_state_is_kept_and_each_failure_told_once(following: Following) -> None:
    following.write("b.yaml", "a: [")
    await following.polls(4)
    following.write("a.yaml", runtime("a2"))
    await following.polls(4)
    assert following.states == []
    assert following.problems == [
        f"{following.folder}/b.yaml:2: while parsing a flow node: did not find expected node content"
    ]
    following.write("b.yaml", runtime("a2"))
    await following.polls(4)
    assert len(following.problems) == 2
    assert "is there twice" in following.problems[1]
    following.write("b.yaml", runtime("b2"))
    await following.polls(4)
    assert following.states == [["a2", "b2"]]
    following.write("b.yaml", "a: [")
    await following.polls(4)
    assert len(following.problems) == 3


async def test_a_folder_that_goes_away_may_come_back(following: Following) -> None:
    away = following.folder.with_name("away")
    for round_ in (1, 2):
        following.folder.rename(away)
        await following.polls(3)
        assert following.problems == [f"{following.folder}: No such file or directory"] * round_
        away.rename(following.folder)
        await following.polls(3)
        assert following.states == [["a", "b"]] * round_


async def test_a_state_may_be_refused_by_its_receiver(tree: Callable[..., Path]) -> None:
    folder = tree({"a.yaml": runtime("a")})
    problems: list[str] = []

    def refuse(documents: list[Document]) -> None:
        raise ConfigError(f"{documents[0].where}: no")

    follower = Follower(folder, on_change=refuse, on_problem=problems.append)
    follower.load()
    (folder / "a.yaml").write_text(runtime("ab"))
    for _ in range(4):
        await follower.poll()
    assert problems == [f"{folder}/a.yaml:1: no"]


async def test_files_beside_the_folder_are_followed_too(
    tree: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tree({"a.yaml": runtime("a")})
    beside = tmp_path / "beside.yaml"
    beside.write_text(runtime("b"))
    states: list[list[str]] = []
    follower = Follower(
        folder,
        beside,
        on_change=lambda found: states.append(sorted(names(found))),
        on_problem=print,
    )
    assert sorted(names(follower.load())) == ["a", "b"]
    beside.write_text(runtime("cc"))
    for _ in range(3):
        await follower.poll()
    assert states == [["a", "cc"]]


async def test_a_config_map_is_swapped_by_its_link(tmp_path: Path) -> None:
    for version, name in (("..1", "old"), ("..2", "new")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text(runtime(name))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    following = Following(tmp_path)
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    await following.polls(3)
    assert (following.first, following.states) == (["old"], [["new"]])


async def test_the_follower_polls_at_its_interval_until_it_is_cancelled(
    tree: Callable[..., Path],
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    follower = Follower(
        tree({}), on_change=print, on_problem=print, interval_seconds=2.5, sleep=sleep
    )
    follower.load()
    with pytest.raises(asyncio.CancelledError):
        await follower.run()
    assert slept == [2.5, 2.5, 2.5]


def test_a_first_state_that_cannot_be_used_is_an_error(tree: Callable[..., Path]) -> None:
    folder = tree({"a.yaml": "a: ["})
    with pytest.raises(ConfigError):
        Follower(folder, on_change=print, on_problem=print).load()
