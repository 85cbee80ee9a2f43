"""The generated folder: what it holds, that it builds anywhere, and that it computes what the model does."""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lbnn
from c_models import MODELS, STRICT, WARNINGS, Library, export, mlp, read, run, sources
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.base.moments import Moments
from lbnn.base.resources import folder as resource_folder
from lbnn.exporters.c import COptions, c_name, export_c, generate, list_calls
from lbnn.exporters.c.literals import rows, scalar
from lbnn.exporters.c.names import RESERVED, comment, identifiers
from lbnn.exporters.c.selftest import SCALES, golden
from lbnn.graph import GraphBuilder
from lbnn.graph.reference import predict
from lbnn.measure.parity import FLOAT32_TOLERANCE, Outcome, errors
from lbnn.measure.samples import draw_samples
from lbnn.model.file import Model, read_model
from places import ROOT, TESTS, need
from plans import graphs
from strategies import networks


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Every model as C, once with and once without input variance."""
    base = tmp_path_factory.mktemp("c")
    names = [(name, variance) for name in MODELS for variance in (False, True)]
    return {(n, v): export(n, base / f"{n}_{int(v)}", input_variance=v) for n, v in names}


@pytest.fixture(scope="session")
def library(folders):
    """The sensor's model in a shared library, with input variance."""
    need("gcc")
    folder = folders["gas_sensor", True]
    run("gcc", *STRICT, "-O1", "-shared", "-fPIC", "gas_sensor.c", "-o", "model.so", "-lm", cwd=folder)
    macros = dict(re.findall(r"#define GAS_SENSOR_(\w+)_LEN (\d+)", (folder / "gas_sensor.h").read_text()))
    return Library(folder / "model.so", "gas_sensor", *(int(macros[key]) for key in ("INPUT", "OUTPUT", "WORK")))


# ---- the folder -----------------------------------------------------------------------------------


def test_the_folder_holds_what_is_promised_and_the_runtime_it_needs(folders):
    own = {f"gas_sensor{end}" for end in (".h", ".c", "_weights.h", "_selftest.c", "_footprint.json")}
    runtime = {"lbnn.h", "lbnn_math.h", "lbnn_linear.h", "lbnn_activation.h", "lbnn_pointwise.h"}
    files = {path.name for path in folders["gas_sensor", False].iterdir()}
    assert files >= own | {"example_main.c", "CMakeLists.txt"} | runtime
    assert not files & {"lbnn_conv.h", "lbnn_pool.h"}


def test_the_header_states_lengths_and_signatures(folders):
    text = (folders["gas_sensor", False] / "gas_sensor.h").read_text()
    assert "#define GAS_SENSOR_INPUT_LEN 4\n" in text and "#define GAS_SENSOR_OUTPUT_LEN 1\n" in text
    work = plan_size("gas_sensor")
    assert f"#define GAS_SENSOR_WORK_LEN {work} " in text and work == 2 * (9 + 3)
    assert "input_variance" not in text
    assert "const float input_variance[" in (folders["gas_sensor", True] / "gas_sensor.h").read_text()


def plan_size(name):
    return list_calls(read(name), COptions()).plan.size


def test_the_source_is_one_line_a_layer(folders):
    text = (folders["gas_sensor", False] / "gas_sensor.c").read_text()
    calls = re.findall(r"^    /\* (\w+) +(\w+) +(\S.*?) +\*/ (lbnn_\w+)\(", text, re.MULTILINE)
    assert [call[3] for call in calls] == [
        "lbnn_linear_point",
        "lbnn_leaky_relu",
        "lbnn_linear",
        "lbnn_leaky_relu",
        "lbnn_linear",
    ]
    assert calls[0][:3] == ("layer_0", "linear_point", "4 -> 9")


def test_the_same_model_and_options_give_the_same_bytes_without_a_date(folders):
    options = COptions(command="lbnn export model.pt --target c")
    first, second = generate(read("zoo"), options), generate(read("zoo"), options)
    assert first == second
    banner = first["model.c"].splitlines()[:4]
    assert lbnn.__version__ in banner[0] and read("zoo").sha256 in banner[1] and options.command in banner[2]
    assert not re.search(r"\b20\d\d-|\b\d\d:\d\d\b", "".join(banner))


