"""lbnn.Classifier beside scikit-learn's own classifiers on scikit-learn's own sets, cross-validated.

    python tools/bench/classifiers.py [--folds 5] [--seed 1] [--sets iris,wine]

Every method sees the same folds, stratified by class, and has its default settings. Two minutes of one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lbnn
from lbnn.base.terminal import progress

SETS: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
METHODS: dict[str, Callable[[], Any]] = {
    "lbnn.Classifier": lbnn.Classifier,
    "LogisticRegression, scaled": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
LEAST = 1e-12
"""A class that was thought impossible costs 27.6 nats, and not infinitely many."""
LIKELY = 0.95


def scores_of(x: Any, y: Any, make: Callable[[], Any], folds: int, seed: int) -> dict[str, list[float]]:
    """NLL and accuracy of each row, predicted by a model that was fitted to the other folds."""
    nll, right, sure, sure_right = ([], [], [], [])  # type: ignore[var-annotated]
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
        probability = make().fit(x[train], y[train]).predict_proba(x[test])
        hit = probability.argmax(1) == y[test]
        nll += (-np.log(np.maximum(probability[np.arange(len(test)), y[test]], LEAST))).tolist()
        right += hit.tolist()
        certain = probability.max(1) >= LIKELY
        sure += certain.tolist()
        sure_right += hit[certain].tolist()
    return {"nll": nll, "right": right, "sure": sure, "sure_right": sure_right}


def row(name: str, shape: str, method: str, found: dict[str, list[float]]) -> str:
    """A line of the table: means over rows, with the standard error of the NLL."""
    error = np.std(found["nll"], ddof=1) / math.sqrt(len(found["nll"]))
    cells = [f"{np.mean(found['nll']):.3f} ± {error:.3f}", f"{np.mean(found['right']):.1%}"]
    cells += [f"{np.mean(found['sure']):.0%}", f"{np.mean(found['sure_right']):.1%}"]
    return f"| {name} | {shape} | {method} | {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    lines = ["| set | rows, inputs, classes | method | NLL (nats) | accuracy | rows at 95 % or more | right of these |"]
    lines += ["|---|---|---|---:|---:|---:|---:|"]
    jobs = {f"{name}: {method}": (name, method) for name in args.sets.split(",") for method in METHODS}
    with progress("training", list(jobs)) as steps:
        for step in steps:
            name, method = jobs[step]
            x, y = SETS[name](return_X_y=True)
            shape = f"{len(x)}, {x.shape[1]}, {y.max() + 1}"
            lines.append(row(name, shape, method, scores_of(x, y, METHODS[method], args.folds, args.seed)))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
