"""What the paper states, by place and in our words, each with a criterion, computed verdicts and the numbers behind.

A verdict is given for three ways to take moments (trained and scored exact; trained and scored with the clamp as
printed; the clamp-trained networks scored by the moments they really have) and two readings of the learned variance.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from choices import CHOSEN, TRIED_SIZES
from findings import IDEAL_NLL, listed, medians, narrow_twice, share, span, tried_median
from networks import HEADS
from results import DRAWN, SHOWN, SIDES, Results, Run, Table, digits, select

LIGHT = 64  # hidden units up to which a network counts as lightweight: below the paper's crossover at 128
HEAVY = 256
SIMILAR = 0.05  # nats, a tenth of what knowing the noise is worth
SIMILAR_OUTSIDE = 0.25  # nats
ACCURATE, USEFUL = 0.9, 0.5  # share of what knowing the noise is worth
CLOSE = 0.05  # error of the mean inside: half of the noise in the middle of the range
FORMS = {"exact": ("exact", ""), "clamp": ("clamped", ""), "true": ("clamped", "_exact")}
FORM_NAMES = {"exact": "exact moments", "clamp": "clamp as printed", "true": "clamp-trained, true moments"}
READINGS = {"learned": "σa² + σe²", "learned_a": "σa² alone"}
KINDS = {"embedded": "embedded", **READINGS}
YES, PART, NO, NONE = "yes", "in part", "**no**", "-"


@dataclass(frozen=True)
class View:
    """The results seen with one way to take moments and one reading of the learned variance."""

    found: Results
    table: Table
    form: str
    head: str

    @property
    def activation(self) -> str:
        """What the networks were trained with."""
        return FORMS[self.form][0]

    def score(self, run: Run, name: str) -> float:
        """One network's."""
        return run.scores[name + FORMS[self.form][1]]

    def median(self, size: int, head: str, score: str) -> float:
        """Over the seeds."""
        return self.table(size, self.activation, head, score + FORMS[self.form][1]).middle

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
    """A claim with its place, the criterion it is judged by, the judge, and what was measured.

    `shows` says what a cell of its table holds beside the verdict; `why` explains the outcome with numbers.
    """

    place: str
    claim: str
    criterion: str
    judge: Callable[[View], str]
    shows: str
    cell: Callable[[View], str]
    why: Callable[[View], str]
    readings: bool = True  # whether the reading of the learned variance matters


def all_of(flags: Iterable[bool]) -> str:
    """Yes if all, no if none."""
    every = list(flags)
    return YES if all(every) else PART if any(every) else NO


def both(view: View, head: str, size: int, score: str, decimals: int = 2) -> str:
    """Left and right."""
    return ", ".join(f"{view.median(size, head, f'{score}{side}'):.{decimals}f}" for side in SIDES)


def percent(value: float) -> str:
    """`64 %`."""
    return f"{100 * value:.0f} %"


# --- lightweight networks --------------------------------------------------------------------------------------


def lighter_is_better(view: View) -> str:
    """Embedded ahead at each lightweight size."""
    return all_of(size in view.ahead(view.light) for size in view.light)


def _why_lighter(view: View) -> str:
    return f"""One variance has to follow the noise with the units that also carry the mean: from 8 units on the
    embedded medians are {span(medians(view.table, "exact", "embedded", "inside", 8), 3)} with exact moments, whatever
    the size. With a second output the loss reaches
    {min(medians(view.table, "exact", "learned", "inside")):.3f} (σa² + σe²) and
    {min(medians(view.table, "exact", "learned_a", "inside")):.3f} (σa² alone)."""


def cheapest(view: View, size: int) -> int | None:
    """Parameters of the smallest learned-variance network that is at least as good as the embedded one."""
    good = [other for other in view.sizes if view.learned(other) <= view.embedded(size)]
    return HEADS["learned"].parameters(good[0]) if good else None


def costs_parameters(view: View) -> str:
    """Learned variance needs more parameters for the same loss, at each lightweight size."""
    needed = [(cheapest(view, size), HEADS["embedded"].parameters(size)) for size in view.light]
    return all_of(other is None or other > own for other, own in needed)


def _needed(view: View) -> str:
    counts = [cheapest(view, size) for size in (4, 16, LIGHT)]
    return ", ".join("more than any" if count is None else str(count) for count in counts)


