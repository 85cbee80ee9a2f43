"""The generated folder: what it holds, and that it builds anywhere."""

import hashlib
import json
import math
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lbnn
from c_models import MODELS, STRICT, WARNINGS, export, mlp, read, run, sources
from lbnn.base.errors import LbnnError
from lbnn.exporters.c import COptions, export_c, generate, lower
from lbnn.exporters.c.folder import write_program
from lbnn.model.file import read_model
from places import ROOT, TESTS, need


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
    return lower(read(name), COptions()).plan.size


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
    script = "import test_folder; print(test_folder.digest())"
    # Behind what the caller has: the other process must import the same lbnn as this one.
    paths = filter(None, (os.environ.get("PYTHONPATH"), str(TESTS / "support")))
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(paths)}
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


@pytest.mark.parametrize("variance", [False, True])
def test_those_who_run_a_model_are_told_what_its_header_says(tmp_path, variance):
    model, options = read("series"), COptions(name="net", input_variance=variance)
    net = write_program(lower(model, options), model, options, tmp_path / "c")
    header = (net.folder / "net.h").read_text()
    lengths = dict(re.findall(r"#define NET_(\w+)_LEN (\d+)", header))
    assert {"INPUT": net.input_len, "OUTPUT": net.output_len, "WORK": net.work_len} == {
        key: int(length) for key, length in lengths.items()
    }
    assert net.input_variance is variance is ("const float input_variance[" in header)
    assert net.work_bytes == 4 * net.work_len


def test_an_existing_folder_is_kept_unless_forced(tmp_path):
    export("gas_sensor", tmp_path / "out")
    with pytest.raises(LbnnError, match="force"):
        export("gas_sensor", tmp_path / "out")
    export_c(read("gas_sensor"), tmp_path / "out", COptions(name="other"), force=True)
    assert (tmp_path / "out" / "other.h").exists() and not (tmp_path / "out" / "gas_sensor.h").exists()


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
