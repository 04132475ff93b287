"""What the package promises before any of its rooms is used."""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import zlpr
from zlpr.cli import main as cli

ROOT = Path(__file__).parent.parent
HEAVY = [
    "transformers",
    "accelerate",
    "sklearn",
    "scipy",
    "matplotlib",
    "pyarrow",
    "datasets",
    "ray",
    "rich",
    "fastapi",
    "uvicorn",
    "onnx",
    "onnxruntime",
    "jax",
    "keras",
    "lightning",
    "mlflow",
    "torchmetrics",
]


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running the code."""
    script = (
        f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    )
    return set(run(sys.executable, "-c", script).stdout.splitlines()[-1].split())


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    finished = subprocess.run(command, capture_output=True, text=True, **options)
    assert finished.returncode == 0, finished.stderr
    return finished


def test_import_and_first_loss_load_nothing_heavier_than_torch():
    modules = loaded_after("import zlpr; zlpr.losses.ZLPRLoss()")
    assert "torch" in modules
    assert modules.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in cli.COMMANDS)]
)
def test_help_loads_neither_torch_nor_anything_heavy(arguments):
    code = f"""
import contextlib
from zlpr.cli.main import main
with contextlib.suppress(SystemExit):
    main({arguments!r})
"""
    assert loaded_after(code).isdisjoint(["torch", "numpy", *HEAVY])


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_shows_an_example_that_starts_with_itself(name, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main([name, "--help"])
    assert leaving.value.code == 0
    assert re.search(rf"example:\n +zlpr {name}\b", capsys.readouterr().out)


def test_an_unknown_command_is_one_line_and_exit_code_two(capsys):
    assert cli.main(["trian"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no command 'trian'" in error
    assert "losses" in error


def test_a_missing_extra_is_named_in_one_line(monkeypatch, capsys):
    def missing(name, arguments):
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn.feature_extraction")

    monkeypatch.setattr(cli, "run_command", missing)
    assert cli.main(["losses"]) == 2
    assert capsys.readouterr().err == (
        'zlpr: error: zlpr losses needs the package sklearn: pip install "zlpr[text]"\n'
    )


def test_a_missing_package_that_no_extra_brings_is_a_fault_of_ours(monkeypatch):
    def missing(name, arguments):
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    monkeypatch.setattr(cli, "run_command", missing)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["losses"])


def test_an_operating_system_error_is_one_line(monkeypatch, capsys):
    def full(name, arguments):
        raise OSError(28, "No space left on device", "model/config.json")

    monkeypatch.setattr(cli, "run_command", full)
    assert cli.main(["losses"]) == 1
    assert capsys.readouterr().err == "zlpr: error: model/config.json: No space left on device\n"


def test_extras_are_the_promised_ones_and_name_the_packages_of_their_error_lines():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {"text", "report", "data", "dev", "all"} <= extras.keys()
    assert [re.match(r"\w+", line)[0] for line in project["dependencies"]] == ["torch", "numpy"]
    distributions = {"sklearn": "scikit-learn", "scikit_posthocs": "scikit-posthocs"}
    for package, extra in cli.EXTRA_OF.items():
        brought = [re.match(r"[\w-]+", line)[0] for line in extras[extra]]
        assert distributions.get(package, package) in brought


def test_version_has_one_source():
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {zlpr.__version__}\n" in citation


def test_constraints_pin_torch_to_the_processor_only_build():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_the_wheel_installs_into_an_empty_environment_and_prints_its_help(tmp_path):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    binaries = tmp_path / "empty" / "bin"
    run(binaries / "python", "-m", "pip", "install", "--no-deps", "--no-index", "-q", wheel)
    clean = {"PATH": str(binaries)}
    assert "usage: zlpr COMMAND" in run(binaries / "zlpr", "--help", env=clean).stdout
    packaged = run(sys.executable, "-m", "zipfile", "-l", wheel).stdout
    assert "zlpr/py.typed" in packaged
