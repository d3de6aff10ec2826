# SPDX-License-Identifier: Apache-2.0
"""The cost model beside measured times of a vendor's kernels: modelled over measured, by family of operators.

`npu_times.csv` holds operators, sizes and times in µs that were measured on a 910B2, one vendor kernel each,
some of them on sizes that no kernel likes. Every row that is a network of gaf's ops is built, fused, and
priced; what the vendor does in one kernel may take gaf several. A ratio below 1 says that the model promises
more than the vendor reached: launches back to back, no host between, and copies at the rate of the memory.

python -m benchmarks.calibration --rows     # every row
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import finish, parser, table

TIMES = Path(__file__).with_name("npu_times.csv")
TARGET = "ascend910b2"
"""The chip that was measured."""

DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "i8", "uint8": "ui8", "int32": "i32",
    "int64": "i64",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One measured case."""

    family: str
    case: str
    shapes: list[Any]
    dtypes: list[str]
    attrs: Mapping[str, Any]
    measured_us: float


Shape = Sequence[int]
Build = Callable[[Row], str | None]
"""The `.gaf` model of a row; None if it isn't one of gaf's."""


def read_rows(path: Path = TIMES) -> list[Row]:
    """All rows of a file of times."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                r["op"], r["case"], json.loads(r["input_shapes"]), [DTYPES.get(d, d) for d in json.loads(r["dtypes"])],
                json.loads(r["attrs"]), float(r["measured_us"]),
            )
            for r in csv.DictReader(file)
        ]  # fmt: skip


# -- models ---------------------------------------------------------------------------------------------


def dims(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def model(parameters: Mapping[str, tuple[str, Shape]], body: str) -> str:
    """The text of a model; parameters are name -> (dtype, shape)."""
    listed = ", ".join(f"{n}: {kind}{dims(shape)}" for n, (kind, shape) in parameters.items())
    return f"model measured({listed}) {{\n    {body}\n}}\n"


def unary(formula: str) -> Build:
    """A formula of one tensor `x`; `{key}` stands for an attribute."""
    return lambda row: model({"x": (row.dtypes[0], row.shapes[0])}, formula.format(**row.attrs))


def exp(row: Row) -> str:
    base = 1.0 if row.attrs["base"] < 0 else math.log(row.attrs["base"])
    scale, shift = row.attrs["scale"] * base, row.attrs["shift"] * base
    return model({"x": (row.dtypes[0], row.shapes[0])}, f"exp(x * {scale} + {shift})")


def maximum(row: Row) -> str:
    a, b = row.shapes
    return model({"a": (row.dtypes[0], a), "b": (row.dtypes[1], b)}, "max(a, b)")


def masked_scale(row: Row) -> str:
    kind, mask = row.dtypes
    parameters = {"x": (kind, row.shapes[0]), "mask": (mask, row.shapes[1])}
    scale = 1.0 if row.attrs["scale"] == "nan" else row.attrs["scale"]  # any scale costs the same
    return model(parameters, f"x * cast(mask, to={kind}) * {scale}")


def swi_glu(row: Row) -> str | None:
    (shape,), axis = row.shapes, row.attrs["dim"] % len(row.shapes[0])
    half = [n // 2 if i == axis else n for i, n in enumerate(shape)]
    start = [n if i == axis else 0 for i, n in enumerate(half)]
    body = (
        f"let a = slice(x, starts={dims([0] * len(shape))}, sizes={dims(half)});"
        f" let b = slice(x, starts={dims(start)}, sizes={dims(half)}); a * sigmoid(a) * b"
    )
    return model({"x": (row.dtypes[0], shape)}, body)


def as_one(tensors: Sequence[Shape]) -> list[int]:
    """A list of equal tensors as one."""
    return [len(tensors), *tensors[0]]


def addcdiv(row: Row) -> str:
    x, a, b = (as_one(shapes) for shapes in row.shapes)
    scale = 1.0 if row.attrs["scalar"] == "nan" else row.attrs["scalar"]
    kind = row.dtypes[0]
    return model({"x": (kind, x), "a": (kind, a), "b": (kind, b)}, f"x + a / b * {scale}")


def foreach_norm(row: Row) -> str | None:
    shape, axes = as_one(row.shapes[0]), dims(range(1, len(row.shapes[0][0]) + 1))
    folds = {1.0: "reduce_l1(x, axes={0}, keepdims=false)", 2.0: "reduce_l2(x, axes={0}, keepdims=false)"}
    fold = folds.get(float(row.attrs["scalar"]))
    return model({"x": (row.dtypes[0], shape)}, fold.format(axes)) if fold else None


def apply_adam_w(row: Row) -> str:
    a = row.attrs
    names = ("var", "m", "v", "grad")
    body = (
        f"let mm = m * {a['beta1']} + grad * {1 - a['beta1']}; let vv = v * {a['beta2']} + grad * grad * {1 - a['beta2']};"
        f" new = var * {1 - a['lr'] * a['weight_decay']} - mm / (sqrt(vv) + {float(a['epsilon'])}) * {a['lr']}, first = mm, second = vv"
    )
    return model({n: (k, s) for n, k, s in zip(names, row.dtypes, row.shapes)}, body)


def rms_norm(row: Row) -> str:
    x, scale = row.shapes
    kind = row.dtypes[0]
    return model(
        {"x": (kind, x), "g": (kind, scale)}, f"rms_norm(x, g, epsilon={float(row.attrs['epsilon'])})"
    )


def softmax(row: Row) -> str:
    axis = row.attrs["dim"] % len(row.shapes[0])
    return model({"x": (row.dtypes[0], row.shapes[0])}, f"softmax(x, axes=[{axis}])")


def group_norm(row: Row) -> str:
    parameters = {n: (k, s) for n, k, s in zip(("x", "g", "b"), row.dtypes, row.shapes)}
    groups, epsilon = row.attrs["num_groups"], float(row.attrs["epsilon"])
    return model(parameters, f"group_norm(x, g, b, num_groups={groups}, epsilon={epsilon})")


def arg_max(row: Row) -> str:
    return model({"x": (row.dtypes[0], row.shapes[0])}, f"argmax(x, axis={row.attrs['dim']}, keepdims=false)")


def transpose(row: Row) -> str:
    return model({"x": (row.dtypes[0], row.shapes[0])}, f"transpose(x, perm={dims(row.attrs['perm'])})")


def conv_2d(row: Row) -> str:
    parameters = {n: (k, s) for n, k, s in zip(("x", "w", "b"), row.dtypes, row.shapes)}
    listed = ", ".join(f"{n}={dims(row.attrs[n])}" for n in ("strides", "pads", "dilations"))
    return model(parameters, f"conv(x, w, b, {listed})")


def rotary(row: Row) -> str | None:
    """Both halves of every head turned, for queries and keys."""
    if row.attrs["rotaryMode"] != "half":
        return None
    b, s, h, d = row.shapes[0]
    kind, half, start = row.dtypes[0], [b, s, h, d // 2], [0, 0, 0, d // 2]
    parameters = {n: (kind, x) for n, x in zip(("q", "k", "cos", "sin"), row.shapes)}
    turned = []
    for x in "qk":
        turned.append(
            f"let {x}1 = slice({x}, starts={dims([0] * 4)}, sizes={dims(half)});"
            f" let {x}2 = slice({x}, starts={dims(start)}, sizes={dims(half)});"
        )
    table = f"let c = reshape(cos, shape={dims([s, 1, d // 2])}); let t = reshape(sin, shape={dims([s, 1, d // 2])}); "
    results = ", ".join(
        f"turned_{x} = concat({x}1 * c - {x}2 * t, {x}2 * c + {x}1 * t, axis=3)" for x in "qk"
    )
    return model(parameters, table + " ".join(turned) + " " + results)


def attention(row: Row) -> str | None:
    """softmax(q kT / sqrt(d)) v on [batch, length, heads, size]; heads of a group are rows of one matmul."""
    if row.attrs["is_causal"]:
        return None
    (b, s, h, d), (_, keys, groups, _) = row.shapes[:2]
    kind, share = row.dtypes[0], h // groups
    parameters = {n: (kind, x) for n, x in zip("qkv", row.shapes)}
    body = (
        f"let q1 = reshape(transpose(q, perm=[0, 2, 1, 3]), shape={dims([b, groups, share * s, d])});"
        " let k1 = transpose(k, perm=[0, 2, 3, 1]); let v1 = transpose(v, perm=[0, 2, 1, 3]);"
        f" let p = softmax(q1 @ k1 * {d**-0.5}, axes=[3]);"
        f" transpose(reshape(p @ v1, shape={dims([b, h, s, d])}), perm=[0, 2, 1, 3])"
    )
    return model(parameters, body)


FAMILIES: dict[str, Build] = {
    "exp": exp,
    "gelu": unary('gelu(x, approximate="{approximate}")'),
    "mish": unary("mish(x)"),
    "sigmoid": unary("sigmoid(x)"),
    "maximum": maximum,
    "masked_scale": masked_scale,
    "swi_glu": swi_glu,
    "foreach_addcdiv_scalar": addcdiv,
    "foreach_norm": foreach_norm,
    "apply_adam_w": apply_adam_w,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "group_norm": group_norm,
    "arg_max": arg_max,
    "transpose": transpose,
    "conv_2d": conv_2d,
    "apply_rotary_pos_emb": rotary,
    "mha": attention,
    "gqa": attention,
}


# -- figures --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Priced:
    """A row, what the model says in µs, the kernels that gaf makes of it, and what binds the longest of them.
    """

    row: Row
    us: float
    kernels: int
    limit: str

    @property
    def ratio(self) -> float:
        return self.us / self.row.measured_us


def price(row: Row) -> Priced | None:
    """The modelled time of a row as gaf would run it; None if gaf has no network or no kernel for it.

    Measured kernels ran again and again on the same arrays, so arrays that fit the rule for L2 are in L2.
    """
    import gaf
    from gaf.errors import GafError
    from gaf.frontend.language import program_from_text
    from gaf.fusion.search import model_of, plan_fusion
    from gaf.passes.graph.footprint import smallest_tile
    from gaf.passes.pipeline import graph_pipeline, run_pipeline

    build = FAMILIES.get(row.family)
    text = build(row) if build is not None else None
    if text is None:
        return None
    try:
        network = program_from_text(text).model()
    except GafError as error:
        raise AssertionError(f"{row.family} {row.case}: {error}\n{text}") from None
    run_pipeline(network.module, graph_pipeline(True, False))
    config = gaf.FusionConfig(target=TARGET, objective="time")
    plan = plan_fusion(network.block, config=config, candidates=False, planner=smallest_tile)
    if plan.host or not plan.groups:
        return None
    chip_model = model_of(config)
    works = [g.legal.work for g in plan.groups if g.legal is not None]
    touched = sum(w.bytes for w in works)
    warm = touched < chip_model.l2_bytes * chip_model.rates.l2_fraction
    costs = [chip_model.price(w, [warm] * len(w.reads), [warm] * len(w.writes)) for w in works]
    longest = max(costs, key=lambda c: c.us)
    return Priced(row, sum(c.us for c in costs), len(costs), longest.limit)


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: 1 if both order the cases alike."""

    def ranks(values: Sequence[float]) -> list[int]:
        order = sorted(range(len(values)), key=lambda i: values[i])
        return [order.index(i) for i in range(len(values))]

    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def figures(priced: Sequence[Priced], rows: int) -> dict[str, Any]:
    """Ratio and rank correlation over all rows, and by family."""
    families: dict[str, list[Priced]] = {}
    for p in priced:
        families.setdefault(p.row.family, []).append(p)
    return {
        "rows": rows,
        "built": len(priced),
        "ratio_geomean": geomean([p.ratio for p in priced]),
        "spread": math.exp(
            math.sqrt(
                sum(math.log(p.ratio / geomean([q.ratio for q in priced])) ** 2 for p in priced) / len(priced)
            )
        ),
        "rank_correlation": rank_correlation([p.us for p in priced], [p.row.measured_us for p in priced]),
        "families": {
            name: {
                "rows": len(group),
                "ratio": geomean([p.ratio for p in group]),
                "least": min(p.ratio for p in group),
                "most": max(p.ratio for p in group),
            }
            for name, group in families.items()
        },
    }


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--times", type=Path, default=TIMES, help="another file of measured times")
    args.add_argument("--rows", action=argparse.BooleanOptionalAction, default=False, help="print every row")
    options = args.parse_args(argv)
    rows = read_rows(options.times)
    priced = [p for p in map(price, rows) if p is not None]
    found = figures(priced, len(rows))
    if options.rows:
        print(table([
            {"op": p.row.family, "case": p.row.case, "sizes": str(p.row.shapes[0])[:30], "dtype": p.row.dtypes[0],
             "measured us": p.row.measured_us, "modelled us": p.us, "ratio": p.ratio, "kernels": p.kernels, "limit": p.limit}
            for p in priced
        ]))  # fmt: skip
    print(table([{"family": name, **f} for name, f in found["families"].items()]))
    print(
        f"{found['built']} of {found['rows']} rows: modelled / measured {found['ratio_geomean']:.2f} (geometric mean, "
        f"factor of spread {found['spread']:.2f}), rank correlation {found['rank_correlation']:.3f}"
    )
    return finish("calibration", found, options.json)


if __name__ == "__main__":
    sys.exit(main())