def test_the_bytes_do_not_depend_on_the_order_of_hashes():
    script = "import test_c_folder; print(test_c_folder.digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(TESTS / "support")}
    assert run(sys.executable, "-c", script, cwd=Path(__file__).parent, env=environment).strip() == digest()


def digest():
    return hashlib.sha256(repr(generate(read("zoo"))).encode()).hexdigest()


def test_the_footprint_is_written_for_build_systems(folders):
    data = json.loads((folders["zoo", False] / "zoo_footprint.json").read_text())
    assert data["sha256"] == read("zoo").sha256
    assert data["work_bytes"] == 4 * plan_size("zoo")
    assert data["flash_bytes"] == data["weight_bytes"] + data["code_bytes"]
    weights = (folders["zoo", False] / "zoo_weights.h").read_text()
    lengths = [int(n) for n in re.findall(r"static const float \w+\[(\d+)\]", weights)]
    assert 4 * sum(lengths) <= data["weight_bytes"] <= 4 * sum(lengths) + 512
    assert data["macs"] > 0 and data["stack_bytes"] > 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (dict(package="esp"), "arduino, platformio, esp-idf, zephyr"),
        (dict(weights="flash"), "source, binary"),
        (dict(optimize="fast"), "speed, size"),
        (dict(weights="binary", single_file=True), "binary weights"),
        (dict(board="mps2-an386", single_file=True), "--board alone"),
    ],
)
def test_a_wrong_option_says_what_to_choose(option, message):
    with pytest.raises(LbnnError, match=message):
        COptions(**option)


def test_an_existing_folder_is_kept_unless_forced(tmp_path):
    export("gas_sensor", tmp_path / "out")
    with pytest.raises(LbnnError, match="force"):
        export("gas_sensor", tmp_path / "out")
    export_c(read("gas_sensor"), tmp_path / "out", COptions(name="other"), force=True)
    assert (tmp_path / "out" / "other.h").exists() and not (tmp_path / "out" / "gas_sensor.h").exists()


# ---- names ----------------------------------------------------------------------------------------

HOSTILE = [
    "../x; int main",
    "",
    "int",
    "3d",
    "a*/b",
    "a\nb",
    "日本",
    "__init__",
    "x" * 200,
    "a.b",
    "A-B",
    "??/",
    "math",
    "Math",
    "lbnn",
    "LBNN",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_become_plain_identifiers(text):
    name = c_name(text)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,47}", name)
    assert "__" not in name and not name.endswith("_") and name.lower() not in RESERVED
    assert not name.lower().startswith("lbnn")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=60), unique=True, max_size=8))
def test_different_names_stay_different_whatever_their_case(texts):
    names = identifiers(texts, "layer", taken=("predict",))
    assert len({name.lower() for name in names.values()} | {"predict"}) == len(texts) + 1
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in names.values())


def test_names_that_differ_in_case_alone_become_different():
    assert list(identifiers(["gas", "Gas", "GAS"], "layer").values()) == ["gas", "Gas_2", "GAS_3"]


@given(st.text())
def test_comments_stay_comments(text):
    assert re.fullmatch(r"[ -~]*", comment(text)) and not re.search(r"[*?\\\n]", comment(text))


def test_a_hostile_model_exports_to_safe_names_and_runs(tmp_path):
    need("gcc")
    builder = GraphBuilder("../x; int main", (2,), random=True)
    value = "input"
    for name in ("int", "predict", "selftest", "work", "*/ system();", "mean", "Mean", "3", "golden_mean"):
        value = builder.add(name, "linear", [value], params=dict(weight=gaussian(2, 2), bias=gaussian(2)))
    graph = builder.finish(value)
    options = COptions(command='lbnn export "../*/ x.pt" \\\n#include')
    folder = export_c(Model(graph, "0" * 64, graph.name, {}), tmp_path / "out", options)
    assert all(re.fullmatch(r"[\w.]+", path.name) for path in folder.iterdir())
    run("gcc", *STRICT, *(path.name for path in sources(folder, "x_int_main")), "-o", "a.out", "-lm", cwd=folder)
    assert "self-test: ok" in run(folder / "a.out")


