"""The pair every layer takes and gives: the mean and the variance of independent elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from lbnn.base.advice import instead_of
from lbnn.base.errors import LbnnError

Part = TypeVar("Part")

SHOWN = 24
"""Elements that are printed; of more, the first and the last ones."""


class Moments(NamedTuple, Generic[Part]):
    """Mean and variance of independent random elements: torch tensors, numpy arrays or symbols of a graph.

    A named tuple, so that `mean, var = model(x)` works and torch's wrappers (DataParallel, compile, vmap) see
    through it. Everything else is that of independent random variables, not of tuples: `+`, `-` and `*`, and an index
    takes rows, so that `m[0]` is the first prediction and `m[mask]` those that are chosen.
    """

    mean: Part
    var: Part

    @property
    def sd(self) -> Any:
        """The standard deviation."""
        return self.var**0.5  # type: ignore[operator]

    @property
    def std(self) -> Any:
        """The standard deviation, by torch's name."""
        return self.sd

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """(low, high): where a Gaussian of these moments lies with probability `level`."""
        if not 0.0 < level < 1.0:
            raise LbnnError(f"the level of an interval is between 0 and 1, such as 0.9; got {level}")
        half = self.sd * NormalDist().inv_cdf(0.5 + level / 2)
        return self.mean - half, self.mean + half

    @property
    def shape(self) -> Any:
        """The shape of the mean, which is also that of the variance."""
        return self.mean.shape  # type: ignore[attr-defined]

    def __getitem__(self, rows: Any) -> Moments[Any]:  # type: ignore[override]
        """The moments of some rows, by whatever indexes the mean: a number, a slice, a mask."""
        axes = getattr(self.mean, "ndim", 0)
        if isinstance(axes, int) and not axes:
            raise IndexError("Moments of one number have no rows; `mean, var = m` and `tuple(m)` give both parts")
        return self._each(lambda part: part[rows])

    def __repr__(self) -> str:
        """Each element as mean ± sd; of large arrays the first and the last ones."""
        try:
            parts = self.numpy()
            shape = f", shape={parts.mean.shape}" if parts.mean.size > SHOWN else ""
            return f"Moments({_text(parts)}{shape})"
        except Exception:  # symbols of a graph, tensors inside a transform, parts of two shapes: what has no numbers
            return f"Moments(mean={self.mean!r}, var={self.var!r})"

    def __getattr__(self, name: str) -> Any:
        """Of what tensors have and Moments have not, such as `m.relu()`."""
        raise AttributeError(f"Moments have no {name!r}; {instead(name)}")

    def _each(self, function: Callable[[Any], Any]) -> Moments[Any]:
        return Moments(function(self.mean), function(self.var))

    def detach(self) -> Moments[Any]:
        """The same numbers, cut from the graph of gradients."""
        return self._each(lambda part: part.detach())

    def to(self, *args: Any, **kwargs: Any) -> Moments[Any]:
        """On another device or in another dtype, as `torch.Tensor.to`."""
        return self._each(lambda part: part.to(*args, **kwargs))

    def numpy(self) -> Moments[Any]:
        """As numpy arrays, wherever the tensors are and whether they have gradients or not."""
        return self._each(as_array)

    def __add__(self, other: Any) -> Moments[Any]:
        """The sum with independent Moments (variances add), with itself, or with a known value (the mean moves)."""
        if isinstance(other, Moments):
            return self.__mul__(2) if other is self else Moments(self.mean + other.mean, self.var + other.var)
        return Moments(self.mean + other, self.var) if _is_value(other) else NotImplemented

    def __sub__(self, other: Any) -> Moments[Any]:
        return self.__mul__(0) if other is self else self.__add__((-1) * other)

    def __mul__(self, scale: Any) -> Moments[Any]:
        """A known multiple, whose variance grows with the square, or the product with independent Moments."""
        if isinstance(scale, Moments):
            return self._product(scale)
        return Moments(self.mean * scale, self.var * (scale * scale)) if _is_value(scale) else NotImplemented

    def _product(self, other: Moments[Any]) -> Moments[Any]:
        if self is other:
            raise LbnnError("a random value times itself is no product of independent values; use a layer")
        m: Any = self.mean
        v, n, w = self.var, other.mean, other.var
        return Moments(m * n, v * (w + n * n) + w * (m * m))

    def __truediv__(self, divisor: Any) -> Moments[Any]:
        return self.__mul__(1 / divisor)

    def __neg__(self) -> Moments[Any]:
        return self.__mul__(-1)

    def __radd__(self, other: Any) -> Moments[Any]:
        return self.__add__(other)

    def __matmul__(self, other: Any) -> Any:
        return _without("@", "matmul")

    def __rmatmul__(self, other: Any) -> Any:
        return _without("@", "matmul")

    def __pow__(self, power: Any) -> Any:
        return _without("**", "pow")

    def __rpow__(self, base: Any) -> Any:
        return _without("a power with a random exponent", "")

    def __abs__(self) -> Any:
        return _without("abs", "abs")

    def __float__(self) -> float:
        return float(_without("float", "float"))

    def __int__(self) -> int:
        return int(_without("int", "int"))

    def __rtruediv__(self, other: Any) -> Any:
        return _without("division by a random value", "")

    def __rmul__(self, scale: Any) -> Moments[Any]:
        return self.__mul__(scale)

    def __rsub__(self, other: Any) -> Moments[Any]:
        return (-self).__add__(other)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch's own functions and operators do with Moments among their arguments.

        A compiler asks here too; otherwise it would take the result of `moments + tensor` apart by number.
        """
        name = getattr(function, "__name__", str(function))
        if name in ("grad", "backward"):  # torch.autograd's, which take any tuple of tensors
            return function(*map(_plain, args), **{key: _plain(value) for key, value in (kwargs or {}).items()})
        if name not in FUNCTIONS_OF_MOMENTS:
            raise NoMomentsError(f"torch's {name} has no moments; {instead(name)}")
        return FUNCTIONS_OF_MOMENTS[name](*args, **(kwargs or {}))

    def flatten(self, start_dim: int = 1, end_dim: int = -1) -> Moments[Any]:
        """The axes from `start_dim` to `end_dim` made one, as `torch.flatten` does."""
        return self._each(lambda part: part.flatten(start_dim, end_dim))


def _is_value(x: Any) -> bool:
    """A number or an array, as opposed to Moments or something that does arithmetic in its own way."""
    return not isinstance(x, Moments) and (isinstance(x, (int, float)) or hasattr(x, "dtype"))


OTHERWISE = "use a layer of lbnn.nn in place of torch's, lbnn.from_torch(net), or .mean and .var"
INSTEAD = {
    **dict.fromkeys(("cat", "concat"), "use lbnn.cat([x, y])"),
    **dict.fromkeys(("softmax", "log_softmax"), "end the network in lbnn.nn.SoftmaxHead()"),
    **dict.fromkeys(("mse_loss", "gaussian_nll_loss"), "use lbnn.losses.gaussian_nll(m, y), or m.mean and m.var"),
    "cross_entropy": "use lbnn.losses.categorical_nll(m, y)",
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm", "rms_norm"), instead_of("Norm")),
    "embedding": instead_of("Embedding"),
    **dict.fromkeys(("view", "reshape"), "use x.flatten(1)"),
    "size": "use x.shape",
    "cpu": 'use x.to("cpu")',
    "cuda": 'use x.to("cuda")',
    "dim": "in place of torch's batch norms use lbnn.nn.BatchNorm1d(features) or BatchNorm2d(channels). "
    f"Of a recurrent layer {instead_of('LSTM')}; for attention {instead_of('Attention')}",
    **dict.fromkeys(("float", "int"), "use float(m.mean) and float(m.var) of a single number"),
}
"""What to use for torch's functions, where it has another name."""

