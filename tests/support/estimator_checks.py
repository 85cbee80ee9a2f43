"""scikit-learn's own checks of an estimator, as functions to call."""

from functools import partial

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

SCIKIT_LEARN = pytest.mark.ecosystem(
    "Python: scikit-learn", "its own checks of estimators", package="scikit-learn", result="all pass"
)
ARRAY_API = "check_array_api_input"
"""Needs SCIPY_ARRAY_API=1 before scipy is imported: tests/train/test_estimator.py runs it in a process of its own."""


def checks_of(estimator):
    """Each check with its estimator; none is left out or expected to fail, but the one for a process of its own."""
    found = [partial(check, subject) for subject, check in estimator_checks_generator(estimator)]
    return [check for check in found if not check_name(check).startswith(ARRAY_API)]


def check_name(check) -> str:
    """The name of the check and what it is called with besides."""
    words = ",".join(f"{key}={value}" for key, value in check.keywords.items())
    return check.func.__name__ + (f"({words})" if words else "")
