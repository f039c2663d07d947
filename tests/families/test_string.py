"""Text: every backend keeps it, and computes with it, on the host."""

import re
from itertools import pairwise

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain, strings
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

STRING_DTYPE = np.dtypes.StringDType()
LONG_TEXT = "The quick brown fox jumps over the lazy dog. " * 30
FINGERPRINTS = {  # from Google's farmhash, through pyfarmhash
    "": 11160318154034397263,
    "a": 12917804110809363939,
    "abc": 2640714258260161385,
    "hello": 13009744463427800296,
    "sieben ": 12862328172717371630,
    "acht....": 15579994194735617728,
    "sixteen letters!": 11225588111047921923,
    "seventeen letters": 7723131893474706300,
    "é": 693143013273849025,
    "日本語": 15681232226066675783,
    "🙂": 14106426526300936436,
    LONG_TEXT[:24]: 6702341905823656245,
    LONG_TEXT[:32]: 13139644296358924898,
    LONG_TEXT[:33]: 17464935208016327638,
    LONG_TEXT[:48]: 12025993552101657922,
    LONG_TEXT[:64]: 10142713867129616544,
    LONG_TEXT[:65]: 8330986144681106620,
    LONG_TEXT[:100]: 16455262689204363058,
    LONG_TEXT[:128]: 6548702730867532314,
    LONG_TEXT[:129]: 18093668623211604690,
    LONG_TEXT[:200]: 640913882323733241,
    LONG_TEXT[:1000]: 8908606951781610986,
}


def constant_strings(values):
    return Domain(lambda rng, shape, dtype: np.array(values, STRING_DTYPE), "string")


def with_result_part(op, name):
    """Return an op that returns one part of another op's result."""

    def picked(*args, **attrs):
        return getattr(op(*args, **attrs), name)

    picked.__name__ = f"{op.__name__} {name}"
    return picked


# --- replacing ------------------------------------------------------------------------------------


def np_regex_replace(x, *, pattern, rewrite, replace_global=True):
    """Return the result of Python's re.sub; it writes a reference to the whole match differently."""
    template = rewrite.replace("\\0", "\\g<0>")
    count = 0 if replace_global else 1
    replaced = [re.sub(pattern, template, part, count=count) for part in x.ravel()]
    return np.array(replaced, STRING_DTYPE).reshape(x.shape)


REPLACE_CASES = [
    Case(
        *(
            plugrad.string.static_regex_replace,
            np_regex_replace,
            [strings("aba", "b\na", "", "éa", "xx")],
        ),
        *([shape], {"pattern": pattern, "rewrite": rewrite, **more}, ("string",)),
    )
    for pattern, rewrite, more in [
        ("a", "b", {}),
        ("a", "b", {"replace_global": False}),
        (r"(\w)(\w)", r"\2-\1", {}),
        (r"(a)|(b)", r"<\1\2>", {}),
        (r"\w+", r"[\0]", {}),
        (r"\w", r"\\", {}),
        ("^", "!", {"replace_global": False}),
        ("x*", "-", {}),
        ("[éx]", "日本", {}),
        ("", "", {}),
    ]
    for shape in [(6,), (2, 3), (), (0,)]
]

# --- hashing --------------------------------------------------------------------------------------


def np_hash_bucket(x, *, num_buckets):
    return np.array([FINGERPRINTS[part] % num_buckets for part in x.ravel()]).reshape(x.shape)


HASH_CASES = [
    Case(
        *(plugrad.string.string_to_hash_bucket_fast, np_hash_bucket, [strings(*FINGERPRINTS)]),
        *([shape], {"num_buckets": count}, ("string",), "int32"),
    )
    for count in (1, 10, 1000, 2**31 - 1, 2**31)
    for shape in [(3, 11), (), (2, 0)]
] + [
    Case(
        plugrad.string.string_to_hash_bucket_fast,
        np_hash_bucket,
        [constant_strings(list(FINGERPRINTS))],
        [(len(FINGERPRINTS),)],
        {"num_buckets": 2**31},
        ("string",),
        "int32",
        name="every fingerprint",
    )
]

# --- splitting ------------------------------------------------------------------------------------