def _why_costs(view: View) -> str:
    own = ", ".join(str(HEADS["embedded"].parameters(size)) for size in (4, 16, LIGHT))
    return f"""The embedded networks have {own}. Where the number is smaller than theirs, the second output pays for
    itself: it removes the floor that the embedded networks meet (statement 1)."""


# --- four units ------------------------------------------------------------------------------------------------


def small_embedded_is_accurate(view: View) -> str:
    """Mean and noise of the data, at 4 units."""
    got = share(view.embedded(4))
    if view.embedded(4, "mean_error") > CLOSE or got < USEFUL:
        return NO
    return YES if got >= ACCURATE else PART


def _accuracy(view: View) -> str:
    return f"{percent(share(view.embedded(4)))}, {view.embedded(4, 'mean_error'):.3f}"


def _why_accurate(view: View) -> str:
    places = ("-0.5", "-1/6", "0", "1/6", "0.5")
    widths = ", ".join(f"{view.table(4, 'exact', 'embedded', f'std_{x}').middle:.2f}" for x in places)
    return f"""With exact moments the median deviations at x = -1/2, -1/6, 0, 1/6, 1/2 are {widths}; the true ones are
    0.30, 0, 0.10, 0, 0.30. Less than half as wide at both zeros as between them are
    {narrow_twice(view.table, "exact", "embedded", 4, 4)} networks. With the clamp a network reports variance that
    sampling its weights does not give (statement 14), hence the last row."""


def small_embedded_is_careful(view: View) -> str:
    """Outside at 4 units: wider than at the edge, and errors no larger than claimed, side by side."""
    return all_of(_careful(view, side) for side in SIDES)


def _careful(view: View, side: str) -> bool:
    sign = "-" if side == "left" else ""
    grows = view.embedded(4, f"std_{sign}1.5") > 2 * view.embedded(4, f"std_{sign}0.5")
    return grows and view.embedded(4, f"z_{side}") <= 1.0


def _widths(view: View) -> str:
    widths = [f"{view.embedded(4, f'std_{x}'):.2f}" for x in ("-1.5", "-0.5", "0.5", "1.5")]
    return f"{', '.join(widths)}; {both(view, 'embedded', 4, 'z_')}"


def _why_careful(view: View) -> str:
    runs = select(view.table.runs, 4, "exact", "embedded")
    safe = sum(all(run.scores[f"z_{side}"] <= 1.0 for side in SIDES) for run in runs)
    return f"""With exact moments {safe} of {len(runs)} networks keep their errors within the claimed deviation on both
    sides. The width comes from fitting the noise, which grows towards both edges, and goes on as it was; nothing in the
    training asks for it (statement 16)."""


def small_learned_fails_inside(view: View) -> str:
    """Learned variance at 4 units recovers less than half, or at least less than embedded."""
    got = share(view.learned(4))
    return YES if got < USEFUL else PART if got < share(view.embedded(4)) else NO


def _shares(view: View) -> str:
    return f"{percent(share(view.learned(4)))} against {percent(share(view.embedded(4)))}"


def _why_learned(view: View) -> str:
    gap = view.table(4, "exact", "learned", "inside").middle - view.table(4, "exact", "embedded", "inside").middle
    spread = view.table(4, "exact", "learned", "inside")
    return f"""With exact moments the loss of learned variance (σa² + σe²) is {gap:+.3f} nats from that of embedded, and
    its own quartiles are {spread.high - spread.low:.3f} apart; one run of each says little."""


def small_learned_is_overconfident(view: View) -> str:
    """Errors outside more than twice as large as claimed, side by side."""
    return all_of(view.learned(4, f"z_{side}") > 2.0 for side in SIDES)


def _why_overconfident(view: View) -> str:
    parts = []
    for head, name in READINGS.items():
        runs = select(view.table.runs, 4, "exact", head)
        wrong = sum(any(run.scores[f"z_{side}"] > 2.0 for side in SIDES) for run in runs)
        parts.append(f"{wrong} of {len(runs)} networks with {name}")
    return f"""With exact moments the error is more than twice the claimed deviation on at least one side in
    {" and ".join(parts)}. σe² grows with |x| whatever the second output says, σa² alone has only that output."""


# --- 128 units and more ----------------------------------------------------------------------------------------


def similar_at_128(view: View) -> str:
    """Inside, at 128 units."""
    return YES if abs(view.embedded(128) - view.learned(128)) <= SIMILAR else NO


