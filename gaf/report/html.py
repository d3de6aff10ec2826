# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file that needs no network: figures, graph of kernels, sources, decisions; English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from gaf.dialects.ascendc.limits import capacities
from gaf.report.layout import BOX_HEIGHT, BOX_WIDTH, layered_layout
from gaf.report.model import KernelReport, LaunchReport, Report
from gaf.report.text import bytes_text, error_text, shorten

MAX_GRAPH_STEPS = 400
MAX_DECISIONS = 4000
"""What a browser shows without delay; report.json holds everything."""

LEGEND = (
    ("matmul", "with a matmul", "含矩阵乘"),
    ("reduction", "with a reduction", "含归约"),
    ("elementwise", "elementwise", "逐元素"),
    ("host", "on the host", "主机执行"),
)
"""Colours of the graph: class, English, Chinese."""


def report_html(report: Report, sources: Mapping[str, str]) -> str:
    """The page; `sources` gives the C++ text of each kernel by name."""
    template = Template((files("gaf.report") / "template.html").read_text(encoding="utf-8"))
    body = [
        *_graph(report.steps, {k.name: k.kind for k in report.kernel_list}),
        *_kernel_table(report),
        *_host(report),
        *_decisions(report),
        *_verification(report),
        *_notes(report),
        *_sources(report, sources),
    ]
    return template.substitute(
        title=escape(f"gaf: {report.model}"),
        subtitle=escape(f"{report.source} → {report.target}, numerics {report.numerics}"),
        cards="".join(_cards(report)),
        body="\n".join(body),
        footer=escape(
            f"gaf {report.version}; ONNX opset {report.opset}; inputs {'; '.join(report.inputs)}; "
            f"outputs {'; '.join(report.outputs)}"
        ),
    )


def both(english: str, chinese: str) -> str:
    """Text in both languages, of which the page shows one."""
    return f'<span class="en">{escape(english)}</span><span class="zh">{escape(chinese)}</span>'


def _heading(english: str, chinese: str) -> str:
    return f"<h2>{both(english, chinese)}</h2>"


def _cards(report: Report) -> Iterator[str]:
    host = sum(h.count for h in report.host)
    yield _card(
        both("operators → kernels", "算子 → 核"),
        f"{report.ops_before} → {report.kernels}",
        both(
            f"{len(report.kernel_list)} different kernels, {host} ops on the host, {report.launches} launches",
            f"{len(report.kernel_list)} 种核，{host} 个算子在主机执行，共启动 {report.launches} 次",
        ),
    )
    share = 100 * (1 - report.memory_saved)
    sizes = ", ".join(f"{k} = {v}" for k, v in report.symbols.items())
    yield _card(
        both("bytes moved", "数据搬运量"),
        f"{bytes_text(report.bytes_before)} → {bytes_text(report.bytes_after)}",
        f'<div class="bar"><i style="width:{min(100.0, share):.1f}%"></i></div>'
        + both(f"{100 * report.memory_saved:.0f} % less", f"减少 {100 * report.memory_saved:.0f} %")
        + (f"; {escape(sizes)}" if sizes else ""),
    )
    kinds = "<br>".join(f"{n} × {escape(kind)}" for kind, n in report.fusions.items()) or "-"
    yield _card(both("fusions", "融合"), str(sum(report.fusions.values())), kinds)
    if report.verification is None:
        yield _card(both("verification", "验证"), "-", both("not run", "未运行"))
    else:
        v = report.verification
        good = "good" if v["ok"] else "bad"
        text = both("passed", "通过") if v["ok"] else both("FAILED", "失败")
        yield _card(
            both("verification", "验证"),
            f'<span class="{good}">{text}</span>',
            both(
                f"engine {v['engine']}: output error {error_text(v['max_error'])}, {len(v['violations'])} violations",
                f"引擎 {v['engine']}：输出误差 {error_text(v['max_error'])}，违规 {len(v['violations'])} 处",
            ),
        )


def _card(label: str, value: str, detail: str) -> str:
    return f'<div class="card"><span class="sub">{label}</span><b>{value}</b><span class="sub">{detail}</span></div>'


def _class(kind: str) -> str:
    return next((k for k in ("matmul", "reduction") if k in kind), "elementwise")


# -- graph ----------------------------------------------------------------------------------------


