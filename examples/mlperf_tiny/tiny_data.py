"""What the four networks are trained on: sounds and vibrations made here, clothes of Fashion-MNIST as pictures.

Each task has data to train on, data to test on, and foreign data that is none of what it knows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / folder) for folder in ("keyword", "fashion")]
sounds, fashion = map(importlib.import_module, ("sounds", "data"))


@dataclass(frozen=True)
class Task:
    """Inputs with their targets, and inputs that are none of what was trained on."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    foreign: Tensor


# ---- keyword spotting -------------------------------------------------------------------------------------------

AH, EE, OO, EH, OH = sounds.AH, sounds.EE, sounds.OO, sounds.EH, sounds.OH
PATHS = ((EE, AH, EE), (OO, OH, OH), (AH, OO), (EE, EE), (OO, AH), (EH, EH), (OH, OO), (AH, EE), (EE, OO), (OH, AH))
HISSES = {3: (0.35, 0.0), 5: (0.0, 0.35), 6: (0.3, 0.0), 9: (0.0, 0.3)}  # how much of a word at either end
WORDS = tuple(sounds.Word(path, *HISSES.get(number, ())) for number, path in enumerate(PATHS))
CLASSES = len(WORDS) + 2
"""Ten words, any other word, and silence."""


def any_word(rng: np.random.Generator) -> object:
    """A word of three sounds that is none of the ten: those have at most one turn."""
    path = rng.permutation(np.array([AH, EE, OO, EH, OH]))[:3]
    return sounds.Word(tuple(map(tuple, path)), hiss_before=0.2 * float(rng.integers(2)))


def spoken(label: int, rng: np.random.Generator) -> np.ndarray:
    """A second of one of the classes."""
    word = WORDS[label] if label < len(WORDS) else any_word(rng) if label == len(WORDS) else None
    return sounds.speak(word, rng)


