# SPDX-License-Identifier: Apache-2.0
"""`new_op`: the files that a new custom operator begins with."""

from __future__ import annotations

import keyword

from gaf.errors import InvalidInputError

_GAF = """# {title}: y = x * sigmoid(x * g), as an operator of your own.
#
# Try it:    gaf-opt {name}.gaf
# Bind it:   gaf.load_custom_ops("{name}.gaf") before a model with com.{namespace}.{title} is loaded

# T is any element type, `...` any leading dims. Elementwise work is written on whole tensors:
op {name}(x: T[..., d], g: T[d]) -> T[..., d] as onnx "com.{namespace}.{title}", torch "{namespace}.{name}" {{
    x * sigmoid(x * g)
}}

# What mixes elements is written element by element; folds are sum, prod, max, min and mean:
op {name}_norm(x: T[..., d]) -> T[..., 1] {{ [..., i < 1] = sqrt(sum(k: x[..., k]^2)) }}

model try_{name}(x: f32[n, 64], g: f32[64]) {{
    let y = {name}(x, g);
    y / ({name}_norm(y) + 1e-6)
}}
"""

_PYTHON = '''"""{title} as a custom operator in Python; the same as {name}.gaf."""

import numpy as np

import gaf


@gaf.custom_op(
    "{namespace}::{name}",
    "(x: T[..., d], g: T[d]) -> T[..., d]",
    onnx="com.{namespace}.{title}",
    torch="{namespace}.{name}",
)
def {name}(x, g):
    """The body is called once, with tensors that record what it does; it fuses with its neighbours."""
    return x * gaf.ops.sigmoid(x * g)


# An operator that gaf can't look into runs on the host, through this numpy function:
#
# @gaf.custom_op("{namespace}::{name}", "(x: f32[n, d], g: f32[d]) -> f32[n, d]", opaque=True)
# def {name}(x, g):
#     return x / (1 + np.exp(-x * g))


if __name__ == "__main__":
    x, g = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32), np.ones(8, np.float32)
    np.testing.assert_allclose({name}(x, g), x / (1 + np.exp(-x * g)), rtol=1e-5)
'''


def new_op(name: str, namespace: str = "acme") -> dict[str, str]:
    """File name -> text of a template for the operator `name`: a `.gaf` file and a Python file.

    Raises InvalidInputError for a name that is no identifier in both languages.
    """
    for what, text in (("operator", name), ("namespace", namespace)):
        if not text.isascii() or not text.isidentifier() or keyword.iskeyword(text) or text != text.lower():
            raise InvalidInputError(
                f"this can't be the name of an {what}",
                expected="lower-case letters, digits and _, such as my_gate",
                got=text,
            )
    title = "".join(word.capitalize() for word in name.split("_"))
    values = {"name": name, "title": title, "namespace": namespace}
    return {f"{name}.gaf": _GAF.format(**values), f"{name}.py": _PYTHON.format(**values)}
