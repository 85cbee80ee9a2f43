"""What computes a moment graph: numpy (the float64 reference), torch, ONNX and C."""
