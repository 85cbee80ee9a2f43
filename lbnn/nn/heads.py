"""Last layers: what turns features into a predictive distribution."""

from __future__ import annotations

from lbnn.nn.base import Layer


class VarianceHead(Layer):
    """Learned variance: features (mu, s) give mean E[mu] and total variance V[mu] + softplus(E[s])."""

    op = "variance_head"
