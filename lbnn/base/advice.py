"""What to use in place of layers of torch that have no moments."""

ALTERNATIVES = {
    "Pool": "use AvgPool or MaxPool of one or two axes instead and train again",
    "Norm": "use BatchNorm1d or BatchNorm2d instead and train again",
    "3d": "use layers of one or two axes and train again",
    "Lazy": "call the network once, so that it knows its shapes",
    "Embedding": "give one input for each category (one-hot) to a Linear, which is the same, and train again",
    "Pad": "use ZeroPad1d or ZeroPad2d instead and train again",
    "Dropout": "use Dropout, or leave it out, and train again",
    "Softm": "end in Softmax(1), which becomes lbnn.nn.SoftmaxHead, or leave it out and use the moments before it",
    "shrink": "use Softshrink, which does not jump, instead and train again",
    "RReLU": "use LeakyReLU, whose slope is not drawn, instead and train again",
    "GLU": "use lbnn.nn.Multiply of two branches, one behind Sigmoid, instead and train again",
    "Softsign": "give a range: pointwise={nn.Softsign: lbnn.nn.Pointwise(F.softsign, (-32, 32), 512)}",
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "its weights are shared through time; use causal Conv1d (docs/streams.md)"),
    **dict.fromkeys(("Attention", "Transformer"), "use convolutions, and lbnn.nn.Multiply for gates, and train again"),
    "Module": "that of torch.nn holds layers of lbnn too",
    "Loss": "see lbnn.losses",
    "": "see lbnn.nn for the layers that there are, or give its function: from_torch(net, pointwise={CLASS: f})",
}
"""What to do, by what the name of the torch layer contains; the first that fits."""


def instead_of(layer: str) -> str:
    """Advice for the name of a layer of torch."""
    return next(advice for part, advice in ALTERNATIVES.items() if part in layer)
