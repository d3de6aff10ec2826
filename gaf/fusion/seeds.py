# SPDX-License-Identifier: Apache-2.0
"""Where the search starts: every op a group of its own, and views folded into those that read them, or stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation

from gaf.dialects.graph.meaning import Meaning
from gaf.fusion.cost import Work
from gaf.fusion.order import UnitOrder
from gaf.fusion.plan import Group, Legal
from gaf.fusion.region import NotFusible, address, build_region


class Seeds(UnitOrder):
    """Groups of one op. A view is folded into the index maps of its readers; where it can't be, its producer writes
    it, or a copy kernel, or the host.
    """

    host: dict[int, str]
    """Ops that stay on the host, and why."""
    single: dict[int, Work]

    @property
    def folded(self) -> set[int]:
        """Views that nothing stores."""
        return self.graph.folded

    def check(self, ops: Sequence[int], loose: Iterable[int] = ()) -> Legal:
        """The kernel of ops, with the views in `loose` stored. Raises NotFusible."""
        raise NotImplementedError

    def build(self, ops: Sequence[int], loose: Iterable[int] = ()) -> Group:
        """The group of ops, priced. Raises NotFusible."""
        raise NotImplementedError

    def computes(self, number: int) -> bool:
        return self.graph.meaning(number) is not None and number not in self.host

    def seed(self, number: int) -> None:
        """Make an op a group of its own, with views on its operands folded as far as the maps stay affine."""
        meaning = self.graph.meanings[number]
        if not isinstance(meaning, Meaning):
            self.host[number] = getattr(meaning, "reason", "no iteration space")
            return
        reason = ""
        cuts = [set[int](), *self.cuts(number)]
        # a view that a kernel in stages would store twice, for both operands of a matmul, is better stored once
        for cut, plain in [(c, True) for c in cuts] + [(c, False) for c in cuts]:
            try:
                legal = self.check([number], cut)
                if plain and legal.schedules[0].handed > 1:
                    continue
                self.single[number] = legal.work
                self.group_of[number] = self.build([number], cut)
            except NotFusible as error:
                reason = reason or str(error)
                continue
            self.folded.difference_update(cut)
            self.seed_again({c for v in cut for c in self.graph.consumers(v)} - {number})
            return
        self.host[number] = reason

    def seed_again(self, numbers: Iterable[int]) -> None:
        """Ops whose groups were made when more views were folded: what they read has changed. Ends, because every
        cut leaves fewer views to fold.
        """
        for i in sorted(numbers):
            if self.group_of.pop(i, None) is not None:
                self.seed(i)

    def cuts(self, number: int) -> Iterator[set[int]]:
        """Views below `number` to store instead of fold: one (nearest the producer first), then all."""
        chain: list[int] = []
        stack = [o.owner for o in self.ops[number].operands]
        while stack:
            owner = stack.pop()
            if not isinstance(owner, Operation) or self.graph.number[owner] not in self.folded:
                continue
            if self.graph.number[owner] not in chain:
                chain.append(self.graph.number[owner])
                stack += [o.owner for o in owner.operands]
        for view in reversed(chain):
            yield {view}
        if len(chain) > 1:
            yield set(chain)

    def copies_input(self, view: int) -> bool:
        """Is this the last of a chain of views from a model input to a model output that changes the order of data?"""
        graph, value = self.graph, self.ops[view].results[0]
        if isinstance(graph.root(value).owner, Operation) or all(self.computes(c) for c in graph.consumers(view)):
            return False
        try:
            region = build_region([self.ops[i] for i in self.folded], [value])
        except NotFusible:
            return False
        (out,) = region.outputs
        load = region.nodes[out.node]
        if load.kind != "load":
            return False
        shape = region.input_types[load.input].shape
        return address(shape, load.index, region.axes) != address(out.type.shape, out.index, region.axes)

    def absorb_views(self, copies: set[int]) -> None:
        """A view that must be stored is written by its producer if it can, else by a copy kernel, else on the
        host. `copies` of inputs that have no kernel stay views, which the host applies.
        """
        pending = sorted(self.graph.views - self.folded)
        while pending:
            view = pending.pop(0)
            if view in self.host:
                continue
            source = self.only_source(view)
            group = self.group_of.get(source) if source is not None else None
            if group is not None:
                try:
                    wider = self.build([*group.ops, view])
                except NotFusible:
                    pass
                else:
                    group.take(wider)
                    self.group_of[view] = group
                    continue
            try:
                self.group_of[view] = self.build([view])
            except NotFusible as error:
                if view in copies:
                    self.fold_again(view)
                elif (cut := self.store_apart(view)) is not None:
                    pending = sorted({*pending, *cut})
                else:
                    self.host[view] = str(error)

    def store_apart(self, view: int) -> set[int] | None:
        """Make a kernel of a view that has none with all views below it folded; returns those to store instead."""
        for cut in self.cuts(view):
            try:
                self.group_of[view] = self.build([view], cut)
            except NotFusible:
                continue
            self.folded.difference_update(cut)
            self.seed_again({c for v in cut for c in self.graph.consumers(v)} - {view})
            return cut
        return None

    def fold_again(self, view: int) -> None:
        """Let the kernels that read a view read through it after all, unless one of them has no form then."""
        self.folded.add(view)
        readers = {id(g): g for c in self.graph.consumers(view) if (g := self.group_of.get(c)) is not None}
        try:
            rebuilt = [(group, self.build(group.ops)) for group in readers.values()]
        except NotFusible:
            self.folded.discard(view)
            return
        for group, through in rebuilt:
            group.take(through)

    def only_source(self, view: int) -> int | None:
        """The single producer of a stored view, if nothing else reads what lies between."""
        i = view
        while True:
            if self.graph.is_piecewise(i) and len(self.ops[i].operands) > 1:
                return None  # a concat is a copy of its own, which its producers may join
            value = self.ops[i].operands[0]
            if not value.has_one_use() or not isinstance(value.owner, Operation):
                return None
            i = self.graph.number[value.owner]
            if i not in self.folded:
                return i
