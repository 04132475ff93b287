import subprocess
import sys

from tests import walks


def test_the_walks_list_the_files_that_are_passed():
    """In a process of its own: what other tests left in caches would not be passed again."""
    code = "import json; from tests import walks; print(json.dumps(walks.walks()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=walks.ROOT, capture_output=True, text=True, check=True
    )
    import json

    made = json.loads(done.stdout.splitlines()[-1])
    listed = walks.listed()
    assert list(listed) == list(made)
    for title, files in made.items():
        assert sorted(listed[title]) == sorted(files), "write them anew: python -m tests.walks"