def _why_128(view: View) -> str:
    counts = [f"{narrow_twice(view.table, 'exact', head, 128, 128)} {name}" for head, name in KINDS.items()]
    return f"""Networks of 128 units that are less than half as wide at both zeros of the noise as between them, exact
    moments: {", ".join(counts)}."""


def outside_at_128(view: View) -> str:
    """Lower loss outside at 128 units, side by side."""
    return all_of(view.embedded(128, side) < view.learned(128, side) for side in SIDES)


def _outside(size: int) -> Callable[[View], str]:
    return lambda view: f"{both(view, 'embedded', size, '')} against {both(view, view.head, size, '')}"


def _why_outside(view: View) -> str:
    parts = [f"{both(view, head, 128, 'z_')} ({name})" for head, name in KINDS.items()]
    return f"""Rms errors left and right in predicted deviations, exact moments: {"; ".join(parts)}. The best is 1:
    above it a network is too sure, below it wider than it needs to be, and both cost. {_off(view, 128)}"""


def _off(view: View, size: int) -> str:
    parts = [f"{both(view, head, size, 'off_')} ({name})" for head, name in KINDS.items()]
    widths = ", ".join(f"{view.embedded(size, f'std_{sign}1.5'):.2f}" for sign in ("-", ""))
    return f"""The mean is off at x = -1.5 and 1.5 by {"; ".join(parts)}, where the embedded band has deviations of
    {widths}: a kink that the data do not see, beside the training range, bends the line outside of it."""


def similar_at_1024(view: View) -> str:
    """Inside and on each side, at 1024 units."""
    outside = [abs(view.embedded(1024, side) - view.learned(1024, side)) <= SIMILAR_OUTSIDE for side in SIDES]
    return all_of([abs(view.embedded(1024) - view.learned(1024)) <= SIMILAR, *outside])


def _inside(size: int) -> Callable[[View], str]:
    return lambda view: f"{digits(view.embedded(size))} against {digits(view.learned(size))}"


def _why_1024(view: View) -> str:
    last, best = ([view.table(1024, "exact", head, score).middle for head in HEADS] for score in ("last", "inside"))
    waste = ", ".join(f"{a - b:.3f}" for a, b in zip(last, best, strict=True))
    return f"""A step of 0.01 is large for so many weights: the last epoch is {waste} nats worse than the best one
    (embedded, σa² + σe², σa² alone; exact moments, medians). {_off(view, 1024)}"""


def crossover(view: View) -> int | None:
    """The size from which on learned variance is ahead for good."""
    ours = view.ahead(view.sizes)
    beyond = [size for size in view.sizes if not ours or size > ours[-1]]
    return beyond[0] if beyond else None


def crosses_at_128(view: View) -> str:
    """The lines cross between 64 and 256 units, or somewhere."""
    at = crossover(view)
    return NO if at is None else YES if LIGHT < at <= HEAVY else PART


def _crossing(view: View) -> str:
    at = crossover(view)
    return (
        f"{'never' if at is None else f'from {at} units on'}; embedded at {listed(view.ahead(view.sizes), view.sizes)}"
    )


def _why_crossing(view: View) -> str:
    curves = {name: view.table.medians("exact", head, "inside") for head, name in KINDS.items()}
    gains = [f"{curve[8] - curve[128]:.3f} ({name})" for name, curve in curves.items()]
    return f"""Going from 8 to 128 units gains {", ".join(gains)} nats with exact moments."""


def heavy_are_similar(view: View) -> str:
    """From 256 units on: close together, and learned variance ahead at some size."""
    heavy = [size for size in view.sizes if size >= HEAVY]
    close = all(abs(view.embedded(size) - view.learned(size)) <= SIMILAR for size in heavy)
    return all_of([close, len(view.ahead(heavy)) < len(heavy)])


def _gaps(view: View) -> str:
    return span((view.embedded(size) - view.learned(size) for size in view.sizes if size >= HEAVY), 3)


def _why_heavy(view: View) -> str:
    return f"""Above zero learned variance is ahead. What separates the two is the floor of the embedded networks,
    {span(medians(view.table, "exact", "embedded", "inside", HEAVY), 3)} from {HEAVY} units on with exact moments."""


def counts_are_right(view: View) -> str:
    """1028 against 770 at 128 units."""
    return YES if [HEADS[head].parameters(128) for head in ("embedded", view.head)] == [770, 1028] else NO


