"""Sizes, lists of CPUs, numbers of system files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.preflight.quantity import cpu_list, cpu_text, parse_size, round_up, size, whole


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("31MB", 31_000_000), ("2.4GiB", round(2.4 * 2**30)), ("64 MiB", 64 * 2**20), ("65536", 65536), ("4g", 4 * 10**9),
        ("1TiB", 2**40), ("0", 0), ("", None), ("MB", None), ("-1", None), ("1e9", None), ("4 XB", None), ("3ib", None),
        ("٣MB", None), ("1.2.3G", None),
    ],
)  # fmt: skip
def test_sizes(text, n):
    assert parse_size(text) == n


@given(st.integers(0, 2**50))
def test_a_size_that_was_written_is_read_again(n):
    assert abs(parse_size(size(n).replace("bytes", "")) - n) <= max(n * 0.05, 1)


@pytest.mark.parametrize(
    ("n", "text"), [(64 * 2**20, "64 MiB"), (2.4 * 2**30, "2.4 GiB"), (999, "999 bytes"), (2**50, "1024 TiB")]
)
def test_sizes_for_people(n, text):
    assert size(n) == text


def test_a_size_to_ask_for_is_never_too_small():
    assert round_up(1) == "1g" and round_up(2**30) == "1g" and round_up(2**30 + 1) == "2g"


@given(st.frozensets(st.integers(0, 500)))
def test_cpu_lists(cpus):
    assert cpu_list(cpu_text(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-", "1-2-3", "0x3", "1;2", "9999999999"])
def test_what_is_no_cpu_list(text):
    assert cpu_list(text) is None


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_none(text):
    found = whole(text)
    assert (
        found is None
        or str(found) in text.replace("+", "").replace("-0", "0")
        or text.strip().lstrip("-").startswith("0")
    )
