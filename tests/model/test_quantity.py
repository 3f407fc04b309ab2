"""Quantities mean, and are written, what Kubernetes says: tables, properties, and apimachinery itself as the judge."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.quantity import MAX_CHARACTERS, InvalidQuantity, parse_quantity, quantity_text
from tests.stopwatch import is_done_within

CHECKOUT = Path(__file__).parents[2]
RECORDED = Path(os.environ.get("MUSTER_SHARED") or CHECKOUT.parent / "shared") / "reliability" / "quantity-oracle.txt"
INT64_MAX = 2**63 - 1
PLENTY = 10**40


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("500m", "500m", id="a canonical text stays"),
        pytest.param("0.5", "500m", id="a fraction becomes thousandths"),
        pytest.param("1.5Gi", "1536Mi", id="a binary fraction moves one suffix down"),
        pytest.param("1024Mi", "1Gi", id="binary factors move into the suffix"),
        pytest.param("1Ki", "1Ki", id="an odd number of kibibytes is kept"),
        pytest.param("0.5Ki", "512", id="below 1024 there is no binary suffix"),
        pytest.param("1.0001Ki", "1024102400u", id="a binary text that is no whole number is written as a decimal"),
        pytest.param("1000k", "1M", id="decimal factors move into the suffix"),
        pytest.param("12000m", "12", id="thousandths of whole numbers are whole numbers"),
        pytest.param("1e4", "10e3", id="exponents are multiples of three"),
        pytest.param("1500e0", "1500e0", id="an exponent of nothing is kept where it stands"),
        pytest.param("1000e0", "1e3", id="an exponent takes zeros in"),
        pytest.param("+5", "+5", id="a plus is given back"),
        pytest.param("5.", "5.", id="a bare point is given back"),
        pytest.param("1.500", "1.500", id="three digits after the point count as canonical"),
        pytest.param("-0", "0", id="there is no negative zero"),
        pytest.param("000", "0", id="zeros are zero"),
        pytest.param("16Ei", "9223372036854775807", id="binary suffixes are capped at int64"),
        pytest.param("-16Ei", "-9223372036854775807", id="binary suffixes are capped below too"),
        pytest.param("0.1n", "1n", id="nothing asked for is rounded to nothing"),
        pytest.param("1.0000000001", "1000000001n", id="finer than a billionth rounds up"),
        pytest.param("0.9999999999", "1", id="rounding up carries"),
        pytest.param("-0.0000000001", "-1n", id="negatives round away from zero"),
        pytest.param("1e4294967297", "10", id="exponents keep their low 32 bits"),
        pytest.param("m", "0", id="a suffix alone is zero to Kubernetes"),
        pytest.param(".", "0", id="a point alone is zero to Kubernetes"),
        pytest.param("1000E", "1000E", id="beyond E nothing is lost, unlike in Kubernetes"),
        pytest.param("1000e2147483647", "10000e2147483646", id="beyond the top exponent nothing is lost either"),
    ],
)
def test_canonical_text(text: str, want: str) -> None:
    assert parse_quantity(text).canonical() == want
    assert parse_quantity(want) == parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("1 Gi", "is not a number", id="space inside"),
        pytest.param(" 1", "is not a number", id="space before"),
        pytest.param("1\n", "is not a number", id="newline after"),
        pytest.param("1gi", "is not a number", id="small g"),
        pytest.param("1GiB", "is not a number", id="bytes spelled out"),
        pytest.param("NaN", "is not a number", id="not a number"),
        pytest.param("0x10", "is not a number", id="hexadecimal"),
        pytest.param("1_000", "is not a number", id="underscore"),
        pytest.param("１", "is not a number", id="full-width digit"),
        pytest.param("1e１", "is not a number", id="full-width exponent"),
        pytest.param("1.2.3", "is not a number", id="two points"),
        pytest.param("\ud800", "is not a number", id="half a surrogate pair"),
        pytest.param("1K", "unknown suffix", id="capital k alone"),
        pytest.param("1e", "unknown suffix", id="exponent without digits"),
        pytest.param("1e-", "unknown suffix", id="exponent of a sign"),
        pytest.param("--1", "unknown suffix", id="two signs"),
        pytest.param("1m5", "unknown suffix", id="digits after a suffix"),
        pytest.param("1e9223372036854775808", "exponent", id="exponent above int64"),
        pytest.param("1e" + "9" * 5000, "exponent", id="exponent of thousands of digits"),
        pytest.param("Ei", "has no number", id="the one suffix that needs a number"),
        pytest.param("e-10", "has no number", id="a fine exponent needs a number"),
        pytest.param("0" * (MAX_CHARACTERS + 1), "longer than", id="above a mebibyte"),
    ],
)
def test_refused_text(text: str, want: str) -> None:
    with pytest.raises(InvalidQuantity, match=want):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "power", "want"),
    [
        pytest.param("250m", 3, 250, id="thousandths exactly"),
        pytest.param("0.1m", 3, 1, id="less than a thousandth is one"),
        pytest.param("1n", 0, 1, id="a billionth of a unit is one"),
        pytest.param("1.5", 0, 2, id="a half rounds up"),
        pytest.param("-1.5", 0, -2, id="negatives round away from zero"),
        pytest.param("2Gi", 0, 2 * 2**30, id="binary"),
        pytest.param("1E", 3, 10**21, id="above int64, exact"),
        pytest.param("1e40", 0, PLENTY, id="just the bound"),
        pytest.param("1e41", 0, PLENTY, id="held at the bound"),
        pytest.param("-1e999999999", 0, -PLENTY, id="held at the bound below"),
        pytest.param("0", 0, 0, id="zero"),
        pytest.param("0e999999999", 3, 0, id="zero with an exponent"),
    ],
)
def test_scaled(text: str, power: int, want: int) -> None:
    assert parse_quantity(text).scaled(power, PLENTY) == want


def test_scaled_holds_a_small_bound() -> None:
    assert [parse_quantity(text).scaled(0, 7) for text in ("6", "7", "8", "100", "-9")] == [6, 7, 7, 7, -7]
    assert parse_quantity("5").scaled(0, 0) == 0


@pytest.mark.parametrize(
    ("amount", "power", "binary", "want"),
    [
        pytest.param(2500, 3, False, "2500m", id="millicores"),
        pytest.param(12000, 3, False, "12", id="whole cores"),
        pytest.param(10000, 0, False, "10k", id="a count"),
        pytest.param(3 * 2**30, 0, True, "3Gi", id="bytes"),
        pytest.param(1023, 0, True, "1023", id="few bytes"),
        pytest.param(1000000, 0, True, "1000000", id="round decimals in bytes keep their zeros"),
        pytest.param(-2048, 0, True, "-2Ki", id="negative bytes"),
        pytest.param(0, 3, False, "0", id="nothing"),
        pytest.param(2**70, 0, True, "1180591620717411303424", id="more bytes than a binary suffix may say"),
        pytest.param(10**24, 0, False, "1000000E", id="beyond E"),
    ],
)
def test_quantity_text(amount: int, power: int, binary: bool, want: str) -> None:
    assert quantity_text(amount, power=power, binary=binary) == want


# Properties -------------------------------------------------------------------------------------------------------

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def round_up(value: Fraction, unit: Fraction) -> Fraction:
    """The nearest multiple of the unit that is no closer to zero."""
    multiple = -(-abs(value) // unit) * unit
    return multiple if value >= 0 else -multiple


@st.composite
def quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity's text and its value by plain arithmetic."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", min_size=1, max_size=30))
    fraction = draw(st.text("0123456789", max_size=90))
    value = Fraction(int(whole + fraction), 10 ** len(fraction))
    suffix = draw(st.sampled_from([*SUFFIXES, *BINARY_SUFFIXES, "e"]))
    if suffix == "e":
        exponent = draw(st.integers(-40, 40))
        suffix = f"{draw(st.sampled_from('eE'))}{exponent}"
        value *= Fraction(10) ** exponent
    elif suffix in SUFFIXES:
        value *= Fraction(10) ** SUFFIXES[suffix]
    else:
        value = min(value * 2 ** BINARY_SUFFIXES[suffix], Fraction(INT64_MAX))
    value = round_up(value, Fraction(1, 10**9))
    return f"{sign}{whole}{'.' if fraction else ''}{fraction}{suffix}", -value if sign == "-" else value


@given(quantities())
def test_value_is_exact(case: tuple[str, Fraction]) -> None:
    text, value = case
    quantity = parse_quantity(text)
    assert quantity.scaled(9, 10**200) == value * 10**9
    assert quantity.scaled(0, 10**200) == round_up(value, Fraction(1))
    assert (quantity.is_zero, quantity.is_negative) == (value == 0, value < 0)


@given(quantities())
def test_canonical_text_reads_back(case: tuple[str, Fraction]) -> None:
    text, _ = case
    canonical = parse_quantity(text).canonical()
    assert parse_quantity(canonical) == parse_quantity(text)
    assert parse_quantity(parse_quantity(canonical).canonical()).canonical() == canonical


@given(quantities(), quantities())
def test_order_is_that_of_the_values(one: tuple[str, Fraction], other: tuple[str, Fraction]) -> None:
    left, right = parse_quantity(one[0]), parse_quantity(other[0])
    assert (left < right, left == right, left >= right) == (
        one[1] < other[1],
        one[1] == other[1],
        one[1] >= other[1],
    )


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(("1", "1000m", "1e0", "0.001k", "+1.0", "1000000000n"), id="one"),
        pytest.param(("1Ki", "1024", "1.024k"), id="a kibibyte"),
        pytest.param(("0", "-0", "0Ki", "0e5", "m"), id="zero"),
    ],
)
def test_equal_quantities_are_one_key(texts: tuple[str, ...]) -> None:
    assert len({parse_quantity(text) for text in texts}) == 1


def test_sorts_across_sizes_and_signs() -> None:
    ordered = ["-1e999999999", "-1E30", "-1", "-1n", "0", "1n", "999m", "1", "1Ki", "1E", "1e99", "1e999999999"]
    shuffled = sorted(ordered, key=lambda text: text[::-1])
    assert [str(quantity) for quantity in sorted(map(parse_quantity, shuffled))] == ordered
    assert parse_quantity("1") != "1"


@given(st.integers(-(2**126), 2**126), st.sampled_from([0, 3]), st.booleans())
def test_written_amounts_read_back(amount: int, power: int, binary: bool) -> None:
    text = quantity_text(amount, power=power, binary=binary)
    assert parse_quantity(text).scaled(power, 2**130) == amount


@given(st.text(max_size=30) | st.text("0123456789.+-eEinumkKMGTP", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidQuantity):
        assert parse_quantity(text).canonical()


HOSTILE = [
    pytest.param("9" * 1_000_000, id="a million nines"),
    pytest.param("9" * 500_000 + "." + "9" * 500_000, id="a carry through half a million nines"),
    pytest.param("0" * 1_000_000 + "1", id="a million leading zeros"),
    pytest.param("1" + "0" * 1_000_000, id="a million trailing zeros"),
    pytest.param("0." + "3" * 1_000_000 + "Ei", id="a million binary decimals"),
    pytest.param("9" * 1_000_000 + "Ki", id="a million nines of kibibytes"),
    pytest.param("12345678901234567890e999999999", id="a wide number with a huge exponent"),
    pytest.param("12345678901234567890.5e-999999999", id="a wide number with a tiny exponent"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_cost_little(text: str) -> None:
    def used() -> None:
        quantity = parse_quantity(text)
        assert abs(quantity.scaled(3, 2**126)) <= 2**126
        assert parse_quantity(quantity.canonical()[:MAX_CHARACTERS]) is not None
        assert hash(quantity) == hash(parse_quantity(text)) and quantity == parse_quantity(text)
        assert len(repr(quantity)) < 100

    assert is_done_within(1, used)


@pytest.mark.parametrize("text", ["1" * 1_000_000 + "x", "1." * 500_000, "e" * 1_000_000, "+" * 1_000_000])
def test_hostile_texts_are_refused_at_little_cost(text: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidQuantity):
            parse_quantity(text)

    assert is_done_within(1, refused)


# The recorded verdicts --------------------------------------------------------------------------------------------

RECORD = re.compile(
    r'"(?P<text>.*)" +(?:REJECT (?P<why>.*)|ok canonical=(?P<canonical>\S+) +Value=(?P<value>-?\d+) .*)'
)
ABBREVIATED = {
    "9999999999..(5000 chars)": "9" * 5000,
    "0000000000..(100001 chars)": "0" * 100_000 + "1",
}


def recorded() -> list[Any]:
    """The rows of the recorded verdicts of Kubernetes, or one row that is skipped."""
    if not RECORDED.is_file():
        skip = pytest.mark.skip(reason=f"no recorded verdicts at {RECORDED}; set MUSTER_SHARED to their folder")
        return [pytest.param("", marks=skip)]
    return [pytest.param(line, id=line[:27].strip()) for line in RECORDED.read_text("utf-8").splitlines() if line]


@pytest.mark.parametrize("line", recorded())
def test_agrees_with_the_recorded_verdict(line: str) -> None:
    row = RECORD.fullmatch(line)
    assert row, f"cannot read {line}"
    text = ABBREVIATED.get(row["text"], row["text"])
    if row["why"]:
        with pytest.raises(InvalidQuantity):
            parse_quantity(text)
        return
    canonical = parse_quantity(text).canonical()
    shown = f"{canonical[:20]}..({len(canonical)})" if len(canonical) > 100 else canonical
    assert shown == row["canonical"]
    amount = parse_quantity(text).scaled(0, PLENTY)
    if abs(amount) <= INT64_MAX:  # Above that Kubernetes overflows.
        assert amount == int(row["value"])


# Kubernetes itself ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that asks apimachinery, built once."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("go is not installed, so apimachinery cannot be asked")
    program = tmp_path_factory.mktemp("quantity") / "oracle"
    command = [go, "build", "-o", str(program), "."]
    source = Path(__file__).parent / "quantity_oracle"
    try:
        built = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("apimachinery could not be fetched and built in five minutes")
    if built.returncode != 0:
        pytest.skip(f"apimachinery could not be built: {built.stderr.strip()[-300:]}")
    return program


def ask(program: Path, questions: list[Any]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(question) for question in questions)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def random_quantity(chance: random.Random) -> str:
    """A text that is a quantity, or nearly one."""

    def digits(most: int) -> str:
        text = "".join(chance.choice("0000123456789999") for _ in range(chance.randint(0, most)))
        return text + "000" if chance.random() < 0.1 else text

    most = chance.choice([1, 3, 6, 12, 20, 80])
    number = chance.choice(["", "", "", "+", "-"]) + digits(most)
    if chance.random() < 0.4:
        number += "." + digits(chance.choice([0, 2, 10, 80]))
    suffix = chance.choice([*SUFFIXES, *BINARY_SUFFIXES, *BINARY_SUFFIXES, "e", "e", "e", "E", "K", "i", "mm", "ei"])
    if suffix in ("e", "E"):
        suffix += chance.choice(["", "+", "-"]) + str(chance.choice([0, 3, 9, 12, 20, 400, 2**32, 2**64]))
    text = number + suffix
    if chance.random() < 0.15:
        place = chance.randint(0, len(text))
        text = text[:place] + chance.choice("0.+- eEmKiµ\0\n１x") + text[place + chance.randint(0, 1) :]
    # Kubernetes writes out wide numbers with large exponents, which takes minutes each: those are not asked about.
    exponent = re.search("[eE][+-]?([0-9]{5,})$", text)
    is_costly = exponent is not None and int(exponent[1]) not in (2**32, 2**64)
    return random_quantity(chance) if is_costly else text


WORST = ["9" * 5000, "9" * 5000 + ".5", "0" * 100_000 + "1", "1" * 20_000 + "x", "0." + "3" * 5000 + "Ei"]
HUGE = ["1e999999999", "-15e2147483645", "1e2147483646", "1.5e-2147483648", "1e9223372036854775807", "0e2147483647"]


def test_agrees_with_kubernetes(kubernetes: Path) -> None:
    chance = random.Random(20240229)
    texts = ["", *WORST, *HUGE, *(random_quantity(chance) for _ in range(2000))]
    verdicts = ask(kubernetes, texts)
    assert len(verdicts) == len(texts)
    assert 500 < sum(verdict["ok"] for verdict in verdicts) < 1900, "the texts should be of both kinds"
    for text, verdict in zip(texts, verdicts, strict=True):
        check_verdict(text, verdict)


def check_verdict(text: str, verdict: dict[str, Any]) -> None:
    try:
        quantity = parse_quantity(text)
    except InvalidQuantity:
        assert not verdict["ok"], f"{text!r} is refused here only"
        return
    assert verdict["ok"], f"{text!r} is taken here only"
    number, exponent = verdict["number"], verdict.get("exponent", 0)
    digits = number.lstrip("-").rstrip("0")
    exponent += len(number.lstrip("-")) - len(digits)
    exact = (number.startswith("-"), digits, exponent if digits else 0)
    assert (quantity.is_negative, quantity.digits, quantity.exponent) == exact, f"{text!r} has another value"
    # Kubernetes has no suffix above E and writes none; everywhere else the texts are the same.
    if verdict["canonical"] == number and verdict.get("exponent", 0) > 18:
        assert parse_quantity(quantity.canonical()) == quantity
    else:
        assert quantity.canonical() == verdict["canonical"], f"{text!r} is written differently"
    if quantity.is_negative:
        return  # Kubernetes rounds negatives either way, depending on how it keeps them.
    for power, name in ((0, "value"), (3, "milli")):
        if name in verdict:
            assert quantity.scaled(power, PLENTY) == verdict[name], f"{text!r} has another {name}"


def test_writes_amounts_as_kubernetes_does(kubernetes: Path) -> None:
    chance = random.Random(20240301)
    amounts = [0, 1, -1, 1000, 1023, 1024, -1024, 2**62, INT64_MAX, -INT64_MAX, 10**18]
    amounts += [chance.randint(-9, 9) * 2 ** chance.randint(0, 59) for _ in range(300)]
    amounts += [chance.randint(-9999, 9999) * 10 ** chance.randint(0, 14) for _ in range(300)]
    for amount, answer in zip(amounts, ask(kubernetes, amounts), strict=True):
        ours = {
            "milli": quantity_text(amount, power=3, binary=False),
            "decimal": quantity_text(amount, power=0, binary=False),
            "binary": quantity_text(amount, power=0, binary=True),
        }
        assert ours == answer
