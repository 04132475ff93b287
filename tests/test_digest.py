import hashlib

from zlpr._digest import file_digest, tree_digest


def test_a_file_has_the_digest_of_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert file_digest(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_a_folder_is_known_by_its_names_and_contents_alone(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "a").write_text("x")
        (tmp_path / folder / "sub" / "b").write_text("y")
    one = tree_digest(tmp_path / "one")
    assert tree_digest(tmp_path / "two") == one
    (tmp_path / "two" / "a").write_text("z")
    assert tree_digest(tmp_path / "two") != one
    (tmp_path / "two" / "a").write_text("x")
    (tmp_path / "two" / "sub" / "b").rename(tmp_path / "two" / "b")
    assert tree_digest(tmp_path / "two") != one


def test_what_links_lead_to_counts_once_however_they_turn(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part").write_text("x")
    data = tmp_path / "data"
    data.mkdir()
    (data / "test").symlink_to(tmp_path / "elsewhere")
    (data / "train").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(data)
    before = tree_digest(data)
    (tmp_path / "elsewhere" / "part").write_text("y")
    assert tree_digest(data) != before
    (tmp_path / "elsewhere" / "part").write_text("x")
    assert tree_digest(data) == before
