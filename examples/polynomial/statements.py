"""What the paper states, by place and in our words, each with a criterion, a verdict and the numbers behind it.

A verdict is computed for three ways to take moments (trained and scored exact; trained and scored with the clamp as
printed; the clamp-trained networks scored by the moments they really have) and two readings of the learned variance.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from findings import IDEAL_NLL, listed, medians, share, span, tried_median
from choices import CHOSEN, TRIED_SIZES
from networks import ACTIVATIONS, HEADS
from results import DRAWN, SHOWN, SIDES, Results, Table, digits

LIGHT = 64  # hidden units up to which a network counts as lightweight: below the paper's crossover at 128
HEAVY = 256
SIMILAR = 0.05  # nats, a tenth of what knowing the noise is worth
SIMILAR_OUTSIDE = 0.25  # nats
ACCURATE, USEFUL = 0.9, 0.5  # share of what knowing the noise is worth
CLOSE = 0.05  # error of the mean inside: half of the noise in the middle of the range
FORMS = {"exact": ("exact", ""), "clamp": ("clamped", ""), "true": ("clamped", "_exact")}
FORM_NAMES = {"exact": "exact", "clamp": "clamp as printed", "true": "clamp-trained, true moments"}
READINGS = {"learned": "σa² + σe²", "learned_a": "σa² alone"}
YES, PART, NO, NONE = "yes", "in part", "**no**", "-"


@dataclass(frozen=True)
class View:
    """The results seen with one way to take moments and one reading of the learned variance."""

    found: Results
    table: Table
    form: str
    head: str

    def median(self, size: int, head: str, score: str) -> float:
        """Over the seeds."""
        activation, suffix = FORMS[self.form]
        return self.table(size, activation, head, score + suffix).middle

    def embedded(self, size: int, score: str = "inside") -> float:
        """Median of the embedded networks."""
        return self.median(size, "embedded", score)

    def learned(self, size: int, score: str = "inside") -> float:
        """Median of the learned-variance networks, in this reading."""
        return self.median(size, self.head, score)

    def ahead(self, sizes: Iterable[int], score: str = "inside") -> list[int]:
        """The sizes where embedded variance has the lower loss."""
        return [size for size in sizes if self.embedded(size, score) < self.learned(size, score)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes."""
        return self.table.sizes

    @property
    def light(self) -> list[int]:
        """The lightweight ones."""
        return [size for size in self.sizes if size <= LIGHT]


@dataclass(frozen=True)
class Statement:
    """A claim with its place, the criterion it is judged by, the judge, and what was measured."""

    place: str
    claim: str
    criterion: str
    judge: Callable[[View], str]
    measured: Callable[[Results], str]


def views(found: Results) -> dict[tuple[str, str], View]:
    """Every way to take moments with every reading."""
    table = Table(found.runs)
    return {(form, head): View(found, table, form, head) for form in FORMS for head in READINGS}


def all_of(flags: Iterable[bool]) -> str:
    """Yes if all, no if none."""
    every = list(flags)
    return YES if all(every) else PART if any(every) else NO


def per_view(found: Results, text: Callable[[View], str]) -> str:
    """`exact: 0.1 against σa² + σe², 0.2 against σa² alone; clamp as printed: ...`."""
    seen = views(found)
    return "; ".join(
        f"{FORM_NAMES[form]}: "
        + ", ".join(f"{text(seen[form, head])} against {name}" for head, name in READINGS.items())
        for form in FORMS
    )


def per_form(found: Results, text: Callable[[View], str]) -> str:
    """The same where the reading does not matter."""
    return "; ".join(f"{FORM_NAMES[form]}: {text(views(found)[form, 'learned'])}" for form in FORMS)


def per_learned(found: Results, text: Callable[[View], str]) -> str:
    """The same for the learned-variance networks themselves."""
    seen = views(found)
    return "; ".join(
        f"{FORM_NAMES[form]}: " + ", ".join(f"{text(seen[form, head])} with {name}" for head, name in READINGS.items())
        for form in FORMS
    )


