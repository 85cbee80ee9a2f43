"""What every layer is: one operator of `lbnn.ops` with parameters, applied to tensors, Moments or a trace."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lbnn import ops
from lbnn.base.errors import LbnnError
from lbnn.base.factored import Factored
from lbnn.base.moments import Moments
from lbnn.nn.spread import FactoredRho, Rho, check_variance, free_rho, sigma_of, variance
from lbnn.nn.symbolic import fx_call, fx_tracer
from lbnn.ops import Shape
from lbnn.ops.torch import compute
from lbnn.ops.traced import is_traced

Signal = Any
"""What flows between layers: a Tensor (known values), Moments, or the proxy of a trace."""


class Recording:
    """Stands for a value while a network is traced: a layer that meets one is written down instead of computed."""

    def record_layer(self, layer: Layer, inputs: Any, name: str | None = None) -> Any:
        """What a layer calls; `name` is for one without a path of its own."""
        raise NotImplementedError

    def record_head(self, head: str) -> Any:
        """What a head calls."""
        raise NotImplementedError


class Layer(nn.Module):
    """A layer that is one operator. Subclasses say which, and give its attributes and parameters.

    `loads` are the operators of a file that become this layer: its own, where a class does not say otherwise.
    `counterpart` is the torch layer that it stands for.
    """

    op: ClassVar[str]
    loads: ClassVar[tuple[str, ...]] = ()
    counterpart: ClassVar[type[nn.Module] | None] = None

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        cls.loads = own.get("loads", (cls.op,) if "op" in own else ())
        cls.counterpart = own.get("counterpart")

    @classmethod
    def from_file(cls, attrs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
        """The layer of a node with these attributes; the tensors become its parameters afterwards."""
        return cls(**attrs)

    @classmethod
    def like(cls, module: nn.Module) -> Layer:
        """The layer that stands for a torch layer: arguments of the same names."""
        names = inspect.signature(cls).parameters
        return cls(**{name: getattr(module, name) for name in names if hasattr(module, name)})

    @property
    def rises(self) -> bool:
        """True of a function of each element that never falls: it may change places with a maximum."""
        return False

    def attrs(self, *shapes: Shape) -> dict[str, Any]:
        """The operator's attributes, for inputs of these shapes (without the batch axis)."""
        return {}

    def op_params(self) -> dict[str, Any]:
        """The operator's parameters: Moments for Gaussian ones, tensors for constants."""
        return {}

    def op_name(self) -> str:
        """The operator's name; a layer with variants overrides it."""
        return self.op

    def forward(self, *inputs: Signal) -> Signal:
        """Applies the operator, or writes the call down where a network is traced."""
        tracer = fx_tracer(inputs)
        if tracer is not None:
            return self._fx_node(tracer, inputs)
        self._count(len(inputs))
        for x in inputs:
            if isinstance(x, Recording):
                return x.record_layer(self, inputs if ops.find(self.op_name()).arity != 0 else ())
        return self.run(*inputs)

    def _count(self, given: int) -> None:
        taken = ops.find(self.op_name()).arity
        if taken and given != taken:
            values = "1 value" if taken == 1 else f"{taken} values"
            raise LbnnError(f"{type(self).__name__} takes {values} at a time, got {given}")

    def run(self, *inputs: Signal) -> Signal:
        """Computes; a layer that does not always do what its operator does overrides it."""
        shapes = [self.shape_of(x) for x in inputs]
        return apply(self.op_name(), inputs, self.op_params(), self.attrs(*shapes), shapes)

    def shape_of(self, x: Any) -> Shape:
        """The shape of an input behind the batch axis, after checks that cost nothing."""
        name = type(self).__name__
        if isinstance(x, Moments):
            if x.mean.shape != x.var.shape:
                raise LbnnError(f"{name}: mean {tuple(x.mean.shape)} and variance {tuple(x.var.shape)} differ in shape")
            x = x.mean
        if not isinstance(x, Tensor):
            raise LbnnError(f"{name}: expected a tensor or lbnn.Moments, got {type(x).__name__}")
        if x.ndim < 2:
            raise LbnnError(f"{name}: input of shape {tuple(x.shape)} has no batch axis; use x[None] for one sample")
        self.accept(x)
        return tuple(x.shape[1:]) if not is_traced() else _traced_shape(x)

    def accept(self, x: Tensor) -> None:
        """Refuses numbers that the layer can't compute with."""

    def accept_dtype(self, x: Tensor, own: torch.dtype) -> None:
        """Refuses numbers of another dtype than the weights', except where torch converts them by itself."""
        if x.dtype is not own and not torch.is_autocast_enabled(x.device.type):
            change = f"use x.to({own})" + (", or model.double()" if x.dtype is torch.float64 else "")
            raise LbnnError(f"{type(self).__name__}: the input is {x.dtype}, the weights are {own}; {change}")

    def _fx_node(self, tracer: Any, inputs: tuple[Signal, ...]) -> Signal:
        out = fx_call(tracer, self, inputs)
        op = ops.find(self.op_name())
        if op.point_form and not any(isinstance(x, Moments) for x in inputs):
            op = ops.find(op.point_form)
        return out if op.point_output else Moments(out.mean, out.var)