def melody(rng: np.random.Generator) -> np.ndarray:
    """A second of three pure tones, which nobody speaks."""
    tones = np.repeat(rng.uniform(200.0, 3500.0, 3), sounds.LENGTH // 3 + 1)[: sounds.LENGTH]
    return np.sin(2 * np.pi * np.cumsum(tones) / sounds.RATE) + 0.02 * rng.normal(size=sounds.LENGTH)


def keywords(trained: int, tested: int) -> Task:
    """49 frames of 10 cepstral coefficients."""

    def part(count: int, seed: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(count) % CLASSES)
        heard = np.stack([sounds.features(spoken(label, rng)) for label in labels])
        return torch.from_numpy(heard), torch.from_numpy(labels)

    rng = np.random.default_rng(2)
    foreign = np.stack([sounds.features(melody(rng)) for _ in range(tested)])
    return Task(part(trained, 0), part(tested, 1), torch.from_numpy(foreign))


# ---- pictures ---------------------------------------------------------------------------------------------------


def coloured(pixels: Tensor) -> Tensor:
    """Grey pictures of 28x28 as three channels of 32x32."""
    return functional.pad(pixels, (2, 2, 2, 2)).expand(-1, 3, -1, -1).contiguous()


def clothes(trained: int, tested: int, folder: Path = fashion.FOLDER) -> Task:
    """Ten kinds of clothes; foreign are handwritten digits."""
    found = fashion.read_fashion(folder, trained)
    x, y = found.test
    train, test = (coloured(found.train[0]), found.train[1]), (coloured(x[:tested]), y[:tested])
    return Task(train, test, coloured(fashion.enlarged_digits(tested)))


SHOES = (5, 7, 9)
SIDE = 96


def scenes(items: Tensor | None, count: int, seed: int) -> Tensor:
    """Coloured clouds of 96x96; on each one of the items, tinted, somewhere and of some size."""
    generator = torch.Generator().manual_seed(seed)
    clouds = functional.interpolate(torch.rand((count, 3, 6, 6), generator=generator), SIDE, mode="bilinear")
    made = 0.5 * clouds + 0.05 * torch.randn((count, 3, SIDE, SIDE), generator=generator)
    for number in range(count if items is not None else 0):
        size = int(torch.randint(44, 73, (), generator=generator))
        left, top = (int(torch.randint(0, SIDE - size + 1, (), generator=generator)) for _ in range(2))
        item = functional.interpolate(items[number, None], size, mode="bilinear")[0]
        tint = 0.4 + 0.6 * torch.rand((3, 1, 1), generator=generator)
        place = made[number, :, top : top + size, left : left + size]
        place += item * (tint - place)
    return made


def wake_words(trained: int, tested: int, folder: Path = fashion.FOLDER) -> Task:
    """Is there a shoe? As often as another piece of clothing; foreign are scenes without either."""
    found = fashion.read_fashion(folder, 4 * trained)

    def part(pictures: Tensor, kinds: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
        shoe = torch.isin(kinds, torch.tensor(SHOES))
        some = [torch.nonzero(shoe == wanted)[: count // 2, 0] for wanted in (False, True)]
        order = torch.cat(some)[torch.randperm(2 * (count // 2), generator=torch.Generator().manual_seed(seed))]
        return scenes(pictures[order], len(order), seed), shoe[order].long()

    return Task(part(*found.train, trained, 0), part(*found.test, tested, 1), scenes(None, tested, 2))


# ---- anomalies --------------------------------------------------------------------------------------------------

RATE, WINDOW, HOP, FRAMES, BANDS = 8_000, 1_024, 512, 5, 128
LENGTH = WINDOW + (FRAMES - 1) * HOP


def vibration(rng: np.random.Generator, fault: bool) -> np.ndarray:
    """A machine of 45 to 55 turns a second with overtones, gears and noise; a fault is a bearing that ticks."""
    time, speed, load = np.arange(LENGTH) / RATE, rng.uniform(45.0, 55.0), rng.uniform(0.7, 1.3)
    tones = [(order, 1.0 / order) for order in range(1, 16)] + [(17.0, 0.4 * load), (34.0, 0.2 * load)]
    signal = sum(
        load * size * np.sin(2 * np.pi * order * speed * time + rng.uniform(0.0, 2 * np.pi)) for order, size in tones
    )
    if fault:
        since = np.mod(time + rng.uniform(0.0, 1.0), 1.0 / (3.57 * speed))
        signal = signal + rng.uniform(0.03, 0.3) * np.exp(-since / 8e-4) * np.sin(2 * np.pi * 2_800.0 * since)
    return np.asarray(signal + 0.1 * rng.normal(size=LENGTH))


def spectra(signal: np.ndarray) -> np.ndarray:
    """Five frames of 128 bands, logarithms."""
    frames = signal[HOP * np.arange(FRAMES)[:, None] + np.arange(WINDOW)] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)[:, 1:]) ** 2
    return np.log(power.reshape(FRAMES, BANDS, -1).sum(2) + 1e-3).reshape(-1)


def anomalies(trained: int, tested: int) -> Task:
    """Spectra of a sound machine, whose target is the spectrum itself; foreign are those of a faulty bearing."""

    def part(count: int, seed: int, fault: bool) -> Tensor:
        rng = np.random.default_rng(seed)
        return torch.from_numpy(np.stack([spectra(vibration(rng, fault)) for _ in range(count)])).float()

    known, new, faulty = part(trained, 0, False), part(tested, 1, False), part(tested, 2, True)
    mean, sd = known.mean(), known.std()
    known, new, faulty = ((x - mean) / sd for x in (known, new, faulty))
    return Task((known, known), (new, new), faulty)


TASKS: dict[str, Callable[[int, int], Task]] = {
    "kws": keywords,
    "ic": clothes,
    "vww": wake_words,
    "ad": anomalies,
}

PICTURED = ("ic", "vww")


def lacks(name: str) -> str:
    """What a network's data needs and is not here; nothing if all is."""
    return fashion.fashion_lacks() if name in PICTURED else ""