def gaussian(*shape):
    values = np.linspace(-1.0, 1.0, int(np.prod(shape))).reshape(shape)
    return Moments(values, 0.1 + values**2)


# ---- weights --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example([0x447FFFFF])  # 1023.99994: the last before 1024, where eight digits are too few
def test_every_float32_comes_back_bit_for_bit(patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    for texts in ([text for row in rows(values, 8) for text in row.split(", ")], [scalar(v) for v in values]):
        assert all(re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?f", text) and re.search(r"[.e]", text) for text in texts)
        back = np.array([float(text[:-1]) for text in texts]).astype(np.float32)
        assert np.array_equal(back.view(np.uint32), values.view(np.uint32))


def test_a_compiler_reads_every_float32_back(tmp_path):
    """Denormals too, without a warning."""
    need("gcc")
    bits = np.array([0, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000000, 0x3F800001], np.uint32)
    text = rows(bits.view(np.float32), 8)[0]
    checks = " ".join(f"memcpy(&b, &x[{i}], 4); if (b != {bit}u) return 1;" for i, bit in enumerate(bits))
    (tmp_path / "a.c").write_text(
        f"#include <string.h>\nstatic const float x[8] = {{{text}}};\n"
        f"int main(void) {{ unsigned b; {checks} return 0; }}\n"
    )
    run("gcc", *STRICT, "a.c", "-o", "a.out", cwd=tmp_path)
    run(tmp_path / "a.out")


def test_weights_beyond_float32_are_refused():
    builder = GraphBuilder("huge", (1,), random=True)
    huge = Moments(np.full((1, 1), 1e39), np.zeros((1, 1)))
    graph = builder.finish(builder.add("layer", "linear", ["input"], params=dict(weight=huge, bias=gaussian(1))))
    with pytest.raises(LbnnError, match=r"layer .* float32"):
        generate(Model(graph, "", "huge", {}))


def test_binary_weights_are_the_same_numbers(folders, tmp_path):
    need("gcc")
    folder = export("zoo", tmp_path / "out", weights="binary")
    text = (folders["zoo", False] / "zoo_weights.h").read_text()
    arrays = re.findall(r"= \{\n(.*?)\n\}", text, re.DOTALL)
    written = [float(number) for array in arrays for number in array.replace("f", "").split(",")]
    stored = np.fromfile(folder / "zoo_weights.bin", "<f4")
    assert np.array_equal(stored, np.array(written, np.float32))
    files = [*sources(folder, "zoo"), folder / "zoo_weights.S"]
    run("gcc", *STRICT, *(path.name for path in files), "-o", "a.out", "-lm", cwd=folder)
    assert "self-test: ok" in run(folder / "a.out")


def seconds_to_generate(weights, form):
    """Processor time, which other work on the machine does not change."""
    width = math.isqrt(weights // 2)
    model = read_model(mlp(16, width, width, width), (16,))
    start = time.process_time()
    generate(model, COptions(weights=form))
    return time.process_time() - start


@pytest.mark.parametrize("form", ["source", "binary"])
def test_a_million_weights_are_exported_in_seconds_and_time_grows_linearly(form):
    """tools/bench/scale_export.py goes on to ten million, and compiles."""
    small, medium, large = (seconds_to_generate(10**power, form) for power in (4, 5, 6))
    assert large <= 10.0
    assert large <= 20.0 * max(medium, 0.2) and medium <= 20.0 * max(small, 0.05)


# ---- the build ------------------------------------------------------------------------------------

COMPILERS = {
    "gcc": ("gcc", "-std=c99"),
    "clang": ("clang", "-std=c99"),
    "gcc as C++11": ("gcc", "-xc++", "-std=c++11"),
    "clang as C++11": ("clang", "-xc++", "-std=c++11"),
}
ZIG = (sys.executable, "-m", "ziglang", "cc", "-std=c99")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("name", "variance"), [("zoo", False), ("series", True)])
def test_it_builds_without_a_warning_and_passes_its_self_test(folders, tmp_path, compiler, name, variance):
    command = COMPILERS[compiler]
    need(command[0])
    files = sources(folders[name, variance], name)
    run(*command, "-O1", *WARNINGS, *files, "-o", tmp_path / "a.out", "-lm")
    assert "self-test: ok" in run(tmp_path / "a.out")


@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu", "x86-linux-musl", "thumb-linux-musleabihf", "riscv32-linux-musl"]
)
def test_zig_compiles_it_for_64_and_32_bits_without_a_warning(folders, tmp_path, target):
    """Linking would build a C library first; the tests on emulated devices do that."""
    pytest.importorskip("ziglang")
    run(*ZIG, "-target", target, *WARNINGS, "-c", folders["zoo", False] / "zoo.c", "-o", tmp_path / "zoo.o")


@pytest.mark.parametrize(
    "flags", ["-O0", "-O2", "-O3", "-Os", "-O2 -ffast-math", "-O2 -DLBNN_USE_LIBM", "-O2 -DLBNN_STRICT"]
)
def test_it_is_right_at_every_optimisation_level(folders, tmp_path, flags):
    need("gcc")
    run("gcc", *STRICT, *flags.split(), *sources(folders["zoo", False], "zoo"), "-o", tmp_path / "a.out", "-lm")
    assert "self-test: ok" in run(tmp_path / "a.out")


@pytest.mark.parametrize(("name", "weights"), [("test", "source"), ("gas_sensor", "binary")])
def test_cmake_builds_and_tests_the_folder(tmp_path, name, weights):
    """`test` is a name that CMake keeps for itself."""
    cmake, ctest = need("cmake"), need("ctest")
    folder = export_c(read("gas_sensor"), tmp_path / "out", COptions(name=name, weights=weights))
    run(cmake, "-S", folder, "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    assert "100% tests passed" in run(ctest, "--test-dir", tmp_path / "build")


def test_firmware_for_a_board_boots_and_passes_its_self_test(tmp_path):
    make = need("make")
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    folder = export("gas_sensor", tmp_path / "out", board="mps2-an386")
    run(make, "run", cwd=folder)


@pytest.mark.parametrize("language", [("-std=c99",), ("-xc++", "-std=c++11")])
def test_single_file_is_one_header_and_one_source(folders, tmp_path, language):
    need("gcc")
    folder = export("zoo", tmp_path / "out", single_file=True)
    assert {path.name for path in folder.iterdir()} == {"zoo.h", "zoo.c"}
    example = folders["zoo", False] / "example_main.c"
    run("gcc", *language, *WARNINGS, f"-I{folder}", folder / "zoo.c", example, "-o", tmp_path / "a.out", "-lm")
    assert "self-test: ok" in run(tmp_path / "a.out")


def test_optimize_size_gives_smaller_code(folders, tmp_path):
    gcc, size = need("arm-none-eabi-gcc"), need("arm-none-eabi-size")
    small = export("zoo", tmp_path / "out", optimize="size")
    sizes = []
    for number, folder in enumerate((small, folders["zoo", False])):
        run(
            gcc, "-mcpu=cortex-m4", "-mthumb", "-std=c99", "-Os", "-c", folder / "zoo.c", "-o", tmp_path / f"{number}.o"
        )
        sizes.append(int(run(size, tmp_path / f"{number}.o").splitlines()[1].split()[0]))
    assert sizes[0] < sizes[1]


def test_optimize_size_leaves_one_kernel_for_all_sums_of_a_model_with_convolutions(tmp_path):
    folder = export("zoo", tmp_path / "zoo", optimize="size")
    calls = set(re.findall(r"lbnn_\w+(?=\()", (folder / "zoo.c").read_text()))
    assert "lbnn_conv2d_small" in calls and not {name for name in calls if "linear" in name or name == "lbnn_conv2d"}
    assert not {path.name for path in folder.iterdir()} & {"lbnn_conv.h", "lbnn_linear.h"}
    folder = export("gas_sensor", tmp_path / "gas_sensor", optimize="size")
    text = (folder / "gas_sensor.c").read_text()
    assert not (folder / "lbnn_conv_small.h").exists() and "lbnn_linear_point(" in text
    assert "#define LBNN_OPTIMIZE_SIZE\n" in text.partition("#include")[0]


def test_another_runtime_is_a_compile_error(tmp_path):
    gcc = need("gcc")
    folder = export("gas_sensor", tmp_path / "out")
    header = folder / "lbnn.h"
    header.write_text(re.sub(r"(#define LBNN_ABI_VERSION) \d+", r"\1 999", header.read_text()))
    with pytest.raises(AssertionError, match="was generated for version"):
        run(gcc, "-c", "gas_sensor.c", cwd=folder)


def test_models_in_one_program_do_not_collide_and_share_a_work_buffer(folders, tmp_path):
    need("gcc")
    names = list(MODELS)
    includes = "".join(f'#include "{name}.h"\n' for name in names)
    lengths = " + ".join(f"{name.upper()}_WORK_LEN" for name in names)
    calls = " | ".join(f"{name}_selftest(work)" for name in names)
    main = f"{includes}static float work[{lengths}];\nint main(void) {{ return {calls}; }}\n"
    (tmp_path / "main.c").write_text(main)
    files = [path for name in names for path in sources(folders[name, False], name)[:2]]
    include = [f"-I{folders[name, False]}" for name in names]
    run("gcc", *STRICT, "-O1", *include, tmp_path / "main.c", *files, "-o", tmp_path / "a.out", "-lm")
    run(tmp_path / "a.out")
    unity = "".join(f'#include "{path}"\n' for path in files) + main
    (tmp_path / "unity.c").write_text(unity)
    run("gcc", *STRICT, "-O1", *include, tmp_path / "unity.c", "-o", tmp_path / "b.out", "-lm")
    run(tmp_path / "b.out")


def test_the_program_in_the_documentation_compiles_and_runs(folders, tmp_path):
    need("gcc")
    text = (ROOT / "docs" / "c.md").read_text()
    (program,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (tmp_path / "main.c").write_text(program)
    folder = folders["gas_sensor", False]
    run("gcc", *STRICT, f"-I{folder}", tmp_path / "main.c", folder / "gas_sensor.c", "-o", tmp_path / "a.out", "-lm")
    assert re.fullmatch(r"-?[\d.e-]+, variance [\d.e-]+\n", run(tmp_path / "a.out"))


# ---- what it computes -----------------------------------------------------------------------------

GOOD = [0.5, -1.0, 2.0, 0.25]


def test_a_good_call_returns_ok_and_both_moments(library):
    status, mean, variance = library.predict(GOOD, [0.1] * 4)
    graph = list_calls(read("gas_sensor"), COptions(input_variance=True)).graph
    want = predict(graph, np.array([GOOD]), np.full((1, 4), 0.1))
    assert status == 0
    assert np.allclose(mean, want.mean, rtol=1e-5) and np.allclose(variance, want.var, rtol=1e-5)


@pytest.mark.parametrize("null", ["input", "input_variance", "mean", "variance", "work"])
def test_a_null_pointer_is_reported_and_outputs_stay(library, null):
    status, mean, variance = library.predict(GOOD, [0.1] * 4, null=null)
    assert status == -1
    assert np.all(mean == library.FILL) and np.all(variance == library.FILL)


@pytest.mark.parametrize(
    ("status", "x", "var"),
    [
        (-2, [np.nan, 0, 0, 0], [0] * 4),
        (-2, [0, 0, 0, np.inf], [0] * 4),
        (-2, [0, -np.inf, 0, 0], [0] * 4),
        (-2, GOOD, [0, 0, np.nan, 0]),
        (-2, GOOD, [0, 0, 0, np.inf]),
        (-2, GOOD, [0, -1e-30, 0, 0]),
        (-3, [3e38] * 4, [0] * 4),
    ],
)
def test_bad_numbers_are_reported_and_outputs_stay(library, status, x, var):
    got, mean, variance = library.predict(x, var)
    assert got == status
    assert np.all(mean == library.FILL) and np.all(variance == library.FILL)


def test_minus_zero_is_a_variance(library):
    assert library.predict(GOOD, [-0.0] * 4)[0] == 0


def test_a_self_test_fails_where_the_arithmetic_is_wrong(folders, tmp_path):
    need("gcc")
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in folders["gas_sensor", False].iterdir():
        text = path.read_text()
        (broken / path.name).write_text(text.replace("9, 0.01f)", "9, 0.0101f)"))
    run("gcc", *STRICT, *(path.name for path in sources(broken, "gas_sensor")), "-o", "a.out", "-lm", cwd=broken)
    with pytest.raises(AssertionError, match="self-test: FAILED"):
        run(broken / "a.out")


WRONG = {
    "a mean too small": "mean[0] -= 1e-4f * (fabsf(mean[0]) + sqrtf(variance[0]));",
    "a mean too large": "mean[0] += 1e-4f * (fabsf(mean[0]) + sqrtf(variance[0]));",
    "a variance too small": "variance[0] *= 0.9999f;",
    "a variance too large": "variance[0] *= 1.0001f;",
    "a small variance too large": "if (call == 1) variance[0] *= 1.0001f;",
    "the last output": "mean[SERIES_OUTPUT_LEN - 1] *= 2.0f;",
    "a later vector": "if (call > 1) variance[0] *= 1.0001f;",
    "a prediction that fails": "if (call > 1) return LBNN_ERROR_OUTPUT;",
}
WRAPPED = """#include "series.h"
#include <math.h>
lbnn_status right(const float *input, float *mean, float *variance, float *work);
lbnn_status series_predict(const float *input, float *mean, float *variance, float *work)
{
    static int call = 0;
    const lbnn_status status = right(input, mean, variance, work);
    call++;
    CHANGE
    return status;
}
static float work[SERIES_WORK_LEN];
int main(void) { return series_selftest(work) != 0; }
"""


def test_a_self_test_fails_if_one_moment_of_one_output_of_one_vector_is_wrong(folders, tmp_path):
    need("gcc")
    folder = folders["series", False]
    run("gcc", *STRICT, "-O1", "-Dseries_predict=right", "-c", folder / "series.c", "-o", tmp_path / "model.o")
    for change in ("", *WRONG.values()):
        (tmp_path / "main.c").write_text(WRAPPED.replace("CHANGE", change))
        files = (tmp_path / "main.c", folder / "series_selftest.c", tmp_path / "model.o")
        run("gcc", "-std=c99", f"-I{folder}", *files, "-o", tmp_path / "a.out", "-lm")
        assert subprocess.run([tmp_path / "a.out"], check=False).returncode == bool(change), change


def test_the_inputs_of_the_self_test_have_the_scales_that_it_states():
    vectors = golden(list_calls(read("zoo"), COptions(input_variance=True)).graph)
    largest = np.abs(vectors.mean).max(axis=1)
    assert vectors.scales == SCALES
    assert np.all(largest >= vectors.scales) and np.all(largest <= 2.0 * np.array(vectors.scales))
    assert [bool(var.any()) for var in vectors.var] == [scale > 0.0 for scale in vectors.scales]


def test_a_model_that_magnifies_rounding_states_the_tolerance_it_needs():
    """1000.1 x - 999.9 x with hardly any variance: a good part of the mean is rounding."""
    builder = GraphBuilder("cancels", (1,), random=True)
    value = "input"
    for weight in ([[1000.1], [999.9]], [[1.0, -1.0]]):
        sharp = Moments(np.array(weight), np.full_like(weight, 1e-14))
        bias = Moments(np.zeros(()), np.zeros(()))
        value = builder.add("layer", "linear", [value], params=dict(weight=sharp, bias=bias))
    graph = builder.finish(value)
    files = generate(Model(graph, "", "cancels", {}))
    tolerance = re.search(r"tolerance = ([\d.e-]+)f;", files["cancels_selftest.c"])[1]
    assert float(tolerance) > 1e-5
    assert "tolerance = 1e-05f;" in generate(read("zoo"), COptions())["model_selftest.c"]


def parity(model, variance, flags):
    """The worst errors of compiled C against the float64 reference of the graph as traced."""
    samples = draw_samples(model, 40, seed=1, input_variance=variance)
    got = lbnn.compile(model, input_variance=variance, flags=flags)(samples.mean, samples.var)
    return worst(model, samples, got)


def worst(model, samples, got):
    want = predict(model.graph, samples.mean, samples.var)
    return [float(part.max()) for part in errors(Outcome(got.mean, got.var), want)]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(), st.booleans())
def test_random_networks_keep_the_parity_contract(network, variance):
    assert max(parity(read_model(*network), variance, ("-O1",))) <= FLOAT32_TOLERANCE


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(random=True), st.booleans())
def test_networks_whose_branches_share_memory_keep_the_parity_contract(graph, variance):
    assert max(parity(Model(graph, "", "graph", {}), variance, ("-O0",))) <= FLOAT32_TOLERANCE


def test_rows_branches_and_three_parts_keep_the_parity_contract():
    """What random graphs meet now and then, in one."""
    builder = GraphBuilder("parts", (2, 3), random=True)
    rows = builder.add("rows", "linear", ["input"], params=dict(weight=gaussian(4, 3), bias=gaussian(4)))
    act = builder.add("act", "leaky_relu", [rows], {"negative_slope": 0.1})
    scales = dict(scale=np.array([[2.0], [0.5]]), shift=np.array(1.0))
    scaled = builder.add("scaled", "affine", [rows], params=scales)
    parts = builder.add("parts", "concat", [act, rows, scaled], {"axis": 1})
    flat = builder.add("flat", "flatten", [parts])
    graph = builder.finish(builder.add("out", "linear", [flat], params=dict(weight=gaussian(2, 24), bias=gaussian(2))))
    assert max(parity(Model(graph, "", "parts", {}), True, ("-O0",))) <= FLOAT32_TOLERANCE


def test_a_model_that_needs_no_memory_still_has_a_work_array():
    graph = GraphBuilder("same", (3,), random=True).finish("input")
    model = Model(graph, "0" * 64, "same", {})
    assert "#define SAME_WORK_LEN 1 " in generate(model, COptions(input_variance=True))["same.h"]
    mean, var = lbnn.compile(model, input_variance=True, flags=("-O0",))(np.array([[1.0, 2.0, 3.0]]), np.ones((1, 3)))
    assert mean.tolist() == [[1.0, 2.0, 3.0]] and var.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_optimized_for_size_keep_the_parity_contract(tmp_path, name, variance):
    need("gcc")
    model = read(name)
    folder = export(name, tmp_path / "out", input_variance=variance, optimize="size")
    run("gcc", *STRICT, "-Os", "-shared", "-fPIC", f"{name}.c", "-o", "model.so", "-lm", cwd=folder)
    macros = dict(re.findall(rf"#define {name.upper()}_(\w+)_LEN (\d+)", (folder / f"{name}.h").read_text()))
    library = Library(folder / "model.so", name, *(int(macros[key]) for key in ("INPUT", "OUTPUT", "WORK")))
    samples = draw_samples(model, 20, seed=1, input_variance=variance)
    parts = (samples.mean, samples.var) if variance else (samples.mean,)
    results = [library.predict(*(part.reshape(-1) for part in sample)) for sample in zip(*parts, strict=True)]
    assert not any(status for status, _, _ in results)
    got = Moments(*(np.array(part) for part in list(zip(*results, strict=True))[1:]))
    assert max(worst(model, samples, got)) <= FLOAT32_TOLERANCE


@pytest.mark.parametrize("optimize", ["speed", "size"])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.lists(networks(), min_size=3, max_size=3))
def test_random_networks_pass_their_self_tests_under_sanitizers(tmp_path_factory, optimize, found):
    need("gcc")
    folder = tmp_path_factory.mktemp("sanitized")
    names = [f"net_{number}" for number in range(len(found))]
    for name, (module, shape) in zip(names, found, strict=True):
        export_c(read_model(module, shape), folder / name, COptions(name=name, optimize=optimize))
    includes = "".join(f'#include "{name}/{name}.c"\n#include "{name}/{name}_selftest.c"\n' for name in names)
    calls = " ".join(
        f"{{ static float work[{name.upper()}_WORK_LEN]; if ({name}_selftest(work)) return {number + 1}; }}"
        for number, name in enumerate(names)
    )
    (folder / "main.c").write_text(f"{includes}int main(void) {{ {calls} return 0; }}\n")
    sanitize = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-g")
    run("gcc", *STRICT, "-O1", *sanitize, *(f"-I{name}" for name in names), "main.c", "-o", "a.out", "-lm", cwd=folder)
    run(folder / "a.out")