LAYER_INSTEAD = {
    **{name.lower(): f"{name}()" for name in ("ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "GELU", "ELU")},
    **{
        name.lower(): f"{name}()"
        for name in ("SELU", "CELU", "Softplus", "Hardtanh", "Hardsigmoid", "Hardswish", "Abs")
    },
    **{f"max_pool{d}d": f"MaxPool{d}d(size)" for d in (1, 2)},
    **{f"avg_pool{d}d": f"AvgPool{d}d(size)" for d in (1, 2)},
    **{f"adaptive_avg_pool{d}d": f"AdaptiveAvgPool{d}d(1)" for d in (1, 2)},
    "leaky_relu": "LeakyReLU(slope)",
    "prelu": "PReLU()",
    **dict.fromkeys(("linear", "matmul", "mm", "addmm"), "Linear(inputs, outputs)"),
    **{f"conv{d}d": f"Conv{d}d(channels, filters, size)" for d in (1, 2)},
    **{f"conv_transpose{d}d": f"ConvTranspose{d}d(channels, filters, size)" for d in (1, 2)},
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "feature_dropout"), "Dropout(p)"),
    **dict.fromkeys(("batch_norm", "batchnorm"), "BatchNorm1d(features)"),
    **dict.fromkeys(("pow", "square"), "Pointwise(torch.square, (low, high))"),
    **dict.fromkeys(("clamp", "clip"), "Clamp(low, high)"),
    **dict.fromkeys(("interpolate", "upsample"), "UpsampleNearest(factor)"),
    "mean": "AdaptiveAvgPool2d(1)",
    "mish": "Pointwise(torch.nn.functional.mish)",
}
"""The layers that do what torch's functions do, by the functions' names; `relu_` is `relu` in place."""