def _counts(view: View) -> str:
    ours, theirs = (HEADS[head].parameters(128) for head in ("embedded", "learned"))
    return f"{theirs} against {ours}, {100 * (theirs / ours - 1):.1f} % more"


def rise_pairs() -> list[tuple[int, str]]:
    """Where rises are compared."""
    return [(size, f"rise_{side}") for size in SHOWN for side in SIDES]


def rises_gradually(view: View) -> str:
    """The loss grows less with the distance, at each size shown and on each side."""
    return all_of(view.embedded(*pair) < view.learned(*pair) for pair in rise_pairs())


def _rises(view: View) -> str:
    less = sum(view.embedded(*pair) < view.learned(*pair) for pair in rise_pairs())
    ours, theirs = (span(view.median(n, head, rise) for n, rise in rise_pairs()) for head in ("embedded", view.head))
    return f"{less} of {len(rise_pairs())}; {ours} against {theirs}"


def _why_rises(view: View) -> str:
    shown = [" against ".join(both(view, head, size, "rise_") for head in ("embedded", "learned")) for size in SHOWN]
    left, right = (set(view.ahead(view.sizes, side)) for side in SIDES)
    return f"""With exact moments, left and right, embedded against σa² + σe²: {"; ".join(shown)} at
    {listed(SHOWN, view.sizes)}. In the loss itself embedded is lower on both sides at
    {listed(sorted(left & right), view.sizes)}."""


# --- the method ------------------------------------------------------------------------------------------------


def clamp_is_numerical(view: View) -> str:
    """The clamp-trained networks score the same with exact moments."""
    if view.form != "clamp":
        return NONE
    return all_of(
        abs(_clamp_gap(view, size, head)) <= SIMILAR for size in view.sizes for head in ("embedded", view.head)
    )


def _clamp_gap(view: View, size: int, head: str) -> float:
    claimed, true = (view.table(size, "clamped", head, score).middle for score in ("inside", "inside_exact"))
    return true - claimed


def _clamp_gaps(view: View) -> str:
    if view.form != "clamp":
        return ""
    ours, theirs = (span((_clamp_gap(view, size, head) for size in view.sizes), 2) for head in ("embedded", view.head))
    return f"{ours}; {theirs}"


def _why_clamp(view: View) -> str:
    worst = max(row["largest_ratio"] for row in view.found.extra["montecarlo"] if row["activation"] == "clamped")
    return f"""Beyond the clamp a unit far from its kink gets a variance it does not have, and training makes use of it:
    in the networks of figure 2 the variance is up to {worst:.0f} times that of sampled networks. σa² alone does not use
    the variance of its output, so the clamp can't flatter it."""


def one_pass_is_enough(view: View) -> str:
    """The variance of one pass is that of sampled networks, within three times the noise of the samples."""
    return NONE if view.form == "true" else all_of(row["error"] <= 3 * row["noise"] for row in _sampled(view))


def _sampled(view: View) -> list[dict[str, float]]:
    return [row for row in view.found.extra["montecarlo"] if row["activation"] == view.activation]


def _errors(view: View) -> str:
    rows = _sampled(view)
    return f"{span((100 * row['error'] for row in rows), 1)} %; {span((100 * row['noise'] for row in rows), 1)} %"


def _why_one_pass(view: View) -> str:
    return f"""{DRAWN:,} networks were drawn for each of figures 2(a) and 2(b). With one hidden layer and a known input
    nothing is approximate but the clamp; [docs/mathematics.md](../../docs/mathematics.md) measures deeper networks."""


def kl_regularises(view: View) -> str:
    """Leaving out the KL changes a loss by more than what counts as similar."""
    return NONE if view.form == "true" else all_of(abs(shift) > SIMILAR for shift in _without_kl(view))


def _without_kl(view: View) -> list[float]:
    cases = [(size, view.activation, head) for size in TRIED_SIZES for head in ("embedded", view.head)]
    return [tried_median(view.found, "no KL", *case) - tried_median(view.found, CHOSEN, *case) for case in cases]


def _why_kl(view: View) -> str:
    return f"""The weights halve with every epoch: after epoch 20 of 10000 all that follow sum to {2.0**-20:.0e} of one
    KL. Neither one sample nor many regularise the networks that are reported; what stops them is the validation."""


def reports_its_loss(view: View) -> str:
    """The lowest loss on 64 fresh points is the network's loss, at each size."""
    return NONE if view.form == "true" else all_of(abs(gap) <= SIMILAR for gap in _luck(view))