def test_a_model_without_variance_reports_zero():
    builder = GraphBuilder("certain", (3,), random=True)
    graph = builder.finish(builder.add("act", "leaky_relu", ["input"], {"negative_slope": 0.5}))
    compiled = lbnn.compile(Model(graph, "0" * 64, "certain", {}), flags=("-O0",))
    mean, var = compiled(np.array([[-2.0, 0.0, 3.0]]))
    assert mean.tolist() == [[-1.0, 0.0, 3.0]] and var.tolist() == [[0.0, 0.0, 0.0]]


# ---- from Python ----------------------------------------------------------------------------------


def test_compile_takes_a_path_and_returns_a_function_of_arrays(tmp_path):
    torch.manual_seed(0)
    model = mlp(3, 5, 2)
    lbnn.save(model, tmp_path / "model.pt", input_shape=(3,))
    compiled = lbnn.compile(tmp_path / "model.pt", flags=("-O1",))
    x = np.random.default_rng(0).normal(size=(7, 3))
    mean, var = compiled(x)
    with torch.no_grad():
        want = model.double()(torch.tensor(x, dtype=torch.float32).double())
    assert mean.shape == var.shape == (7, 2) and mean.dtype == np.float32
    assert np.allclose(mean, want.mean, rtol=1e-5, atol=1e-6) and np.allclose(var, want.var, rtol=1e-5)
    assert compiled(x[:0]).mean.shape == (0, 2)