def instead(name: str, otherwise: str = OTHERWISE) -> str:
    """What a forward uses in place of one of torch's functions or methods."""
    layer = LAYER_INSTEAD.get(name.rstrip("_"))
    return INSTEAD.get(name, f"make it a layer of the network: lbnn.nn.{layer}" if layer else otherwise)


class NoMomentsError(LbnnError, TypeError):
    """A function that Moments can't go through; a TypeError, so that `==` and operators of other classes go on."""


def _without(what: str, name: str) -> Any:
    """Of an operator of Python that Moments have not."""
    raise NoMomentsError(f"{what} has no moments; {instead(name)}")


def _plain(value: Any) -> Any:
    """A tuple of tensors in place of Moments, or of a tuple that holds some."""
    if isinstance(value, Moments) or not isinstance(value, tuple):
        return tuple(value) if isinstance(value, Moments) else value
    return tuple(part for item in value for part in (item if isinstance(item, Moments) else (item,)))


def _binary(own: str, reflected: str) -> Callable[[Any, Any], Any]:
    """An operator of which at least one side is Moments."""

    def compute(x: Any, y: Any) -> Any:
        moments, method, other = (x, own, y) if isinstance(x, Moments) else (y, reflected, x)
        result = getattr(moments, method, _refused)(other)
        return _refused(other) if result is NotImplemented else result

    return compute


def _refused(other: Any) -> Any:
    raise NoMomentsError("Moments can be added to others, and added to, multiplied with and divided by known values")


FUNCTIONS_OF_MOMENTS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "__add__"), _binary("__add__", "__radd__")),
    **dict.fromkeys(("sub", "__sub__"), _binary("__sub__", "__rsub__")),
    **dict.fromkeys(("mul", "__mul__"), _binary("__mul__", "__rmul__")),
    **dict.fromkeys(("div", "truediv", "__truediv__", "__div__"), _binary("__truediv__", "__rtruediv__")),
    "__radd__": _binary("__radd__", "__add__"),
    **dict.fromkeys(("rsub", "__rsub__"), _binary("__rsub__", "__sub__")),
    "__rmul__": _binary("__rmul__", "__mul__"),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), _binary("__rtruediv__", "__truediv__")),
    "neg": lambda x: -x,
    "flatten": lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim),
}
"""By name, because `torch.add`, `Tensor.add` and `tensor + x` arrive as different functions."""


def as_array(part: Any) -> Any:
    """A tensor's numbers as a numpy array."""
    if not hasattr(part, "detach"):
        return np.asarray(part)
    tensor = part.detach().cpu()
    return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)  # which numpy lacks


def _text(parts: Moments[Any]) -> str:
    """As numpy prints arrays, of which it formats those elements alone that it shows: hence by their numbers."""
    mean = np.asarray(parts.mean, np.float64)
    with np.errstate(invalid="ignore"):
        sd = np.sqrt(np.asarray(parts.var, np.float64)).reshape(mean.shape)
    number = np.arange(mean.size).reshape(mean.shape)

    def each(i: np.integer[Any]) -> str:
        return _mean_and_sd(float(mean.flat[i]), float(sd.flat[i]))

    return np.array2string(number, separator=", ", threshold=SHOWN, formatter={"int": each}, prefix="Moments(")


def _mean_and_sd(mean: float, sd: float) -> str:
    """The sd with two digits that say something, the mean with as many decimals."""
    if not (1e-4 < sd < 1e6 and abs(mean) < 1e6):
        return f"{mean:.4g} ± {sd:.2g}"
    decimals = max(0, 1 - math.floor(math.log10(sd)))
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"
