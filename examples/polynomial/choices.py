"""What the paper leaves open, what is chosen here, and the other choices tried at two sizes."""

from __future__ import annotations

from dataclasses import dataclass

BATCH = 64


@dataclass(frozen=True)
class Choice:
    """One way to fill the paper's gaps; the defaults are those of every other table and figure."""

    slope: float = 0.01
    sigma: float | None = None  # at the start; None: 0.1, or 1/sqrt(fan in) above 100 inputs
    kl_scale: float = 1.0 / BATCH  # beside the mean NLL of a batch: the printed sum over k, divided by 64
    decay_rho: bool = True
    link: str = "softplus"  # from the second output to a variance


CHOSEN = "as chosen"
CHOICES = {
    CHOSEN: Choice(),
    "slope 0.1": Choice(slope=0.1),
    "slope 0.2": Choice(slope=0.2),
    "σ 0.02 at the start": Choice(sigma=0.02),
    "σ 0.5 at the start": Choice(sigma=0.5),
    "no KL": Choice(kl_scale=0.0),
    "KL beside the mean over the batch": Choice(kl_scale=1.0),
    "ρ not decayed": Choice(decay_rho=False),
    "exp in the head": Choice(link="exp"),
}
TOGETHER = (tuple(label for label in CHOICES if label not in (CHOSEN, "exp in the head")), ("exp in the head",))
"""Choices whose networks are trained as one job: all but those with another head."""
PRINTED = "P(a<0) with the printed sign"  # the clamped form, mirrored: tried with everything else as chosen
TRIED_SIZES = (4, 64)
