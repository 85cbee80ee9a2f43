"""A LeNet of plain torch becomes Bayesian, is fine-tuned, and classifies on an emulated Cortex-M4F: python lenet.py"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import lbnn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("build"), help="where the model and its C go")
out = parser.parse_args().out
torch.set_num_threads(1)
torch.manual_seed(0)

# ---- what you already have: a network of plain torch, trained on its training digits
pixels, labels = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
order = torch.randperm(len(labels))
x, y = pixels.float().view(-1, 1, 8, 8)[order] / 16, labels[order]
train, test = slice(0, 1_300), slice(1_300, None)
plain = nn.Sequential(
    nn.Conv2d(1, 6, 3, padding=1), nn.ReLU6(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 3, padding=1), nn.ReLU6(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(64, 48), nn.ReLU6(), nn.Linear(48, 10), nn.Softmax(dim=1),
)  # fmt: skip
optimizer = torch.optim.Adam(plain.parameters(), lr=0.004)
for _ in range(20):
    for rows in torch.randperm(1_300).split(50):
        optimizer.zero_grad()
        nn.functional.nll_loss(plain(x[rows]).log(), y[rows]).backward()
        optimizer.step()

# ---- its weights become Gaussians, and their widths are trained
model = lbnn.from_torch(plain, sigma=0.02)
prior, kl_weight = lbnn.priors.Gaussian(0.3), lbnn.priors.LinearWarmup(0.1 / 1_300)
lbnn.fit(model, (x[train], y[train]), epochs=5, batch_size=50, lr=0.002, prior=prior, kl_weight=kl_weight)
with torch.no_grad():
    accuracies = [float((p.argmax(1) == y[test]).float().mean()) for p in (plain(x[test]), model(x[test]).probability)]
    unsure = lbnn.class_metrics.unsure_limit(model(x[train]), 0.05)
print("accuracy on 497 new digits: plain {:.1%}, Bayesian {:.1%}".format(*accuracies))

# ---- to C, and onto the chip
path = lbnn.save(model, out / "lenet.pt", input_shape=(1, 8, 8), metadata={"unsure_entropy": unsure})
lbnn.export(path, target="c", out=out / "lenet", force=True)
subprocess.run([sys.executable, "-m", "lbnn", "verify", path, "--backends", "torch,c,cortex-m4"], check=True)
shown = torch.cat([x[test][:4], x[test][:2].flip(2), torch.rand(2, 1, 8, 8)])
chip = lbnn.emulate(path, "cortex-m4")
found = chip.classify(shown.numpy())
for i, kind in enumerate(["a {}"] * 4 + ["a {} upside down"] * 2 + ["noise"] * 2):
    said = found.label[i] if found.entropy[i] <= unsure else "unsure"
    print(f"{kind.format(y[test][i % 4])}: {said} ({found.probability[i].max():.0%}, entropy {found.entropy[i]:.2f})")
print(f"{chip.instructions.mean():,.0f} instructions for a picture on a Cortex-M4F")
