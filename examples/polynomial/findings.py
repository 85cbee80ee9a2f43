"""The sentences and tables of README.md beside the paper's statements: every number is looked up in the results."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from choices import CHOICES, CHOSEN, PRINTED, TRIED_SIZES
from networks import ACTIVATIONS, HEADS
from results import Results, Run, Table, digits, select
from run import tried_seeds

from lbnn.train.problem import IDEAL_NLL

CONSTANT_NLL = 0.5 * (math.log(2.0 * math.pi * 0.03) + 1.0)
"""Expected NLL of the true mean with the best constant variance: the mean of sigma(x)^2 is 0.1^2 + 0.2^2/2."""


def share(nll: float) -> float:
    """How much of what knowing the noise is worth: 0 for the best constant variance, 1 for the truth."""
    return (CONSTANT_NLL - nll) / (CONSTANT_NLL - IDEAL_NLL)


def ahead(table: Table, activation: str, head: str, other: str, score: str = "inside") -> list[int]:
    """The sizes where the median of `head` is below that of `other`."""
    ours, theirs = table.medians(activation, head, score), table.medians(activation, other, score)
    return [size for size in table.sizes if ours[size] < theirs[size]]


def listed(sizes: Sequence[int], every: Sequence[int]) -> str:
    """`2, 4 and 8 units`, `16 units and more`, `every size` or `no size`."""
    if len(sizes) in (0, len(every)):
        return "every size" if sizes else "no size"
    if len(sizes) > 1 and list(sizes) == list(every[-len(sizes) :]):
        return f"{sizes[0]} units and more"
    head = ", ".join(map(str, sizes[:-1]))
    return f"{head} and {sizes[-1]} units" if head else f"{sizes[0]} units"


def span(values: Iterable[float], decimals: int = 2) -> str:
    """`-0.79 to -0.74`."""
    every = list(values)
    low, high = f"{min(every):.{decimals}f}", f"{max(every):.{decimals}f}"
    return low if low == high else f"{low} to {high}"


def bullets(*texts: str) -> str:
    """A list, wrapped as the rest of the page."""
    return "\n".join(
        textwrap.fill(" ".join(text.split()), 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for text in texts
    )


def medians(table: Table, activation: str, head: str, score: str, smallest: int = 0) -> list[float]:
    """The medians of the sizes from `smallest` on."""
    return [value for size, value in table.medians(activation, head, score).items() if size >= smallest]


def short(table: Table) -> str:
    """The results in a few sentences."""
    reported = [run.scores["reported64"] for run in table.runs]
    claimed, true = (table.medians("clamped", "embedded", score) for score in ("inside", "inside_exact"))
    worst = max(true, key=lambda size: true[size])
    return bullets(
        f"""With exact moments embedded variance is better than learned variance (σa² + σe²) at
        {listed(ahead(table, "exact", "embedded", "learned"), table.sizes)}, and better than σa² alone at
        {listed(ahead(table, "exact", "embedded", "learned_a"), table.sizes)}. From 8 units on its medians are
        {span(medians(table, "exact", "embedded", "inside", 8))}; learned variance reaches
        {min(medians(table, "exact", "learned", "inside")):.2f} (ideal {IDEAL_NLL:.2f}).""",
        f"""The clamped activation flatters the networks trained with it: at {worst} units the embedded ones report
        {claimed[worst]:.2f}, and their true distribution scores {true[worst]:+.1f}.""",
        f""""Lowest loss on 64 fresh points" would report {span(reported)} for these networks, and less than the ideal
        for {sum(value < IDEAL_NLL for value in reported)} of {len(reported)}: it measures luck.""",
    )


def beyond_the_paper(table: Table) -> str:
    """What the experiment shows that the paper does not speak of."""
    return bullets(*(part(table) for part in (_plateau, _unaware, _seeds)))


def narrow_twice(table: Table, activation: str, head: str, smallest: int = 8, largest: int = 1024) -> str:
    """How many networks are at both points where the noise vanishes less than half as wide as between them."""
    sizes = [size for size in table.sizes if smallest <= size <= largest]
    found = [run.scores for size in sizes for run in select(table.runs, size, activation, head)]
    both = sum(2 * max(run["std_-1/6"], run["std_1/6"]) < run["std_0"] for run in found)
    return f"{both} of {len(found)}"


def _plateau(table: Table) -> str:
    return f"""**How far each kind of network gets.** The noise vanishes at x = -1/6 and at x = 1/6 and is 0.1 between.
    From 8 units on the predicted deviation is at both points less than half of what it is between them in
    {narrow_twice(table, "exact", "embedded")} embedded networks and in {narrow_twice(table, "exact", "learned")} with
    learned variance (exact moments); with the clamp, whose spurious variance is one more shape to use, in
    {narrow_twice(table, "clamped", "embedded")} embedded ones. The medians follow:
    {span(medians(table, "exact", "embedded", "inside", 8), 3)} for embedded variance at any size from 8 units on,
    {min(medians(table, "exact", "learned", "inside")):.3f} at best for learned."""


def _unaware(table: Table) -> str:
    widths = [
        table(size, "exact", "embedded", f"std_{sign}1.5").middle for size in table.sizes[1:] for sign in ("-", "")
    ]
    return f"""**None of the networks knows that it is outside.** The KL has no weight after the first epochs, so
    nothing asks for doubt where there are no data: a width there is the continuation of what fits inside, where the
    noise grows towards both edges. It takes the embedded band to a deviation of {span(widths)} at |x| = 1.5 (medians
    of 4 units and more, exact moments; the true one is 0.3)."""


def _seeds(table: Table) -> str:
    spreads = {head: table(4, "exact", head, "inside") for head in ("embedded", "learned")}
    width = max(spread.high - spread.low for spread in spreads.values())
    difference = abs(spreads["embedded"].middle - spreads["learned"].middle)
    return f"""**Small networks need many seeds.** At 4 units the quartiles of one method are up to {width:.3f} apart,
    the two methods {difference:.3f}."""


# --- what the paper leaves open --------------------------------------------------------------------------------


def tried_median(found: Results, label: str, hidden: int, activation: str, head: str, score: str = "inside") -> float:
    """The median with one choice, over the seeds that every choice was tried with."""
    runs = found.runs if label == CHOSEN else found.tried
    form = "mirrored" if label == PRINTED else activation
    chosen = [run for run in select(runs, hidden, form, head, label) if run.seed in tried_seeds(hidden)]
    return float(np.median([run.scores[score] for run in chosen]))


def choices_table(found: Results) -> str:
    """Medians inside, a row for each choice: both sizes, both forms, all heads."""
    columns = [(size, form, head) for size in TRIED_SIZES for form in ACTIVATIONS for head in HEADS]
    short_names = {"embedded": "emb.", "learned": "σa²+σe²", "learned_a": "σa²"}
    names = " | ".join(f"{size} {form}: {short_names[head]}" for size, form, head in columns)
    lines = [f"| choice | {names} |", "|---|" + "--:|" * len(columns)]
    for label in (CHOSEN, *tried_labels(found)):
        cells = [_cell(found, label, *column) for column in columns]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(found: Results, label: str, hidden: int, form: str, head: str) -> str:
    if label == PRINTED and form == "exact":
        return ""
    return digits(tried_median(found, label, hidden, form, head))


def choices_found(found: Results) -> str:
    """How far each choice changes the outcome."""
    return bullets(*(_one_choice(found, label) for label in tried_labels(found)))


def tried_labels(found: Results) -> list[str]:
    """The choices that were tried, in their order."""
    seen = {run.label for run in found.tried}
    return [label for label in (*CHOICES, PRINTED) if label in seen]


def _one_choice(found: Results, label: str) -> str:
    forms = ["clamped"] if label == PRINTED else list(ACTIVATIONS)
    cases = [(size, form) for size in TRIED_SIZES for form in forms]
    shifts = {case + (head,): _shift(found, label, *case, head) for case in cases for head in HEADS}
    size, form, head = max(shifts, key=lambda key: abs(shifts[key]))
    turned = [
        f"{size} units, {form}, against {'σa² + σe²' if head == 'learned' else 'σa² alone'}"
        for size, form in cases
        for head in ("learned", "learned_a")
        if _leads(found, label, size, form, head) != _leads(found, CHOSEN, size, form, head)
    ]
    name = {"embedded": "embedded", "learned": "σa² + σe²", "learned_a": "σa² alone"}[head]
    changes = f"the order changes at {'; '.join(turned)}" if turned else "no order changes"
    return f"""**{label}**: at most {shifts[size, form, head]:+.3f} nats ({name}, {size} units, {form}); {changes}."""


def _shift(found: Results, label: str, hidden: int, form: str, head: str) -> float:
    return tried_median(found, label, hidden, form, head) - tried_median(found, CHOSEN, hidden, form, head)


def _leads(found: Results, label: str, hidden: int, form: str, head: str) -> bool:
    return tried_median(found, label, hidden, form, "embedded") < tried_median(found, label, hidden, form, head)


# --- how long --------------------------------------------------------------------------------------------------


def times(found: Results) -> str:
    """How long training took; wall time only where one go of `run.py` trained everything on free cores."""
    main, tried = found.extra["times"], found.extra.get("tried_times")
    parts = [_time("make paper", found.runs, main)]
    parts += [_time("make paper-choices", found.tried, tried)] if tried else []
    return textwrap.fill(" ".join(parts), 120, break_on_hyphens=False)


def _time(command: str, runs: list[Run], spent: dict[str, float | None]) -> str:
    cpu, wall, workers = spent["cpu_seconds"] or 0.0, spent["wall_seconds"], spent["workers"]
    crowded = wall is None or workers is None or wall * workers > 1.5 * cpu  # other work took the cores
    went = "" if crowded else f" and {wall / 60:.1f} minutes with {workers} processes"
    return (
        f"`{command}` trained {len(runs)} networks in {cpu:.0f} processor seconds{went}, compiling included; "
        f"on two free cores that is {cpu / 120:.0f} minutes."
    )