# --- lightweight networks --------------------------------------------------------------------------------------


def lighter_is_better(view: View) -> str:
    """Embedded ahead at each lightweight size."""
    return all_of(size in view.ahead(view.light) for size in view.light)


def _lighter(found: Results) -> str:
    return f"""Embedded is ahead at these of the sizes up to {LIGHT} units:
    {per_view(found, lambda view: listed(view.ahead(view.light), view.light))}. Why it ends: one output's variance has to
    carry the noise through hidden units that must also carry the mean, and from 8 units on it stays at
    {span(medians(Table(found.runs), "exact", "embedded", "inside", 8), 3)} (exact), while a second output goes down to
    {min(medians(Table(found.runs), "exact", "learned", "inside")):.3f}."""


def cheapest(view: View, size: int) -> int | None:
    """Parameters of the smallest learned-variance network that is at least as good as the embedded one."""
    good = [other for other in view.sizes if view.learned(other) <= view.embedded(size)]
    return HEADS["learned"].parameters(good[0]) if good else None


def costs_parameters(view: View) -> str:
    """Learned variance needs more parameters for the same loss, at each lightweight size."""
    needed = [(cheapest(view, size), HEADS["embedded"].parameters(size)) for size in view.light]
    return all_of(other is None or other > own for other, own in needed)


def _costs(found: Results) -> str:
    def text(view: View) -> str:
        needed = [cheapest(view, size) for size in (4, LIGHT)]
        return " and ".join("more than any tried" if count is None else str(count) for count in needed)

    own = [HEADS["embedded"].parameters(size) for size in (4, LIGHT)]
    return f"""Parameters that learned variance needs to reach the loss of embedded networks with {own[0]} (4 units) and
    {own[1]} ({LIGHT} units): {per_view(found, text)}. Where the second number is below {own[1]}, the second output pays
    for itself."""


# --- four units ------------------------------------------------------------------------------------------------


def small_embedded_is_accurate(view: View) -> str:
    """Mean and noise of the data, at 4 units."""
    got = share(view.embedded(4))
    if view.embedded(4, "mean_error") > CLOSE or got < USEFUL:
        return NO
    return YES if got >= ACCURATE else PART


def _small_embedded(found: Results) -> str:
    def text(view: View) -> str:
        return f"{_percent(share(view.embedded(4)))}, mean off by {view.embedded(4, 'mean_error'):.3f} rms"

    widths = ", ".join(
        f"{Table(found.runs)(4, 'exact', 'embedded', f'std_{x}').middle:.2f}" for x in ("-0.5", "-1/6", "0", "1/6", "0.5")
    )
    return f"""Share of what knowing the noise is worth (0 for the best constant variance, 100 % for the truth):
    {per_form(found, text)}. The exact band has deviations {widths} at x = -1/2, -1/6, 0, 1/6, 1/2, where the truth has
    0.3, 0, 0.1, 0, 0.3: wide edges and a narrow middle, without the two zeros and the rise between them."""


def small_embedded_is_careful(view: View) -> str:
    """Outside at 4 units: wider than at the edge, and errors no larger than claimed, side by side."""
    return all_of(_careful(view, side) for side in SIDES)


def _careful(view: View, side: str) -> bool:
    sign = "-" if side == "left" else ""
    grows = view.embedded(4, f"std_{sign}1.5") > 2 * view.embedded(4, f"std_{sign}0.5")
    return grows and view.embedded(4, f"z_{side}") <= 1.0


def _small_outside(found: Results) -> str:
    def text(view: View) -> str:
        widths = [f"{view.embedded(4, f'std_{x}'):.2f}" for x in ("-1.5", "-0.5", "0.5", "1.5")]
        z = [digits(view.embedded(4, f"z_{side}")) for side in SIDES]
        return f"deviations {', '.join(widths)} and errors of {z[0]} and {z[1]} deviations"

    return f"""Predicted deviation at x = -1.5, -0.5, 0.5, 1.5, and rms error in predicted deviations on the left and on
    the right: {per_form(found, text)}."""


