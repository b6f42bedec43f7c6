"""The pictures of a report, drawn by plotly; their colours suit a light and a dark page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimand.report import classification, regression
from estimand.report.classification import Points
from estimand.report.history import Curve
from estimand.report.importance import Importance
from estimand.report.weights import Weight

COLOURS = ("#4c78d8", "#e4572e", "#2a9d63", "#9a60b4", "#d8973c", "#3aa6b9", "#c44e7a", "#7a8450")
_GREY = "rgba(128,128,128,0.25)"
_MOST_POINTS = 2000
_MOST_WITH_NUMBERS = 12  # classes of a confusion matrix


def curves(lines: Mapping[str, Curve], starts: Sequence[int] = ()) -> Any:
    """Values by step. Each line is drawn twice: as it is, and for the page's script to smooth."""
    go = _graph_objects()
    figure = go.Figure()
    for number, (name, curve) in enumerate(lines.items()):
        steps, values = _thinned(curve)
        colour = COLOURS[number % len(COLOURS)]
        raw = {"x": steps, "y": values, "mode": "lines", "line": {"color": colour, "width": 1}}
        figure.add_scatter(
            **raw, name=name, legendgroup=name, showlegend=False, opacity=0.3, hoverinfo="skip"
        )
        figure.add_scatter(
            **{**raw, "mode": "lines+markers" if len(steps) < 60 else "lines"},
            name=name,
            legendgroup=name,
            showlegend=len(lines) > 1,
            line_width=2,
            hovertemplate="step %{x}: %{y:.6g}",
        )
    for step in starts:
        figure.add_vline(x=step, line={"color": "#888", "width": 1, "dash": "dot"})
    return _laid_out(figure, x="step")


def confusion(matrix: np.ndarray, names: Sequence[str]) -> Any:
    go = _graph_objects()
    shares = matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True))
    figure = go.Figure(
        go.Heatmap(
            z=shares.tolist(),
            x=list(names),
            y=list(names),
            text=matrix.tolist(),
            colorscale=[[0, "rgba(76,120,216,0.04)"], [1, "rgba(76,120,216,0.9)"]],
            zmin=0,
            zmax=1,
            showscale=False,
            hovertemplate="%{y} taken for %{x}: %{text}<extra></extra>",
        )
    )
    if len(names) <= _MOST_WITH_NUMBERS:
        for row, column in np.ndindex(*matrix.shape):
            colour = "#fff" if shares[row, column] > 0.5 else "#888"
            count, font = str(matrix[row, column]), {"color": colour}
            figure.add_annotation(x=column, y=row, text=count, showarrow=False, font=font)
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    figure.update_xaxes(type="category", showgrid=False)
    return _laid_out(figure, x="the model says", y="it is", height=380)


def lines(
    drawn: Sequence[Points], x: str, y: str, *, diagonal: str | None = None, markers: bool = False
) -> Any:
    """Curves between 0 and 1. `diagonal`: what the line from corner to corner stands for."""
    go = _graph_objects()
    figure = go.Figure()
    if diagonal is not None:
        dashed = {"color": "#888", "width": 1, "dash": "dot"}
        figure.add_scatter(
            x=[0, 1], y=[0, 1], mode="lines", line=dashed, name=diagonal, hoverinfo="skip"
        )
    for number, points in enumerate(drawn):
        area = "" if points.area is None else f" ({points.area:.3f})"
        chosen = _spread(len(points.x))
        figure.add_scatter(
            x=points.x[chosen].tolist(),
            y=points.y[chosen].tolist(),
            mode="lines+markers" if markers else "lines",
            line={"color": COLOURS[number % len(COLOURS)], "width": 2},
            name=points.name + area,
            showlegend=True,  # also of one line alone: it tells the area
        )
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_yaxes(range=[-0.02, 1.02])
    return _laid_out(figure, x=x, y=y, height=380)


def probabilities(judged: classification.Judged) -> Any:
    """How sure a classifier is where it is right, and where it is wrong."""
    go = _graph_objects()
    assert judged.probabilities is not None
    sure, right = judged.probabilities.max(axis=1), judged.truth == judged.answer
    figure = go.Figure()
    for name, chosen, colour in (("right", right, COLOURS[2]), ("wrong", ~right, COLOURS[1])):
        counts, edges = np.histogram(sure[chosen], bins=20, range=(0, 1))
        middles = (edges[:-1] + edges[1:]) / 2
        figure.add_bar(x=middles.tolist(), y=counts.tolist(), name=name, marker_color=colour)
    figure.update_layout(barmode="stack", bargap=0.05)
    return _laid_out(figure, x="probability of the answer", y="rows", height=380)


