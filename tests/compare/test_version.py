import shutil
import subprocess
import sys
from pathlib import Path

import zlpr
from zlpr.compare.version import code_version


def version_of(source: Path) -> str:
    """What a copy of the package says of itself."""
    code = "from zlpr.compare.version import code_version; print(code_version())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(source), "PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_code_that_decides_changes_the_version_and_other_code_does_not(tmp_path):
    copy = tmp_path / "zlpr"
    shutil.copytree(Path(zlpr.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert version_of(tmp_path) == code_version()
    with (copy / "compare" / "report.py").open("a") as file:
        file.write("# another word\n")
    assert version_of(tmp_path) == code_version()
    seen = {code_version()}
    for place in ("losses/zlpr.py", "_ancestors.py"):
        with (copy / place).open("a") as file:
            file.write("# another word\n")
        changed = version_of(tmp_path)
        assert changed not in seen
        assert changed.startswith(f"{zlpr.__version__}+")
        seen.add(changed)