def small_learned_fails_inside(view: View) -> str:
    """Learned variance at 4 units recovers less than half, or at least less than embedded."""
    got = share(view.learned(4))
    return YES if got < USEFUL else PART if got < share(view.embedded(4)) else NO


def _small_learned(found: Results) -> str:
    embedded = per_form(found, lambda view: _percent(share(view.embedded(4))))
    return f"""The same share for learned variance: {per_learned(found, lambda view: _percent(share(view.learned(4))))}.
    Embedded: {embedded}."""


def small_learned_is_overconfident(view: View) -> str:
    """Errors outside more than twice as large as claimed, side by side."""
    return all_of(view.learned(4, f"z_{side}") > 2.0 for side in SIDES)


def _small_learned_outside(found: Results) -> str:
    def text(view: View) -> str:
        return " and ".join(digits(view.learned(4, f"z_{side}")) for side in SIDES)

    return f"""Rms error in predicted deviations, left and right: {per_learned(found, text)}."""


# --- 128 units and more ----------------------------------------------------------------------------------------


def similar_at_128(view: View) -> str:
    """Inside, at 128 units."""
    return YES if abs(view.embedded(128) - view.learned(128)) <= SIMILAR else NO


def _at_128(found: Results) -> str:
    text = per_view(found, lambda view: f"{view.embedded(128):.3f} {_versus(view.learned(128))}")
    return f"""Loss inside, embedded {text}."""


def outside_at_128(view: View) -> str:
    """Lower loss outside at 128 units, side by side."""
    return all_of(view.embedded(128, side) < view.learned(128, side) for side in SIDES)


def _outside_at(found: Results, size: int) -> str:
    def text(view: View) -> str:
        return "left {} {}, right {} {}".format(
            *(
                part
                for side in SIDES
                for part in (digits(view.embedded(size, side)), _versus(view.learned(size, side)))
            )
        )

    return f"""Loss outside, embedded: {per_view(found, text)}."""


def similar_at_1024(view: View) -> str:
    """Inside and on each side, at 1024 units."""
    outside = [abs(view.embedded(1024, side) - view.learned(1024, side)) <= SIMILAR_OUTSIDE for side in SIDES]
    return all_of([abs(view.embedded(1024) - view.learned(1024)) <= SIMILAR, *outside])


def _at_1024(found: Results) -> str:
    text = per_view(found, lambda view: f"{view.embedded(1024):.3f} {_versus(view.learned(1024))}")
    return f"""Loss inside, embedded {text}. {_outside_at(found, 1024)}"""


def crossover(view: View) -> int | None:
    """The size from which on learned variance is ahead for good."""
    ours = view.ahead(view.sizes)
    beyond = [size for size in view.sizes if not ours or size > ours[-1]]
    return beyond[0] if beyond else None


def crosses_at_128(view: View) -> str:
    """The lines cross between 64 and 256 units, or somewhere."""
    at = crossover(view)
    return NO if at is None else YES if LIGHT < at <= HEAVY else PART


def _crossing(found: Results) -> str:
    def text(view: View) -> str:
        at = crossover(view)
        return "never" if at is None else f"from {at} units on"

    return f"""Learned variance is ahead for good: {per_view(found, text)}."""


def heavy_are_similar(view: View) -> str:
    """From 256 units on: close together, and learned variance ahead at some size."""
    heavy = [size for size in view.sizes if size >= HEAVY]
    close = all(abs(view.embedded(size) - view.learned(size)) <= SIMILAR for size in heavy)
    return all_of([close, len(view.ahead(heavy)) < len(heavy)])


def _heavy(found: Results) -> str:
    def text(view: View) -> str:
        gaps = [view.embedded(size) - view.learned(size) for size in view.sizes if size >= HEAVY]
        return span(gaps, 3)

    return f"""Loss of embedded less that of learned variance inside, {HEAVY} units and more (above zero: learned is
    ahead): {per_view(found, text)}."""


