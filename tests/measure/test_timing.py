"""Times are taken in turns, and a clock gives those of one call."""

from lbnn.measure import timing


def test_the_reference_of_all_ratios_is_timed_with_the_others():
    times = timing.time_in_turns({"onnx": lambda: 2.0, "c": lambda: 0.5}, batch=10)
    assert times["onnx"].ratio == 1.0
    assert times["c"] == timing.Time(microseconds=0.05e6, ratio=0.25, low=0.25, high=0.25)
    assert timing.time_in_turns({"c": lambda: 0.5}, batch=10)["c"].ratio is None


def test_a_clock_gives_the_seconds_of_one_call():
    calls = []
    seconds = timing.clock(lambda: calls.append(1))
    before = len(calls)
    assert 0 < seconds() < 1 and len(calls) > before