def np_string_split(x, delimiter, *, skip_empty=True):
    """Return the indices, values and dense shape of string_split, found character by character."""
    cuts, found, longest = delimiter.item(), [], 0
    for row, line in enumerate(x):
        pieces = [""] if line and cuts else []
        for letter in line:
            if not cuts:
                pieces.append(letter)
            elif letter in cuts:
                pieces.append("")
            else:
                pieces[-1] += letter
        kept = [piece for piece in pieces if piece or not skip_empty]
        found += [(row, place, piece) for place, piece in enumerate(kept)]
        longest = max(longest, len(kept))
    indices = np.array([entry[:2] for entry in found], np.int32).reshape(-1, 2)
    return {
        "indices": indices,
        "values": np.array([entry[2] for entry in found], STRING_DTYPE),
        "shape": np.array([len(x), longest], np.int32),
    }


SPLIT_CASES = [
    Case(
        with_result_part(plugrad.string.string_split, name),
        lambda *args, name=name, **attrs: np_string_split(*args, **attrs)[name],
        [strings("a b  c", "", " d", "e,f g", ",", "日 本", "[-]^\\"), constant_strings(delimiter)],
        [shape, ()],
        {"skip_empty": skip_empty},
        ("string",),
        "string" if name == "values" else "int32",
        name=f"{name} between {delimiter!r} {skip_empty=} {shape}",
    )
    for name in ("indices", "values", "shape")
    for delimiter in (" ", ",", " ,", "", "本", "-]", "^\\")
    for skip_empty in (True, False)
    for shape in ((7,), (0,))
]

# --- n-grams --------------------------------------------------------------------------------------


def np_string_n_grams(
    data,
    data_splits,
    *,
    separator,
    n_gram_widths,
    left_pad,
    right_pad,
    pad_width,
    preserve_short_sequences,
):
    """Return the n-grams and splits by the algorithm of TensorFlow's kernel."""
    found, ends = [], [0]
    for start, stop in pairwise(data_splits):
        tokens, count = list(data[start:stop]), 0
        for width in n_gram_widths:
            pad = width - 1 if pad_width < 0 else min(pad_width, width - 1)
            grams = max(0, len(tokens) + 2 * pad - width + 1)
            for i in range(grams):
                left, right = max(0, pad - i), max(0, pad - (grams - i - 1))
                first = 0 if left else i - pad
                inner = tokens[first : first + width - left - right]
                found.append(separator.join([left_pad] * left + inner + [right_pad] * right))
            count += grams
        if preserve_short_sequences and tokens and not count:
            found.append(separator.join([left_pad] * pad_width + tokens + [right_pad] * pad_width))
        ends.append(len(found))
    return {"n_grams": np.array(found, STRING_DTYPE), "n_grams_splits": np.array(ends, np.int32)}


def constant_splits(*numbers):
    return Domain(lambda rng, shape, dtype: np.array(numbers, np.int32), "int32")


N_GRAM_CASES = [
    Case(
        with_result_part(plugrad.string.string_n_grams, name),
        lambda *args, name=name, **attrs: np_string_n_grams(*args, **attrs)[name],
        [strings(), constant_splits(*ends)],
        [(ends[-1],), (len(ends),)],
        {
            "separator": "|",
            "n_gram_widths": widths,
            "left_pad": "<",
            "right_pad": "",
            "pad_width": pad_width,
            "preserve_short_sequences": preserve,
        },
        ("string",),
        "string" if name == "n_grams" else "int32",
        name=f"{name} of {ends} {widths=} {pad_width=} {preserve=}".replace(", ", ","),
    )
    for name in ("n_grams", "n_grams_splits")
    for ends in [(0, 4, 6), (0, 1, 1, 4), (0, 0, 3)]
    for widths in [(1,), (3,), (4, 2), (5,), ()]
    for pad_width in (0, 1, 2, -1)
    for preserve in (False, True)
]

CASES = [*REPLACE_CASES, *HASH_CASES, *SPLIT_CASES, *N_GRAM_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng, "string")