def counts_are_right(view: View) -> str:
    """1028 against 770 at 128 units."""
    counts = [HEADS[head].parameters(128) for head in ("embedded", view.head)]
    return all_of([counts == [770, 1028], round(100 * (counts[1] / counts[0] - 1)) in (33, 34)])


def _counts(found: Results) -> str:
    ours, theirs = (HEADS[head].parameters(128) for head in ("embedded", "learned"))
    return f"""{theirs} against {ours}, {100 * (theirs / ours - 1):.1f} % more; a mean and a ρ for each weight and bias."""


def rises_gradually(view: View) -> str:
    """The loss grows less with the distance, at each size shown and on each side."""
    pairs = [(size, f"rise_{side}") for size in SHOWN for side in SIDES]
    return all_of(view.embedded(*pair) < view.learned(*pair) for pair in pairs)


def _rises(found: Results) -> str:
    def text(view: View) -> str:
        pairs = [(size, f"rise_{side}") for size in SHOWN for side in SIDES]
        less = sum(view.embedded(*pair) < view.learned(*pair) for pair in pairs)
        return f"{less} of {len(pairs)}"

    def rises(head: str) -> str:
        table = Table(found.runs)
        return span((table(size, "exact", head, f"rise_{side}").middle for size in SHOWN for side in SIDES), 2)

    return f"""Rise of the loss from 0.5 < |x| < 1 to 1 < |x| < 1.5; smaller for embedded in {per_view(found, text)}
    (three sizes, two sides). With exact moments the rises are {rises("embedded")} nats for embedded,
    {rises("learned")} for σa² + σe², {rises("learned_a")} for σa² alone."""


# --- the method ------------------------------------------------------------------------------------------------


def clamp_is_numerical(view: View) -> str:
    """The clamp-trained networks score the same with exact moments."""
    if view.form == "exact":
        return NONE
    gaps = [abs(_clamp_gap(view.table, size, head)) for size in view.sizes for head in ("embedded", view.head)]
    return all_of(gap <= SIMILAR for gap in gaps)


def _clamp_gap(table: Table, size: int, head: str) -> float:
    return table(size, "clamped", head, "inside_exact").middle - table(size, "clamped", head, "inside").middle


def _clamp(found: Results) -> str:
    table = Table(found.runs)
    gaps = {head: span((_clamp_gap(table, size, head) for size in table.sizes), 3) for head in HEADS}
    return f"""Loss with exact moments less the reported one, medians over the sizes: embedded {gaps["embedded"]},
    σa² + σe² {gaps["learned"]}, σa² alone {gaps["learned_a"]} nats. Beyond the clamp a unit far from its kink gets a
    variance it does not have, up to 592 times too large, and training makes use of it; σa² alone does not see it."""


def one_pass_is_enough(view: View) -> str:
    """The variance of one pass is that of sampled networks, within three times the noise of the samples."""
    wanted = "clamped" if view.form == "clamp" else "exact"
    rows = [row for row in view.found.extra["montecarlo"] if row["activation"] == wanted]
    return all_of(row["error"] <= 3 * row["noise"] for row in rows)


def _one_pass(found: Results) -> str:
    def text(form: str) -> str:
        rows = [row for row in found.extra["montecarlo"] if row["activation"] == form]
        noise = span((100 * row["noise"] for row in rows), 1)
        return f"{span((100 * row['error'] for row in rows), 1)} % (noise of the samples {noise} %)"

    worst = max(row["largest_ratio"] for row in found.extra["montecarlo"] if row["activation"] == "clamped")
    return f"""Rms error of the one-pass variance against {DRAWN:,} sampled networks inside, for the networks of figure
    2: exact {text("exact")}, clamp {text("clamped")}, where it is up to {worst:.0f} times too large. With one hidden
    layer and a known input nothing is approximate but the clamp; docs/mathematics.md measures deeper networks."""


