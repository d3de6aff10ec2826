# SPDX-License-Identifier: Apache-2.0
"""Names that generated code can't use: arguments, symbols and kernels avoid them from the start."""

from __future__ import annotations

import re

RESERVED_NAMES = frozenset(
    "block blocks sub t pipe workspace floordiv mod min max read float gaf AscendC alignas auto bool break case char "
    "class const constexpr continue default delete do double else enum explicit extern false for friend goto half if "
    "inline int long namespace new operator private protected public register return short signed sizeof static struct "
    "switch template this throw true try typedef typename union unsigned using virtual void volatile while "
    "and and_eq asm bitand bitor compl not not_eq or or_eq xor xor_eq const_cast dynamic_cast reinterpret_cast "
    "static_cast decltype export friend mutable noexcept nullptr static_assert thread_local typeid typename wchar_t "
    "char8_t char16_t char32_t concept consteval constinit co_await co_return co_yield requires signed union "
    "bfloat16_t uint8_t int8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t size_t std main "
    "to step eq ne lt le gt ge "
    "Add Sub Mul Div Max Min And Or Not Adds Muls Maxs Mins Exp Ln Abs Sqrt Rsqrt Reciprocal Relu "
    "LeakyRelu Duplicate Cast CreateVecIndex SetFlag WaitFlag CrossCoreSetFlag CrossCoreWaitFlag SyncAll PipeBarrier TPipe TQue TBuf LocalTensor "
    "GlobalTensor TPosition RoundMode CMPMODE HardEvent GetBlockIdx GetBlockNum GetSubBlockIdx GetSubBlockNum".split()
)
"""Names that C++, the printed kernel or the text format use for something else."""


def legal_name(text: str, fallback: str) -> str:
    """A C++ identifier close to `text` that isn't reserved; `fallback` if nothing of `text` can be kept."""
    name = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_")
    if not name or not name.isascii():
        return fallback
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    if len(name) > 1 and name.isupper():  # PIPE_V, NULL, GM_ADDR: macros are written like this
        name += "_"
    return name + "_" if name in RESERVED_NAMES else name


def short_name(text: str, fallback: str, limit: int = 24) -> str:
    """`legal_name` of the last words of a long model name: `...layer_0_attention_output_dense_bias` -> `output_dense_bias`."""
    words = [w for w in re.split(r"[^0-9A-Za-z]+", text) if w]
    kept: list[str] = []
    for word in reversed(words):
        if kept and (word[0].isdigit() or len("_".join([word, *kept])) > limit):
            break
        kept.insert(0, word)
    return legal_name("_".join(kept)[-limit:], fallback)
