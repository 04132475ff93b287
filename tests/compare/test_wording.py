from zlpr.compare.wording import duration


def test_times_are_said_as_people_say_them():
    assert [duration(s) for s in (0.4, 59, 61, 3600, 86399)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h 0 min",
        "23 h 59 min",
    ]