def kl_regularises(view: View) -> str:
    """Leaving out the KL changes a loss by more than what counts as similar."""
    shifts = [abs(_without_kl(view.found, size, form, head)) for size, form, head in _kl_cases(view)]
    return all_of(shift > SIMILAR for shift in shifts)


def _kl_cases(view: View) -> list[tuple[int, str, str]]:
    return [(size, FORMS[view.form][0], head) for size in TRIED_SIZES for head in ("embedded", view.head)]


def _without_kl(found: Results, size: int, form: str, head: str) -> float:
    return tried_median(found, "no KL", size, form, head) - tried_median(found, CHOSEN, size, form, head)


def _kl(found: Results) -> str:
    shifts = [_without_kl(found, size, form, head) for size in TRIED_SIZES for form in ACTIVATIONS for head in HEADS]
    return f"""Without any KL the median losses at {" and ".join(map(str, TRIED_SIZES))} units change by {span(shifts, 3)}
    nats. The weights halve with every epoch: after epoch 20 of 10000 the KL that remains counts less than 1e-6 of one
    KL, so neither one sample nor many regularise the networks that are reported."""


def reports_its_loss(view: View) -> str:
    """The lowest loss on 64 fresh points is the network's loss, at each size."""
    activation = FORMS[view.form][0]
    heads = ("embedded", view.head)
    gaps = [_luck(view.table, size, activation, head) for size in view.sizes for head in heads]
    return all_of(abs(gap) <= SIMILAR for gap in gaps)


def _luck(table: Table, size: int, activation: str, head: str) -> float:
    return table(size, activation, head, "true64").middle - table(size, activation, head, "reported64").middle


def _selection(found: Results) -> str:
    table = Table(found.runs)
    gaps = [_luck(table, size, form, head) for size in table.sizes for form in ACTIVATIONS for head in HEADS]
    below = sum(run.scores["reported64"] < IDEAL_NLL for run in found.runs)
    excess = [run.scores["true64"] - run.scores["inside"] for run in found.runs]
    return f"""With 64 points, as many as a batch, the reported loss is {span(gaps)} nats below that of the network so
    chosen (medians), and below the ideal in {below} of {len(found.runs)} runs. The network chosen is on average
    {sum(excess) / len(excess):.3f} nats worse than the one with the lowest expected loss. The tables here use the
    expected loss for both."""


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _versus(value: float) -> str:
    return f"to {digits(value)}"


