# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled objects: an edit rebuilds what includes the edited file, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gaf.runtime.compiler import ObjectCache


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1, 1))  # long ago: before any compile of the test
    return path


class Tree:
    """Two sources; `a.cpp` includes one header, `b.cpp` none. "Compiling" writes the text of all files."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "src", folder / "cache"
        self.a = _write(self.root / "a.cpp", "a")
        self.b = _write(self.root / "b.cpp", "b")
        self.header = _write(self.root / "h.h", "1")
        self.builds: list[str] = []

    def build(self, *common: str) -> None:
        objects = ObjectCache(self.cache, (self.root,), common)
        for source in (self.a, self.b):
            if objects.find(source) is None:
                built, depends = self.cache / "out.o", self.cache / "out.d"
                self.cache.mkdir(exist_ok=True)
                built.write_text("object")
                header = f" \\\n  {self.header}" if source == self.a else ""
                depends.write_text(f"out.o: {source} /usr/include/stdint.h{header}\n")
                objects.keep(source, built, depends, time.time())
                self.builds.append(source.name)


def test_nothing_is_built_twice(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.build("-O3")
    tree.build("-O3")
    assert tree.builds == ["a.cpp", "b.cpp"]


def test_a_header_rebuilds_what_includes_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.build()
    _write(tree.header, "2")
    tree.build()
    assert tree.builds == ["a.cpp", "b.cpp", "a.cpp"]
    _write(tree.header, "1")  # back: the first object is still there
    tree.build()
    assert len(tree.builds) == 3


def test_source_and_flags_are_part_of_the_key(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.build("-O1")
    _write(tree.b, "changed")
    tree.build("-O1")
    tree.build("-O2")
    assert tree.builds == ["a.cpp", "b.cpp", "b.cpp", "a.cpp", "b.cpp"]


def test_an_object_of_a_file_edited_meanwhile_is_not_found_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    os.utime(tree.header)  # as new as the compile
    future = time.time() + 60
    os.utime(tree.header, (future, future))
    tree.build()
    tree.build()
    assert tree.builds == ["a.cpp", "b.cpp", "a.cpp"]
