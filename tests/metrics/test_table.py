from zlpr.metrics import available, info
from zlpr.metrics.table import figure_rows


def test_a_row_per_metric_in_brief_and_a_column_per_part():
    figures = dict.fromkeys(available(), 0.25)
    headers, rows = figure_rows({"validation": figures, "test": {"micro_f1": 0.5}})
    assert headers == ["metric", "validation", "test"]
    brief = [info(name) for name in available() if info(name).in_brief]
    assert [row[0].removesuffix(" ↓") for row in rows] == [metric.words for metric in brief]
    for metric, row in zip(brief, rows, strict=True):
        assert row[0].endswith("↓") == (metric.larger_is_better is False)
        value = "25.0 %" if metric.is_share else "0.25"
        assert row[1:] == [value, "50.0 %" if metric.name == "micro_f1" else "-"]