def test_no_tokens_make_no_n_grams(backend):
    """As in TensorFlow, a row without tokens has no n-grams of padding either."""
    found = plugrad.string.string_n_grams([], [0, 0], "|", [2], "<", ">", -1, True)
    assert (found.n_grams.tolist(), found.n_grams_splits.tolist()) == ([], [0, 0])
    assert found.n_grams.dtype == "string"
    found = plugrad.string.string_n_grams([], [], "|", [2], "<", ">", -1, True)
    assert (found.n_grams.tolist(), found.n_grams_splits.tolist()) == ([], [])


def test_results_are_on_the_device_of_the_inputs(backend):
    found = plugrad.string.string_split(["a b", "c"], " ")
    assert {part.device for part in found} == {f"{backend}:0"}
    assert (found.indices + 1).tolist() == [[1, 1], [1, 2], [2, 1]]


def string_n_grams(data=("a",), ends=(0, 1), widths=(1,)):
    return plugrad.string.string_n_grams(data, ends, "", widths, "", "", 0, False)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.string.static_regex_replace(["a"], "(", "b"),
        ArgumentValueError,
        ["StaticRegexReplace", "pattern='('", "not a regular expression"],
    ),
    ErrorCase(
        lambda: plugrad.string.static_regex_replace(["a"], "(a)", r"\2"),
        ArgumentValueError,
        [r"rewrite='\\2' has \2", "pattern='(a)'", "up to 1"],
    ),
    ErrorCase(
        lambda: plugrad.string.static_regex_replace(["a"], "a", r"\x"),
        ArgumentValueError,
        [r"has \x", "a backslash is written twice"],
    ),
    ErrorCase(
        lambda: plugrad.string.static_regex_replace(["a"], "a", "b\\"),
        ArgumentValueError,
        ["rewrite='b\\\\'", "a backslash is written twice"],
    ),
    ErrorCase(
        lambda: plugrad.string.static_regex_replace([1], "a", "b"),
        ArgumentError,
        ["static_regex_replace: input must hold strings only", "1"],
    ),
    ErrorCase(
        lambda: plugrad.string.static_regex_replace(plugrad.zeros(2), "a", "b"),
        DTypeError,
        ["StaticRegexReplace does not take float32", "it takes string"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_to_hash_bucket_fast(["a"], 0),
        ArgumentValueError,
        ["num_buckets=0", "from 1 to 2147483648"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_to_hash_bucket_fast(["a"], 2**31 + 1),
        ArgumentValueError,
        ["num_buckets=2147483649", "from 1 to 2147483648"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_to_hash_bucket_fast(plugrad.ones(1), 2),
        DTypeError,
        ["StringToHashBucketFast does not take float32", "it takes string"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_split([["a"]], " "),
        ShapeError,
        ["StringSplit", "input must have one axis", "(1, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_split(["a"], [" "]),
        ShapeError,
        ["StringSplit", "delimiter none", "(1,)"],
    ),
    ErrorCase(
        lambda: plugrad.string.string_split(["a"], plugrad.ones(())),
        DTypeError,
        ["StringSplit (delimiter) does not take float32"],
    ),
    ErrorCase(
        lambda: string_n_grams(plugrad.ones(1)), DTypeError, ["StringNGrams does not take float32"]
    ),
    ErrorCase(
        lambda: string_n_grams(ends=[0.0, 1.0]), DTypeError, ["data_splits", "float32", "integers"]
    ),
    ErrorCase(lambda: string_n_grams([["a"]]), ShapeError, ["StringNGrams", "one axis", "(1, 1)"]),
    ErrorCase(
        lambda: string_n_grams(widths=[0]), ArgumentValueError, ["n_gram_widths=(0,)", "1 or more"]
    ),
    ErrorCase(
        lambda: string_n_grams(ends=[1, 1]),
        ArgumentValueError,
        ["data_splits=[1, 1]", "begin with 0"],
    ),
    ErrorCase(
        lambda: string_n_grams(ends=[0, 0]),
        ArgumentValueError,
        ["data_splits=[0, 0]", "end with 1, the number of tokens"],
    ),
    ErrorCase(
        lambda: string_n_grams(ends=[0, 2, 1]),
        ArgumentValueError,
        ["[0, 2, 1]", "must not decrease"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