def apply(
    name: str,
    inputs: tuple[Signal, ...],
    params: Mapping[str, Any],
    attrs: Mapping[str, Any],
    shapes: list[Shape],
) -> Signal:
    """Runs an operator in torch, its form for known values where no input has a variance."""
    op = ops.find(name)
    op.shape(*shapes, **{key: tuple(value.shape) for key, value in params.items()}, **attrs)
    if not any(isinstance(x, Moments) for x in inputs) and op.point_form:
        op, attrs = op.at_points(attrs)
    elif op.arity != 1:
        inputs = tuple(x if isinstance(x, Moments) else Moments(x, torch.zeros_like(x)) for x in inputs)
    return compute(op, *inputs, **params, **attrs)


def _traced_shape(x: Tensor) -> Shape:
    """Plain numbers: torch.jit.trace would write down every step that is made with the shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(int(extent) for extent in x.shape[1:])


class BayesianLayer(Layer):
    """A layer whose weight and bias are independent Gaussians (mu, sigma^2).

    sigma is softplus(rho); that of a weight may be a product of factors, as `variance` says (lbnn.nn.spread).
    """

    weight_mu: nn.Parameter
    weight_rho: nn.Parameter
    weight_row_rho: nn.Parameter
    weight_column_rho: nn.Parameter
    bias_mu: nn.Parameter | None
    bias_rho: nn.Parameter | None
    given: Mapping[str, Moments[Tensor]] | None = None  # what a training computed for all layers at once
    variance: str = "full"
    variances: ClassVar[tuple[str, ...]] = ("full",)
    groups: int = 1

    def init_gaussians(
        self,
        weight: Shape,
        bias: bool,
        sigma: float | None,
        device: Any = None,
        dtype: Any = None,
        variance: str = "full",
        outputs: int | None = None,
    ) -> None:
        """Creates the parameters: means as torch initialises its own layers, sigma as `default_sigma` says.

        There is a bias for each of the `outputs`, which are the rows of the weight if not given.
        """
        check_variance(variance, self.variances, type(self).__name__)
        if min(weight) < 1:
            raise LbnnError(
                f"{type(self).__name__}: a weight of shape {weight} is empty; every size must be at least 1"
            )
        fan_in = math.prod(weight[1:])
        bound = 1.0 / math.sqrt(fan_in)
        rho = inverse_softplus(default_sigma(fan_in) if sigma is None else sigma)
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight_mu = nn.Parameter(torch.empty(weight, **make).uniform_(-bound, bound))
        self.spread_evenly(rho, variance)
        if bias:
            length = weight[0] if outputs is None else outputs
            self.bias_mu = nn.Parameter(torch.empty(length, **make).uniform_(-bound, bound))
            self.bias_rho = nn.Parameter(torch.full((length,), rho, **make))
        else:
            self.register_parameter("bias_mu", None)
            self.register_parameter("bias_rho", None)

    def spread_evenly(self, rho: float, variance: str) -> None:
        """Gives every weight the standard deviation softplus(rho), by the parameters of this variance."""
        check_variance(variance, self.variances, type(self).__name__)
        for name in ("weight_rho", "weight_row_rho", "weight_column_rho"):
            self._parameters.pop(name, None)
        self.variance, like = variance, self.weight_mu.detach()
        if variance == "full":
            self.weight_rho = nn.Parameter(torch.full_like(like, rho))
            return
        self.weight_row_rho = nn.Parameter(like.new_full(like.shape[:1], rho))
        if variance == "rank1":
            self.weight_column_rho = nn.Parameter(like.new_full(like.shape[1:], inverse_softplus(1.0)))

    def to_full(self) -> BayesianLayer:
        """A copy with one sigma for each weight, the same as before; there is no way back."""
        full = copy.deepcopy(self)
        if self.variance != "full":
            full.spread_evenly(0.0, "full")
            with torch.no_grad():
                full.weight_rho.copy_(free_rho(sigma_of(self._weight_rho(), self.weight_mu)))
        return full

    @property
    def weight_var(self) -> Tensor:
        """The variance of each weight."""
        return sigma_of(self._weight_rho(), self.weight_mu) ** 2

    @property
    def bias_var(self) -> Tensor | None:
        """The variance of each bias, or None without bias."""
        return None if self.bias_rho is None else variance(self.bias_rho)

    def _weight_rho(self) -> Rho:
        if self.variance == "full":
            return self.weight_rho
        return FactoredRho(self.weight_row_rho, self.weight_column_rho if self.variance == "rank1" else None)

    def named_gaussians(self) -> Iterator[tuple[str, Tensor, Rho]]:
        """(name, mu, rho) of each Gaussian parameter."""
        yield "weight", self.weight_mu, self._weight_rho()
        if self.bias_mu is not None and self.bias_rho is not None:
            yield "bias", self.bias_mu, self.bias_rho

    def accept(self, x: Tensor) -> None:
        """Numbers of the weights' own dtype, except where torch converts them by itself."""
        self.accept_dtype(x, self.weight_mu.dtype)

    def op_params(self) -> dict[str, Any]:
        """Weight and bias as Moments; a missing bias is the number zero, known exactly."""
        own = self.given or {name: self._moments(mu, rho) for name, mu, rho in self.named_gaussians()}
        params: dict[str, Any] = dict(own)
        if "bias" not in params:
            zero = self.weight_mu.new_tensor(0.0) if is_traced() else self.weight_mu.new_zeros(())
            params["bias"] = Moments(zero, zero)
        return params

    def _moments(self, mu: Tensor, rho: Rho) -> Any:
        if isinstance(rho, Tensor):
            return Moments(mu, variance(rho))
        column = torch.ones_like(mu[0]) if rho.column is None else variance(rho.column)
        return Factored(mu, variance(rho.row), column.expand(self.groups, *column.shape))


def ignore_inplace(layer: nn.Module, inplace: Any) -> None:
    """Torch's argument changes nothing here: values are never written over."""
    if not isinstance(inplace, bool):
        name = type(layer).__name__
        raise LbnnError(
            f"{name}: inplace must be True or False, got {inplace!r:.50}; name other arguments, as in clamp=2.0"
        )


def inverse_softplus(sigma: float) -> float:
    """rho such that softplus(rho) = sigma."""
    if not (math.isfinite(sigma) and sigma > 0.0):
        raise LbnnError(f"sigma must be a positive number, got {sigma}")
    return sigma + math.log(-math.expm1(-sigma))


def default_sigma(fan_in: int) -> float:
    """0.1, but in wide layers 1/sqrt(fan_in): the weights' noise then never outweighs the signal."""
    return min(0.1, 1.0 / math.sqrt(fan_in))