STATEMENTS = (
    Statement(
        "abstract, sections 1 and 4.1.2",
        "embedding both kinds of variance in the parameters makes lightweight networks better",
        f"lower loss inside than learned variance at each size up to {LIGHT} units",
        lighter_is_better,
        _lighter,
    ),
    Statement(
        "section 2.3.1, conclusion",
        "a second output costs performance, which only more parameters make up for",
        f"for the loss of each embedded network up to {LIGHT} units learned variance needs more parameters",
        costs_parameters,
        _costs,
    ),
    Statement(
        "section 4.1.2, figure 2(a)",
        "with 4 units the embedded network gets trend and noise right inside",
        f"mean within {CLOSE} rms; at least {ACCURATE:.0%} (in part: {USEFUL:.0%}) of what knowing the noise is worth",
        small_embedded_is_accurate,
        _small_embedded,
    ),
    Statement(
        "section 4.1.2, figure 2(a)",
        "with 4 units the embedded network is very unsure outside",
        "on each side: twice as wide at |x| = 1.5 as at 0.5, and errors within the claimed deviation (rms)",
        small_embedded_is_careful,
        _small_outside,
    ),
    Statement(
        "section 4.1.2, figure 2(b)",
        "with 4 units learned variance fails to find the noise inside",
        f"less than {USEFUL:.0%} of what knowing the noise is worth (in part: less than embedded)",
        small_learned_fails_inside,
        _small_learned,
    ),
    Statement(
        "section 4.1.2, figure 2(b)",
        "with 4 units learned variance is far too sure outside",
        "on each side: errors more than twice the claimed deviation (rms)",
        small_learned_is_overconfident,
        _small_learned_outside,
    ),
    Statement(
        "section 4.1.2, figure 2(a, b)",
        "with 128 units both look alike",
        f"losses inside within {SIMILAR} nats",
        similar_at_128,
        _at_128,
    ),
    Statement(
        "section 4.1.2, figure 2(c)",
        "with 128 units embedded variance generalises better outside",
        "lower loss on each side",
        outside_at_128,
        lambda found: _outside_at(found, 128),
    ),
    Statement(
        "section 4.1.2",
        "with 1024 units both perform alike",
        f"losses within {SIMILAR} nats inside and {SIMILAR_OUTSIDE} on each side",
        similar_at_1024,
        _at_1024,
    ),
    Statement(
        "section 4.1.2, figure 1(b)",
        "the lines cross near 128 units",
        f"learned variance is ahead for good from 128 or {HEAVY} units on (in part: from another size on)",
        crosses_at_128,
        _crossing,
    ),
    Statement(
        "section 4.1.2, figure 1(b)",
        "heavier networks perform alike, learned variance sometimes better inside",
        f"from {HEAVY} units on within {SIMILAR} nats, and learned variance ahead at some size",
        heavy_are_similar,
        _heavy,
    ),
    Statement(
        "section 4.1.2, figure 1(a)",
        "at 128 units learned variance has about 34 % more parameters, 1028 against 770",
        "the counts of our networks",
        counts_are_right,
        _counts,
    ),
    Statement(
        "section 4.1.2, figure 2(c)",
        "outside, the loss of embedded networks rises more gently",
        "smaller rise at 4, 128 and 1024 units on each side",
        rises_gradually,
        _rises,
    ),
    Statement(
        "section 3.2.4",
        "the clamp at 3 is there to avoid numerical trouble",
        f"the losses of clamp-trained networks with exact moments are within {SIMILAR} nats of the reported ones",
        clamp_is_numerical,
        _clamp,
    ),
    Statement(
        "abstract, section 3.2, conclusion",
        "inference needs no sampling",
        "the one-pass variance is that of sampled networks, within three times their noise",
        one_pass_is_enough,
        _one_pass,
    ),
    Statement(
        "sections 2.2.1 and 4.1.1",
        "one Monte Carlo sample of the KL is enough to regularise",
        f"leaving the KL out changes the losses at 4 and 64 units by more than {SIMILAR} nats",
        kl_regularises,
        _kl,
    ),
    Statement(
        "section 4.1.1, figure 1(b)",
        "the lowest loss on fresh validation data stands for the network",
        f"with 64 points, within {SIMILAR} nats of the loss of the network so chosen",
        reports_its_loss,
        _selection,
    ),
)


def summary(found: Results) -> str:
    """The statements with their verdicts."""
    seen = views(found)
    names = " | ".join(f"{FORM_NAMES[form]}, {READINGS[head]}" for form, head in seen)
    lines = [f"| | the paper | place | {names} |", "|--:|---|---|" + ":-:|" * len(seen)]
    for number, statement in enumerate(STATEMENTS, 1):
        verdicts = " | ".join(statement.judge(view) for view in seen.values())
        lines.append(f"| {number} | {statement.claim} | {statement.place} | {verdicts} |")
    return "\n".join(lines)


def details(found: Results) -> str:
    """What each is judged by, and what was measured."""
    parts = []
    for number, statement in enumerate(STATEMENTS, 1):
        text = f"**{_capital(statement.claim)}.** Judged by: {statement.criterion}. {statement.measured(found)}"
        lead = f"{number}. "
        wrapped = textwrap.fill(" ".join(text.split()), 118, initial_indent=lead, subsequent_indent=" " * len(lead))
        parts.append(wrapped)
    return "\n".join(parts)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
