"""Keyword-like sounds made here, and the features a keyword spotter hears of them.

A word is a path of two formants, spoken by a voice of its own pitch, tract and pace; some begin or end with a hiss. A
sound of one second at 8 kHz becomes 49 frames of 10 cepstral coefficients, what small keyword networks usually take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE = 8_000
LENGTH = RATE  # samples of a sound
WINDOW, HOP, FRAMES = 320, 160, 49
BANDS, COEFFICIENTS = 20, 10
HARMONICS = 32


@dataclass(frozen=True)
class Word:
    """Formants in Hz that the voice passes through at even times, and how much of the word hisses at either end."""

    path: tuple[tuple[float, float], ...]
    hiss_before: float = 0.0
    hiss_after: float = 0.0


AH, EE, OO, EH, OH = (750.0, 1200.0), (300.0, 2300.0), (320.0, 800.0), (550.0, 1800.0), (500.0, 900.0)
WORDS = {
    "yai": Word((EE, AH, EE)),
    "noh": Word((OO, OH, OH)),
    "aup": Word((AH, OO)),
    "see": Word((EE, EE), hiss_before=0.35),
    "wah": Word((OO, AH)),
    "left": Word((EH, EH), hiss_after=0.35),
    "so": Word((OH, OO), hiss_before=0.3),
}
NAMES = (*WORDS, "(none)")
UNKNOWN = {"aiee": Word((AH, EE)), "ohs": Word((OH, AH), hiss_after=0.3)}
"""Words that nothing is trained on."""


def speak(word: Word | None, rng: np.random.Generator, noise: tuple[float, float] = (0.02, 0.5)) -> np.ndarray:
    """One second of a word, or of none, by a random voice in random noise; `noise` is the range of its amplitude."""
    sound = np.zeros(LENGTH)
    if word is not None:
        spoken = _voice(word, rng)
        start = rng.integers(0, LENGTH - len(spoken))
        sound[start : start + len(spoken)] = spoken / np.sqrt(np.mean(spoken**2))
    low, high = np.log(noise)
    return sound + np.exp(rng.uniform(low, high)) * _coloured(LENGTH, rng.uniform(0.0, 0.9), rng)


def _voice(word: Word, rng: np.random.Generator) -> np.ndarray:
    """The word from its first sample to its last."""
    length = int(RATE * rng.uniform(0.4, 0.8))
    time = np.linspace(0.0, 1.0, length)
    tract = rng.uniform(0.85, 1.18)
    path = tract * np.array(word.path) * rng.normal(1.0, 0.06, (len(word.path), 2))
    formants = [np.interp(time, np.linspace(0.0, 1.0, len(path)), part) for part in path.T]
    pitch = rng.uniform(90.0, 220.0) * (1.0 + rng.uniform(-0.2, 0.2) * time)
    voiced = _harmonics(pitch, formants) * np.sin(np.pi * time) ** 0.3
    hiss = _coloured(length, -0.9, rng)
    share = np.clip(np.maximum(word.hiss_before - time, time - 1.0 + word.hiss_after) / 0.05, 0.0, 1.0)
    return (1.0 - share) * voiced / np.sqrt(np.mean(voiced**2)) + 0.6 * share * hiss


def _harmonics(pitch: np.ndarray, formants: list[np.ndarray]) -> np.ndarray:
    """Overtones of a falling series, each as loud as the two resonances let it be."""
    turn = np.exp(2j * np.pi * np.cumsum(pitch) / RATE)
    sound, tone = np.zeros(len(pitch)), np.ones(len(pitch), complex)
    for number in range(1, HARMONICS + 1):
        tone *= turn
        at = number * pitch
        gain = sum(1.0 / (1.0 + ((at - formant) / 90.0) ** 2) for formant in formants)
        sound += np.where(at < 0.95 * RATE / 2, gain / np.sqrt(number), 0.0) * tone.imag
    return sound


def _coloured(length: int, pole: float, rng: np.random.Generator) -> np.ndarray:
    """Noise of amplitude 1 through one pole: low where that is positive, hissing where it is negative."""
    white = np.fft.rfft(rng.normal(size=length))
    filtered = np.fft.irfft(white / np.abs(1.0 - pole * np.exp(-1j * np.linspace(0.0, np.pi, len(white)))), length)
    return filtered / np.sqrt(np.mean(filtered**2))


# ---- features ---------------------------------------------------------------------------------------------------


def _filters() -> np.ndarray:
    """Triangles of equal width on the mel scale, over the bins of a window's spectrum."""
    mel = np.linspace(0.0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = np.linspace(0.0, RATE / 2, WINDOW // 2 + 1)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.clip(np.minimum(rising, falling), 0.0, None)


FILTERS = _filters()
COSINES = np.cos(np.pi / BANDS * np.outer(np.arange(COEFFICIENTS), np.arange(BANDS) + 0.5)) * np.sqrt(2 / BANDS)
COSINES[0] *= 0.5  # the loudness, which says little


def features(sound: np.ndarray) -> np.ndarray:
    """49 frames of 10 cepstral coefficients: shape (1, 49, 10)."""
    starts = HOP * np.arange(FRAMES)
    frames = sound[starts[:, None] + np.arange(WINDOW)] * np.hanning(WINDOW)
    energies = np.abs(np.fft.rfft(frames)) ** 2 @ FILTERS.T
    return (np.log(energies + 1e-3) @ COSINES.T)[None].astype(np.float32)


def recordings(count: int, seed: int, words: dict[str, Word] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, 1, 49, 10) and class numbers (N,); each word as often as the others, or only some other words."""
    rng = np.random.default_rng(seed)
    spoken = [*WORDS.values(), None] if words is None else list(words.values())
    labels = np.arange(count) % len(spoken)
    rng.shuffle(labels)
    return np.stack([features(speak(spoken[label], rng)) for label in labels]), labels.astype(np.int64)