def _graph(steps: Sequence[LaunchReport], kinds: Mapping[str, str]) -> Iterator[str]:
    shown = steps[:MAX_GRAPH_STEPS]
    if not shown:
        return
    layout = layered_layout([s.sources for s in shown])
    yield _heading("Kernels in order of execution", "核的执行图")
    if len(steps) > len(shown):
        yield f"<p class=sub>{both(f'the first {len(shown)} of {len(steps)} steps', f'共 {len(steps)} 步，显示前 {len(shown)} 步')}</p>"
    yield (
        '<div class="legend">'
        + "".join(f'<span class="tag {c}">{both(en, zh)}</span>' for c, en, zh in LEGEND)
        + "</div>"
    )
    yield '<div class="scroll graph">'
    yield (
        f'<svg class="flow" width="{layout.width + 4:.0f}" height="{layout.height + 4:.0f}" '
        f'viewBox="-2 -2 {layout.width + 4:.0f} {layout.height + 4:.0f}" role="img">'
    )
    for start, end, points in layout.edges:
        yield f'<path data-from="{start}" data-to="{end}" d="{_curve(points)}"/>'
    for step, (x, y) in zip(shown, layout.boxes):
        yield _box(step, x, y, kinds)
    yield "</svg></div>"


def _box(step: LaunchReport, x: float, y: float, kinds: Mapping[str, str]) -> str:
    kind = "host" if step.kernel is None else _class(kinds[step.kernel])
    tip = "\n".join([step.label, step.pattern, *step.members, *(f"→ {o}" for o in step.outputs)])
    reads = ", ".join(step.inputs)
    lower = f"{bytes_text(step.bytes)}" + (f" ← {reads}" if reads else "")
    inside = (
        f"<title>{escape(tip)}</title>"
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}" rx="7"/>'
        f'<text x="{x + 10:.1f}" y="{y + 17:.1f}">{escape(shorten(step.pattern, 32))}</text>'
        f'<text class="small" x="{x + 10:.1f}" y="{y + 32:.1f}">{escape(shorten(lower, 40))}</text>'
    )
    if step.kernel is not None:
        inside = f'<a href="#kernel-{escape(step.kernel)}">{inside}</a>'
    return f'<g data-step="{step.number}">{inside}</g>'


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A path that leaves and enters vertically."""
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for u, v in points[1:]:
        middle = (y + v) / 2
        path += (
            f"L{u:.1f} {v:.1f}" if u == x else f"C{x:.1f} {middle:.1f} {u:.1f} {middle:.1f} {u:.1f} {v:.1f}"
        )
        x, y = u, v
    return path


# -- tables ---------------------------------------------------------------------------------------


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = (), unused: Iterable[int] = ()
) -> Iterator[str]:
    """Cells are HTML; the columns in `right` hold numbers; the rows in `unused` are dimmed."""
    ends, dim = set(right), set(unused)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if i in ends else ''}>{c}</{tag}>" for i, c in enumerate(row))

    yield f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>'
    for number, row in enumerate(rows):
        yield f"<tr{' class=unused' if number in dim else ''}>{cells('td', row)}</tr>"
    yield "</tbody></table></div>"


def _super_kernels(report: Report) -> Iterator[str]:
    if not report.super_kernels:
        return
    saved = sum(s.saved for s in report.super_kernels)
    yield _heading("Super-kernels", "超级核")
    yield f'<p class="sub">{both(f"Several kernels in one launch: {saved} launches saved.", f"多个核合并为一次启动：节省 {saved} 次启动。")}</p>'
    head = (
        both("super-kernel", "超级核"),
        both("launches", "启动次数"),
        both("cores", "核类型"),
        both("kernels in order; ‖ is a barrier", "按序的核；‖ 为同步"),
    )
    rows = []
    for s in report.super_kernels:
        parts = []
        for name, barrier in zip(s.kernels, s.barriers):
            mark = f'<b title="{escape(barrier)}">‖</b> ' if barrier is not None else "→ " if parts else ""
            parts.append(f'{mark}<a href="#kernel-{escape(name)}"><code>{escape(name)}</code></a>')
        rows.append((f"<code>{escape(s.name)}</code>", str(s.launches), escape(s.kind), " ".join(parts)))
    yield from _table(head, rows, right=(1,))


def _kernel_table(report: Report) -> Iterator[str]:
    if not report.kernel_list:
        return
    yield _heading("Kernels", "核")
    head = (
        both("kernel", "核"),
        both("launches", "启动次数"),
        both("kind", "类型"),
        both("read", "读"),
        both("written", "写"),
        both("UB used", "UB 占用"),
        both("error", "误差"),
        both("operators", "算子"),
    )
    rows = [
        (
            f'<a href="#kernel-{escape(k.name)}"><code>{escape(k.name)}</code></a>',
            str(k.launches),
            f'<span class="tag {_class(k.kind)}">{escape(k.kind)}</span>',
            bytes_text(k.bytes_read),
            bytes_text(k.bytes_written),
            bytes_text(k.on_chip["UB"]) if "UB" in k.on_chip else "-",
            _error(k),
            escape(shorten(k.pattern, 120)).replace("+", "+<wbr>"),
        )
        for k in report.kernel_list
    ]
    unused = [i for i, k in enumerate(report.kernel_list) if not k.launches]
    yield from _table(head, rows, right=(1, 3, 4, 5, 6), unused=unused)
    if unused:
        yield f'<p class="sub">{both("Kernels with 0 launches serve sizes that the others do not fit.", "启动次数为 0 的核用于其他核无法容纳的尺寸。")}</p>'
    yield from _super_kernels(report)


def _error(kernel: KernelReport) -> str:
    if kernel.error is None or kernel.tolerance is None:
        return "-"
    good = "good" if kernel.error <= kernel.tolerance else "bad"
    return f'<span class="{good}" title="≤ {error_text(kernel.tolerance)}">{error_text(kernel.error)}</span>'


def _host(report: Report) -> Iterator[str]:
    if not report.host:
        return
    yield _heading("Operators on the host", "主机执行的算子")
    head = (both("operator", "算子"), both("count", "数量"), both("reason", "原因"), both("nodes", "节点"))
    rows = [
        (
            f'<span class="tag host">{escape(h.op)}</span>',
            str(h.count),
            escape(h.reason),
            f"<code>{escape(shorten(', '.join(h.nodes), 300))}</code>",
        )
        for h in report.host
    ]
    yield from _table(head, rows, right=(1,))


def _decisions(report: Report) -> Iterator[str]:
    if not report.decisions:
        return
    # refusals are what people look for
    ordered = sorted(report.decisions, key=lambda d: d.fused)
    shown = ordered[:MAX_DECISIONS]
    yield _heading("Why fused, why not", "为何融合 / 为何不融合")
    if len(shown) < len(ordered):
        yield f"<p class=sub>{both(f'{len(shown)} of {len(ordered)}; the rest is in report.json', f'共 {len(ordered)} 条，其余见 report.json')}</p>"
    yield (
        '<div class="controls"><input id="words" type="search" placeholder="filter" data-en="filter: node name or reason" data-zh="筛选：节点名或原因">'
        f'<label><input id="refused" type="checkbox"> {both("only what was not fused", "只看未融合")}</label>'
        '<span class="sub" id="count" style="flex:none"></span></div>'
    )
    yield '<div class="scroll" style="max-height:60vh"><table id="decisions"><thead><tr>'
    heads = (("producer", "生产者"), ("consumer", "消费者"), ("", ""), ("binding constraint", "约束"))
    yield "".join(f"<th>{both(*h)}</th>" for h in heads) + "</tr></thead><tbody>"
    for d in shown:
        verdict = (
            f'<span class="good">{both("fused", "融合")}</span>'
            if d.fused
            else f'<span class="bad">{both("apart", "分开")}</span>'
        )
        yield (
            f'<tr data-fused="{int(d.fused)}"><td><code>{escape(shorten(d.producer, 160))}</code></td>'
            f"<td><code>{escape(shorten(d.consumer, 160))}</code></td><td>{verdict}</td><td>{escape(d.reason)}</td></tr>"
        )
    yield "</tbody></table></div>"


def _verification(report: Report) -> Iterator[str]:
    v = report.verification
    if v is None:
        return
    yield _heading("Verification against float64", "与 float64 参考比对")
    head = (
        both("output", "输出"),
        both("error", "误差"),
        both("tolerance", "容差"),
        both("largest difference", "最大绝对误差"),
        "",
    )
    yield from _table(
        head,
        (
            [
                escape(c["name"]),
                error_text(c["error"]),
                error_text(c["tolerance"]),
                error_text(c["max_abs"]),
                f'<span class="{"good" if c["ok"] else "bad"}">{"✓" if c["ok"] else "✗ " + escape(c["note"])}</span>',
            ]
            for c in v["outputs"]
        ),
        right=(1, 2, 3),
    )
    if v["violations"]:
        yield f"<h3>{both('Violations of API rules', '违反 API 规则')}</h3>"
        head = (
            both("kernel", "核"),
            both("rule", "规则"),
            both("model node", "模型节点"),
            both("message", "说明"),
        )
        yield from _table(
            head,
            (
                [escape(str(x.get(key) or "-")) for key in ("kernel", "rule", "node", "message")]
                for x in v["violations"][:200]
            ),
        )


def _notes(report: Report) -> Iterator[str]:
    if report.notes:
        yield _heading("Notes of the import", "导入备注")
        yield "<ul>" + "".join(f"<li>{escape(n)}</li>" for n in report.notes) + "</ul>"


# -- sources --------------------------------------------------------------------------------------


def _sources(report: Report, sources: Mapping[str, str]) -> Iterator[str]:
    if not report.kernel_list:
        return
    yield _heading("Kernel sources", "核源码")
    limits = capacities()
    for k in report.kernel_list:
        yield f'<details id="kernel-{escape(k.name)}"><summary><code>{escape(k.name)}</code>'
        yield f'<span class="tag {_class(k.kind)}">{escape(k.kind)}</span>'
        yield f'<span class="sub">{escape(shorten(k.pattern, 100))}; {both(f"{k.launches} launches", f"启动 {k.launches} 次")}</span></summary><div><dl>'
        entries = [
            (both("model nodes", "模型节点"), ", ".join(f"<code>{escape(m)}</code>" for m in k.members)),
            (both("arguments", "参数"), "<br>".join(f"<code>{escape(a)}</code>" for a in k.arguments)),
            (
                both("moves", "搬运"),
                both(
                    f"{bytes_text(k.bytes_read)} read, {bytes_text(k.bytes_written)} written per launch",
                    f"每次读 {bytes_text(k.bytes_read)}，写 {bytes_text(k.bytes_written)}",
                ),
            ),
        ]
        if k.blocks is not None:
            entries.append(
                (
                    both("launch", "启动"),
                    both(
                        f"{k.blocks} blocks, {bytes_text(k.workspace or 0)} workspace",
                        f"{k.blocks} 块，工作区 {bytes_text(k.workspace or 0)}",
                    ),
                )
            )
        for space, used in k.on_chip.items():
            inside = ", ".join(f"{b.name} {bytes_text(b.bytes)}" for b in k.buffers if b.space == space)
            limit = limits[space]
            entries.append(
                (
                    space,
                    f'<div class="bar" style="max-width:340px"><i style="width:{min(100.0, 100 * used / limit):.1f}%"></i></div>'
                    f"{bytes_text(used)} / {bytes_text(limit)}: {escape(inside)}",
                )
            )
        if k.guards:
            entries.append((both("runs if", "运行条件"), "<br>".join(escape(g) for g in k.guards)))
        if k.error is not None:
            entries.append((both("error", "误差"), f"{_error(k)} (≤ {error_text(k.tolerance)})"))
        if k.note:
            entries.append((both("note", "备注"), escape(k.note)))
        entries.append((both("file", "文件"), f"<code>{escape(k.source)}</code>"))
        yield "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries)
        yield f"</dl><pre>{highlight(sources.get(k.name, ''))}</pre></div></details>"


_TOKENS = re.compile(
    r"(?P<c>//[^\n]*|/\*.*?\*/)|(?P<s>\"(?:\\.|[^\"\\\n])*\")|(?P<p>^[ \t]*#[^\n]*)"
    r"|(?P<k>\b(?:alignas|auto|bool|break|case|class|const|constexpr|continue|else|extern|false|for|if|inline|namespace|return"
    r"|sizeof|static|static_cast|struct|template|true|typename|using|void|while|float|half|bfloat16_t|u?int(?:8|16|32|64)_t"
    r"|__global__|__aicore__|__gm__|GM_ADDR|ASCEND_IS_AIC|ASCEND_IS_AIV)\b)"
    r"|(?P<d>\b\d[\w.]*)|(?P<f>\b[A-Z]\w*(?=\s*[(<]))",
    re.DOTALL | re.MULTILINE,
)


def highlight(source: str) -> str:
    """C++ as HTML with comments, strings, keywords, numbers and calls marked."""
    parts: list[str] = []
    at = 0
    for match in _TOKENS.finditer(source):
        parts.append(escape(source[at : match.start()]))
        parts.append(f'<span class="{match.lastgroup}">{escape(match.group())}</span>')
        at = match.end()
    return "".join([*parts, escape(source[at:])])