def residuals(judged: regression.Judged) -> tuple[Any, Any]:
    """What was said against what is true; and how the errors are spread."""
    go = _graph_objects()
    chosen = _spread(len(judged.truth))
    low = float(min(judged.truth.min(), judged.answer.min()))
    high = float(max(judged.truth.max(), judged.answer.max()))
    against = go.Figure()
    against.add_scatter(
        x=[low, high], y=[low, high], mode="lines", line={"color": "#888", "dash": "dot"},
        hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    against.add_scatter(
        x=judged.truth[chosen].tolist(), y=judged.answer[chosen].tolist(), mode="markers",
        marker={"color": COLOURS[0], "size": 4, "opacity": 0.5}, showlegend=False,
    )  # fmt: skip
    counts, edges = np.histogram(judged.residuals, bins=40)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    spread = go.Figure(go.Bar(x=middles, y=counts.tolist(), marker_color=COLOURS[0]))
    return (
        _laid_out(against, x="true value", y="predicted", height=380),
        _laid_out(spread, x="predicted minus true", y="rows", height=380),
    )


def importances(ranking: Sequence[Importance], what: str) -> Any:
    go = _graph_objects()
    shown = list(reversed(ranking[:20]))
    figure = go.Figure(
        go.Bar(
            x=[column.loss for column in shown],
            y=[column.column or "input" for column in shown],
            orientation="h",
            marker_color=COLOURS[0],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [column.most - column.loss for column in shown],
                "arrayminus": [column.loss - column.least for column in shown],
                "color": "#888",
            },
        )
    )
    figure.update_yaxes(type="category")
    return _laid_out(figure, x=what, height=max(220, 60 + 28 * len(shown)))


def weights(largest: Sequence[Weight]) -> Any:
    """What a linear model adds for each value, the largest at the top."""
    go = _graph_objects()
    shown = list(reversed(largest))
    labels = [f"{weight.column} {weight.value}".strip() for weight in shown]
    colours = [COLOURS[0] if weight.weight >= 0 else COLOURS[1] for weight in shown]
    figure = go.Figure(
        go.Bar(
            x=[weight.weight for weight in shown], y=labels, orientation="h", marker_color=colours
        )
    )
    figure.update_yaxes(type="category")
    return _laid_out(figure, x="weight", height=max(220, 60 + 22 * len(shown)))


def time_spent(runs: Mapping[str, Mapping[str, float]], kinds: Sequence[str]) -> Any:
    """Seconds by kind, one bar for each run."""
    go = _graph_objects()
    unit, size = _unit(max(sum(seconds.values()) for seconds in runs.values()))
    names = list(runs)[::-1]  # the first one at the top
    figure = go.Figure()
    for kind, colour in zip(kinds, COLOURS, strict=False):
        seconds = [runs[name].get(kind, 0.0) for name in names]
        shares = [
            s / (sum(runs[name].values()) or 1) for s, name in zip(seconds, names, strict=True)
        ]
        figure.add_bar(
            x=[s / size for s in seconds],
            y=names,
            customdata=shares,
            name=kind,
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            showlegend=True,
            hovertemplate="%{y}, "
            + kind
            + ": %{x:.4g} "
            + unit
            + " (%{customdata:.1%})<extra></extra>",
        )
    figure.update_yaxes(type="category")
    _laid_out(figure, x=unit, height=130 + 44 * len(names))
    above = {"orientation": "h", "y": 1, "yanchor": "bottom", "traceorder": "normal"}
    return figure.update_layout(barmode="stack", margin_t=40, legend=above)


def _unit(seconds: float) -> tuple[str, float]:
    """In what to measure so long."""
    if seconds < 600:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 7200 else ("hours", 3600.0)


def as_html(figure: Any) -> str:
    """The figure as a piece of a page that has plotly's script already."""
    return figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        config={"displayModeBar": False, "responsive": True},
    )


def script() -> str:
    """The script that draws them, to be put into a page."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _graph_objects() -> Any:
    from plotly import graph_objects

    return graph_objects


def _laid_out(figure: Any, *, x: str, y: str | None = None, height: int = 300) -> Any:
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#888", "family": "system-ui, sans-serif"},
        legend={"orientation": "h", "y": 1.12},
        hovermode="closest",
    )
    style = {"gridcolor": _GREY, "zerolinecolor": _GREY, "linecolor": _GREY}
    figure.update_xaxes(title_text=x, **style)
    figure.update_yaxes(title_text=y, **style)
    return figure


def _spread(count: int) -> np.ndarray:
    """Which of so many points to draw: no picture shows more, and a page would grow by them."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int))


def _thinned(curve: Curve) -> tuple[list[int], list[float]]:
    chosen = _spread(len(curve.steps))
    return [curve.steps[i] for i in chosen], [curve.values[i] for i in chosen]
