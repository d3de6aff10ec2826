# SPDX-License-Identifier: Apache-2.0
"""Axes of a finished region: merge those that are contiguous everywhere, find dims to cut, drop what isn't used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gaf.dialects.common.index import Expr, Func, const, exact_div, map_atoms, sym
from gaf.fusion.nodes import Node, Region, address, reads_in
from gaf.fusion.piecewise import merged_guard


def prune(region: Region) -> Region:
    """Drop unused nodes, inputs and axes; renumber."""
    live: set[int] = set()
    stack = [o.node for o in region.outputs]
    while stack:
        n = stack.pop()
        if n not in live:
            live.add(n)
            stack += region.nodes[n].args
    used_inputs: dict[int, int] = {}

    def keep_input(i: int) -> None:
        used_inputs.setdefault(i, len(used_inputs))

    for n in sorted(live):
        node = region.nodes[n]
        if node.kind == "load":
            keep_input(node.input)
            for e in node.index:
                for r in reads_in(e):
                    keep_input(int(r.tag[2:]))
    numbers: dict[int, int] = {}
    nodes: list[Node] = []
    for n in sorted(live):
        node = region.nodes[n]
        index = tuple(_retag(e, used_inputs) for e in node.index)
        numbers[n] = len(nodes)
        nodes.append(
            replace(node, args=tuple(numbers[a] for a in node.args), input=used_inputs.get(node.input, -1), index=index)
        )
    outputs = [replace(o, node=numbers[o.node]) for o in region.outputs]
    used_axes = {a for n in nodes for a in n.axes} | {a for n in nodes for a in n.over}
    used_axes |= {name for o in outputs for e in o.index for name in e.names()}
    return Region(
        {a: e for a, e in region.axes.items() if a in used_axes},
        nodes,
        [region.inputs[i] for i in used_inputs],
        outputs,
        {numbers[n]: region.origins[n] for n in live},
        region.one_pass,
    )


def _retag(e: Expr, inputs: Mapping[int, int]) -> Expr:
    def atom(found: Func) -> Expr | None:
        if found.name != "read":
            return None
        args = tuple(_retag(a, inputs) for a in found.args)
        return Expr({(Func("read", args, f"in{inputs[int(found.tag[2:])]}"),): 1})

    return map_atoms(e, atom)


def collapse(region: Region) -> None:
    """Merge pairs of axes that are contiguous in every access: [B, S, 768] rows become one axis B*S."""
    changed = True
    while changed:
        changed = False
        names = list(region.axes)
        for outer in names:
            for inner in names:
                if outer != inner and outer in region.axes and inner in region.axes and _collapsible(region, outer, inner):
                    _merge_axes(region, outer, inner)
                    changed = True


def _collapsible(region: Region, outer: str, inner: str) -> bool:
    used = False
    for node in region.nodes:
        if (outer in node.axes) != (inner in node.axes) or (outer in node.over) != (inner in node.over):
            return False
        if node.kind == "coord" and outer in node.axes:
            step, inner_step = node.index[0].coefficient(outer), node.index[0].coefficient(inner)
            if step is None or inner_step is None or step != inner_step * region.axes[inner]:
                return False
        if any(merged_guard(g, outer, inner, region.axes) is None for g in node.guards):
            return False
        used = used or outer in node.axes or outer in node.over
    if not used:
        return False
    extent = region.axes[inner]
    for shape, index in _linear_accesses(region):
        linear = address(shape, index, region.axes)
        if outer not in linear.names() and inner not in linear.names():
            continue
        step_outer, step_inner = linear.coefficient(outer), linear.coefficient(inner)
        if step_outer is None or step_inner is None or step_outer != step_inner * extent:
            return False
    return True


def _linear_accesses(region: Region) -> list[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    """Accesses with gather indices split off: the table without its `read`, and the index tensor itself."""
    types = region.input_types
    found: list[tuple[tuple[Expr, ...], tuple[Expr, ...]]] = []
    for type_, index in region.accesses():
        for e in index:
            for r in reads_in(e):
                found.append((types[int(r.tag[2:])].shape, r.args))
        found.append((type_.shape, tuple(const(0) if reads_in(e) else e for e in index)))
    return found


def _merge_axes(region: Region, outer: str, inner: str) -> None:
    extent = region.axes[inner]
    guards = [tuple(merged_guard(g, outer, inner, region.axes) or g for g in n.guards) for n in region.nodes]
    region.axes[outer] = region.axes[outer] * extent
    del region.axes[inner]
    env = {outer: sym(outer) // extent, inner: sym(outer) % extent}

    def names(axes: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(outer if a == inner else a for a in axes))

    for i, node in enumerate(region.nodes):
        index = tuple(e.substitute(env, region.axes) for e in node.index)
        region.nodes[i] = replace(
            node, index=index, axes=frozenset(names(node.axes)), over=names(node.over), guards=guards[i]
        )
    region.outputs = [replace(o, index=tuple(e.substitute(env, region.axes) for e in o.index)) for o in region.outputs]


def find_split(region: Region, owners: Mapping[str, tuple[int, int]]) -> tuple[int, int, Expr, Expr] | None:
    """A root axis that some access divides by a factor of its extent: dim, position, inner and outer extent.

    A guard is a range of a whole axis, so one that a guard names stays whole.
    """
    bounded = {n for node in region.nodes for g in node.guards for n in g.index.names()}
    for shape, index in _linear_accesses(region):
        for atom in address(shape, index, region.axes).atoms():
            if not isinstance(atom, Func) or atom.name not in ("floordiv", "mod"):
                continue
            name, inner = atom.args[0].as_name(), atom.args[1]
            if name not in owners or name in bounded or inner.names() & set(region.axes):
                continue
            outer = exact_div(region.axes[name], inner)
            if outer is not None and outer != 1:
                return (*owners[name], inner, outer)
    return None