def test_compile_gives_each_sample_its_own_input_variance():
    compiled = lbnn.compile(mlp(3, 2), (3,), input_variance=True, flags=("-O0",))
    x, var = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 4, 3))
    together = [part.copy() for part in compiled(x, var)]
    for i in range(4):
        alone = compiled(x[i : i + 1], var[i : i + 1])
        assert [part[i].tolist() for part in together] == [part[0].tolist() for part in alone]


def test_compile_reports_what_is_wrong_with_the_input():
    compiled = lbnn.compile(mlp(3, 1), (3,), flags=("-O0",))
    with pytest.raises(LbnnError, match=r"takes \(N, \*\(3,\)\)"):
        compiled(np.zeros(3))
    with pytest.raises(LbnnError, match="sample 1: an input is not finite"):
        compiled(np.array([[0.0] * 3, [np.nan] * 3]))
    with pytest.raises(LbnnError, match="input_variance=True"):
        compiled(np.zeros((1, 3)), np.zeros((1, 3)))


# ---- templates ------------------------------------------------------------------------------------


def test_templates_hold_layout_only():
    texts = [path.read_text() for path in (resource_folder("codegen_templates") / "c").rglob("*.j2")]
    expressions = [match for text in texts for match in re.findall(r"\{\{(.*?)\}\}", text)]
    tags = [match for text in texts for match in re.findall(r"\{%(.*?)%\}", text)]
    assert all(re.fullmatch(r" [a-z0-9_.]+ ", expression) for expression in expressions)
    allowed = r" (if [a-z_.]+|else|endif|endfor|for \w+ in [a-z_.]+|include \"[a-z_.0-9]+\") "
    assert all(re.fullmatch(allowed, tag) for tag in tags)


def test_the_header_names_the_columns_that_the_file_names(tmp_path):
    model = bnn.Sequential(bnn.Linear(2, 1))
    columns = {"inputs": ["adc counts", "*/ int evil; /*"], "targets": ["temperature"]}
    path = lbnn.save(model, tmp_path / "thermo.pt", input_shape=(2,), metadata=columns)
    header = generate(read_model(path))["thermo.h"]
    assert " *     input[0]  adc counts\n *     input[1]  _/ int evil; /_\n *     mean[0]  temperature\n" in header
