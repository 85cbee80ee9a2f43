"""The sentences of README.md that hold numbers: every number and every list of sizes is looked up in the results."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from lbnn.train.problem import IDEAL_NLL

WIDE = 128  # hidden units up to which the paper finds embedded variance better


def ahead(table: Any, activation: str, head: str, other: str, score: str = "inside") -> list[int]:
    """The sizes where the median of `head` is below that of `other`."""
    ours, theirs = table.medians(activation, head, score), table.medians(activation, other, score)
    return [size for size in table.sizes if ours[size] < theirs[size]]


def listed(sizes: list[int], table: Any) -> str:
    """`2, 4 and 8 units`, `16 units and more`, `every size` or `no size`."""
    if len(sizes) in (0, len(table.sizes)):
        return "every size" if sizes else "no size"
    if len(sizes) > 1 and sizes == list(table.sizes[-len(sizes) :]):
        return f"{sizes[0]} units and more"
    head = ", ".join(map(str, sizes[:-1]))
    return f"{head} and {sizes[-1]} units" if head else f"{sizes[0]} units"


def span(values: Iterable[float], digits: int = 2) -> str:
    """`-0.79 to -0.74`."""
    every = list(values)
    low, high = f"{min(every):.{digits}f}", f"{max(every):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def narrow_twice(table: Any, activation: str, head: str, smallest: int = 8) -> str:
    """How many networks are at both points where the noise vanishes less than half as wide as between them."""
    runs = [
        run.scores for run in table.runs if (run.activation, run.head) == (activation, head) and run.hidden >= smallest
    ]
    both = sum(2 * max(run["std_left"], run["std_right"]) < run["std_middle"] for run in runs)
    return f"{both} of {len(runs)}"


def bullets(*texts: str) -> str:
    """A list, wrapped as the rest of the page."""
    return "\n".join(
        textwrap.fill(" ".join(text.split()), 118, initial_indent="- ", subsequent_indent="  ") for text in texts
    )


def medians(table: Any, activation: str, head: str, score: str, smallest: int = 0) -> list[float]:
    """The medians of the sizes from `smallest` on."""
    return [value for size, value in table.medians(activation, head, score).items() if size >= smallest]


def short(table: Any) -> str:
    """The results in a few sentences."""
    reported = [run.scores["reported64"] for run in table.runs]
    claimed, true = (table.medians("clamped", "embedded", score) for score in ("inside", "inside_exact"))
    worst = max(true, key=lambda size: true[size])
    return bullets(
        f"""With exact moments embedded variance is better than learned variance (σa² + σe²) at
        {listed(ahead(table, "exact", "embedded", "learned"), table)}, and better than σa² alone at
        {listed(ahead(table, "exact", "embedded", "learned_a"), table)}. From 8 units on it stays at
        {span(medians(table, "exact", "embedded", "inside", 8))}, while learned variance goes on to
        {min(medians(table, "exact", "learned", "inside")):.2f} (ideal {IDEAL_NLL:.2f}).""",
        f"""The clamped activation flatters the networks trained with it: at {worst} units the embedded ones report
        {claimed[worst]:.2f}, and their true distribution scores {true[worst]:+.1f}.""",
        f""""Lowest loss on 64 fresh points" would report {span(reported)} for these networks, and less than the ideal
        for {sum(value < IDEAL_NLL for value in reported)} of {len(reported)}: it measures luck.""",
    )


def compared_with_the_paper(table: Any) -> str:
    """Agreement and disagreement, and the reasons."""
    parts = (_small_networks, _plateau, _outside, _clamp, _selection, _seeds)
    return bullets(*(part(table) for part in parts))


def _small_networks(table: Any) -> str:
    return f"""**Embedded variance improves lightweight networks, in the paper up to about {WIDE} units: in part, and it
    depends on what the learned-variance network's variance is.** Against σa² + σe², as the paper's text has it,
    embedded variance is ahead at {listed(ahead(table, "exact", "embedded", "learned"), table)} (exact) or
    {listed(ahead(table, "clamped", "embedded", "learned"), table)} (clamped). Against σa² alone it is ahead at
    {listed(ahead(table, "exact", "embedded", "learned_a"), table)} (exact) or
    {listed(ahead(table, "clamped", "embedded", "learned_a"), table)} (clamped). The last of these comes closest to what
    the paper reports."""


def _plateau(table: Any) -> str:
    return f"""**More units do not help embedded variance**: {span(medians(table, "exact", "embedded", "inside", 8), 3)}
    from 8 units to {table.sizes[-1]}, exact. The noise vanishes at x = -1/6 and at x = 1/6 and is 0.1 between; the
    embedded networks become narrow at one of the two points (see the first figure) and at both in
    {narrow_twice(table, "exact", "embedded")} runs. Learned variance does it in
    {narrow_twice(table, "exact", "learned")} runs and comes down to
    {min(medians(table, "exact", "learned", "inside")):.3f}; with the clamp, whose spurious variance is one more shape
    to use, the embedded networks do it in {narrow_twice(table, "clamped", "embedded")}."""


def _outside(table: Any) -> str:
    return f"""**Embedded variance is the more careful one outside the training range: against σa² + σe² at
    {listed(ahead(table, "exact", "embedded", "learned", "outside"), table)}, against σa² alone at
    {listed(ahead(table, "exact", "embedded", "learned_a", "outside"), table)}** (exact moments; medians from 8 units
    on: embedded {span(medians(table, "exact", "embedded", "outside", 8))}, σa² + σe²
    {span(medians(table, "exact", "learned", "outside", 8))}, σa² alone
    {span(medians(table, "exact", "learned_a", "outside", 8))}). With the clamp, as in the paper, it is lower than
    σa² + σe² at {listed(ahead(table, "clamped", "embedded", "learned", "outside"), table)} and lower than σa² alone at
    {listed(ahead(table, "clamped", "embedded", "learned_a", "outside"), table)}. None of
    them knows that it is outside: the KL has no weight after the first epochs, so nothing
    asks for doubt where there are no data. What they say there is the continuation of what fits
    inside, and the noise happens to grow towards the edges."""


def _clamp(table: Any) -> str:
    claimed, true = (medians(table, "clamped", "embedded", score, 32) for score in ("inside", "inside_exact"))
    unhurt = (medians(table, "clamped", "learned_a", score) for score in ("inside_exact", "inside"))
    return f"""**The clamp is not innocent.** It gives a unit far from its kink too much variance, and training makes
    use of that variance: embedded networks of 32 units and more claim {span(claimed)}, better than exact ones
    ({span(medians(table, "exact", "embedded", "inside", 32))}), and score {span(true, 1)} by the moments they really
    have. Learned variance with σe² is hit in some seeds and not in others. σa² alone is not: its loss hardly sees the
    hidden layer's variance ({" against ".join(map(span, unhurt))} over the sizes)."""