def _luck(view: View) -> list[float]:
    cases = [(size, view.activation, head) for size in view.sizes for head in ("embedded", view.head)]
    return [view.table(*case, "true64").middle - view.table(*case, "reported64").middle for case in cases]


def _why_luck(view: View) -> str:
    runs = view.found.runs
    below = sum(run.scores["reported64"] < IDEAL_NLL for run in runs)
    excess = [run.scores["true64"] - run.scores["inside"] for run in runs]
    return f"""The paper does not say how many points; 64 are as many as a batch. Of 10000 draws the luckiest is taken:
    it is below the ideal {IDEAL_NLL:.4f} in {below} of {len(runs)} runs, and the network so chosen is on average
    {sum(excess) / len(excess):.3f} nats worse than the one with the lowest expected loss, which the tables here use."""


PLACE = "section 4.1.2"
STATEMENTS: Sequence[Statement] = (
    Statement(
        "abstract, sections 1 and 4.1.2",
        "embedding both kinds of variance in the parameters makes lightweight networks better",
        f"lower loss inside than learned variance at each size up to {LIGHT} units",
        lighter_is_better,
        f"sizes up to {LIGHT} units where embedded is ahead",
        lambda view: listed(view.ahead(view.light), view.light),
        _why_lighter,
    ),
    Statement(
        "section 2.3.1, conclusion",
        "a second output costs performance, which only more parameters make up for",
        f"for the loss of each embedded network up to {LIGHT} units learned variance needs more parameters",
        costs_parameters,
        f"parameters that learned variance needs to match embedded networks of 4, 16 and {LIGHT} units",
        _needed,
        _why_costs,
    ),
    Statement(
        f"{PLACE}, figure 2(a)",
        "with 4 units the embedded network gets trend and noise right inside",
        f"mean within {CLOSE} rms; {percent(ACCURATE)} (in part: {percent(USEFUL)}) of what knowing the noise is worth",
        small_embedded_is_accurate,
        "share of what knowing the noise is worth (0 for the best constant variance, 100 % for the truth), rms error of"
        " the mean",
        _accuracy,
        _why_accurate,
        readings=False,
    ),
    Statement(
        f"{PLACE}, figure 2(a)",
        "with 4 units the embedded network is very unsure outside",
        "on each side twice as wide at |x| = 1.5 as at 0.5, and errors within the claimed deviation (rms)",
        small_embedded_is_careful,
        "predicted deviation at x = -1.5, -0.5, 0.5, 1.5; rms error left and right in predicted deviations",
        _widths,
        _why_careful,
        readings=False,
    ),
    Statement(
        f"{PLACE}, figure 2(b)",
        "with 4 units learned variance fails to find the noise inside",
        f"less than {percent(USEFUL)} of what knowing the noise is worth (in part: less than embedded)",
        small_learned_fails_inside,
        "share for learned variance against embedded",
        _shares,
        _why_learned,
    ),
    Statement(
        f"{PLACE}, figure 2(b)",
        "with 4 units learned variance is far too sure outside",
        "on each side errors of more than twice the claimed deviation (rms)",
        small_learned_is_overconfident,
        "rms error left and right in predicted deviations",
        lambda view: both(view, view.head, 4, "z_"),
        _why_overconfident,
    ),
    Statement(
        f"{PLACE}, figure 2(a, b)",
        "with 128 units both look alike",
        f"losses inside within {SIMILAR} nats",
        similar_at_128,
        "loss inside, embedded against learned",
        _inside(128),
        _why_128,
    ),
    Statement(
        f"{PLACE}, figure 2(c)",
        "with 128 units embedded variance generalises better outside",
        "lower loss on each side",
        outside_at_128,
        "loss left and right, embedded against learned",
        _outside(128),
        _why_outside,
    ),
    Statement(
        PLACE,
        "with 1024 units both perform alike",
        f"losses within {SIMILAR} nats inside and {SIMILAR_OUTSIDE} on each side",
        similar_at_1024,
        "loss inside; left and right, embedded against learned",
        lambda view: f"{_inside(1024)(view)}; {_outside(1024)(view)}",
        _why_1024,
    ),
    Statement(
        f"{PLACE}, figure 1(b)",
        "the lines cross near 128 units",
        f"learned variance is ahead for good from 128 or {HEAVY} units on (in part: from another size on)",
        crosses_at_128,
        "learned variance ahead for good; embedded ahead",
        _crossing,
        _why_crossing,
    ),
    Statement(
        f"{PLACE}, figure 1(b)",
        "heavier networks perform alike, learned variance sometimes better inside",
        f"from {HEAVY} units on within {SIMILAR} nats, and learned variance ahead at some size",
        heavy_are_similar,
        "loss of embedded less that of learned variance",
        _gaps,
        _why_heavy,
    ),
    Statement(
        f"{PLACE}, figure 1(a)",
        "at 128 units learned variance has about 34 % more parameters, 1028 against 770",
        "the counts of our networks",
        counts_are_right,
        "parameters",
        _counts,
        lambda view: "A mean and a ρ for each weight and bias.",
        readings=False,
    ),
    Statement(
        f"{PLACE}, figure 2(c)",
        "outside, the loss of embedded networks rises more gently",
        "smaller rise from 0.5 < |x| < 1 to 1 < |x| < 1.5 at 4, 128 and 1024 units on each side",
        rises_gradually,
        "how often it is smaller; rises in nats, embedded against learned",
        _rises,
        _why_rises,
    ),
    Statement(
        "section 3.2.4",
        "the clamp at 3 is there to avoid numerical trouble",
        f"clamp-trained networks score with exact moments within {SIMILAR} nats of what they report",
        clamp_is_numerical,
        "exact less reported loss over the sizes, embedded; learned",
        _clamp_gaps,
        _why_clamp,
    ),
    Statement(
        "abstract, section 3.2, conclusion",
        "inference needs no sampling",
        "the one-pass variance is that of sampled networks, within three times their noise",
        one_pass_is_enough,
        "rms error of the variance; noise of the samples",
        _errors,
        _why_one_pass,
        readings=False,
    ),
    Statement(
        "sections 2.2.1 and 4.1.1",
        "one Monte Carlo sample of the KL is enough to regularise",
        f"leaving the KL out changes the losses at 4 and 64 units by more than {SIMILAR} nats",
        kl_regularises,
        "change of the loss without KL",
        lambda view: span(_without_kl(view), 3),
        _why_kl,
    ),
    Statement(
        "section 4.1.1, figure 1(b)",
        "the lowest loss on fresh validation data stands for the network",
        f"with 64 points within {SIMILAR} nats of the loss of the network so chosen",
        reports_its_loss,
        "by how much the report is too low, over the sizes",
        lambda view: span(_luck(view), 2),
        _why_luck,
    ),
)


