"""Reads sensor readings as CSV, prints what the model makes of each and flags what it is too unsure about.

    python monitor.py gas_sensor.onnx < readings.csv
    python monitor.py gas_sensor.onnx readings.csv --limit 5

Needs numpy and onnxruntime only. The last line on stderr counts the flags.
"""

import argparse
import csv
import sys

import numpy as np
import onnxruntime as ort


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="file written by `lbnn export --target onnx`")
    parser.add_argument("readings", nargs="?", type=argparse.FileType("r"), default=sys.stdin, help="default: stdin")
    parser.add_argument("--limit", type=float, default=5.0, help="largest acceptable sigma (default: 5 ppm)")
    args = parser.parse_args()

    session = ort.InferenceSession(args.model, providers=["CPUExecutionProvider"])
    unsure = []
    for row in csv.DictReader(args.readings):
        x = np.array([[float(row["volts"]), float(row["celsius"])]], np.float32)
        mean, variance = session.run(["mean", "variance"], {"input": x})
        sigma = float(variance[0, 0]) ** 0.5
        unsure.append(not sigma <= args.limit)  # a NaN is unsure too
        flag = "   TOO UNCERTAIN" if unsure[-1] else ""
        print(f"{row['time']:>6} {mean[0, 0]:8.1f} +- {sigma:5.1f} ppm{flag}", flush=True)
    print(f"{sum(unsure)} of {len(unsure)} readings are too uncertain", file=sys.stderr)


if __name__ == "__main__":
    main()