def _selection(table: Any) -> str:
    excess = [run.scores["true64"] - run.scores["inside"] for run in table.runs]
    flattery = [run.scores["true64"] - run.scores["reported64"] for run in table.runs]
    return f"""**Choosing by the lowest loss on 64 fresh points reports mostly luck.** The dotted lines in the figure
    lie below what is possible. The networks chosen so are on average {sum(flattery) / len(flattery):.2f} nats worse
    than reported, and {sum(excess) / len(excess):.2f} worse than those chosen by the expected NLL.
    That is why the tables here use the expected NLL."""


def _seeds(table: Any) -> str:
    spreads = {head: table(4, "exact", head, "inside") for head in ("embedded", "learned")}
    width = max(spread.high - spread.low for spread in spreads.values())
    difference = abs(spreads["embedded"].middle - spreads["learned"].middle)
    return f"""**Small networks need many seeds.** At 4 units the quartiles of one method are up to {width:.3f} apart,
    the two methods {difference:.3f}; one run of each proves nothing there."""


def times(table: Any, wall_seconds: float | None, workers: int | None) -> str:
    """How long training took, where one go of `run.py` trained everything."""
    one_go = f"in {(wall_seconds or 0) / 60:.1f} minutes by {workers} processes on two cores, compiling included"
    text = f"""The {len(table.runs)} networks of the committed results, {table.sizes[0]} to {table.sizes[-1]} units,
    were trained {"in several goes" if wall_seconds is None else one_go}."""
    return textwrap.fill(" ".join(text.split()), 120)