def views(found: Results) -> dict[tuple[str, str], View]:
    """Every way to take moments with every reading."""
    table = Table(found.runs)
    return {(form, head): View(found, table, form, head) for form in FORMS for head in READINGS}


def summary(found: Results) -> str:
    """The statements with their verdicts."""
    seen = views(found)
    names = " | ".join(f"{FORM_NAMES[form]}, {READINGS[head]}" for form, head in seen)
    lines = [f"| | the paper | {names} |", "|--:|---|" + ":-:|" * len(seen)]
    for number, statement in enumerate(STATEMENTS, 1):
        verdicts = " | ".join(statement.judge(view) for view in seen.values())
        lines.append(f"| {number} | {statement.claim} | {verdicts} |")
    return "\n".join(lines)


def details(found: Results) -> str:
    """Each statement: where, judged by what, measured what, and why."""
    seen = views(found)
    return "\n\n".join(_detail(number, statement, seen) for number, statement in enumerate(STATEMENTS, 1))


def _detail(number: int, statement: Statement, seen: dict[tuple[str, str], View]) -> str:
    title = f"### {number}. {statement.claim[0].upper()}{statement.claim[1:]}"
    lead = f"Paper: {statement.place}. Judged by: {statement.criterion}. In the table: {statement.shows}."
    why = statement.why(seen["exact", "learned"])
    return "\n\n".join([title, _wrap(lead), _cells(statement, seen), _wrap(why)])


def _cells(statement: Statement, seen: dict[tuple[str, str], View]) -> str:
    readings = READINGS if statement.readings else {"learned": "verdict"}
    lines = ["| | " + " | ".join(readings.values()) + " |", "|---|" + "---|" * len(readings)]
    for form, name in FORM_NAMES.items():
        cells = [_cell(statement, seen[form, head]) for head in readings]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(statement: Statement, view: View) -> str:
    verdict = statement.judge(view)
    return "" if verdict == NONE else f"{verdict}: {statement.cell(view)}"


def _wrap(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)
