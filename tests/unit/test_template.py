"""Fields to text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.errors import ConfigError
from evervec.text.template import Field, Template

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("pattern", "fields", "expected"),
    [
        ("{title}\n\n{body}", {"title": "A", "body": "b"}, "A\n\nb"),
        ("{title}\\n\\t{body}", {"title": "A", "body": "b"}, "A\n\tb"),
        ("{a}\\\\n", {"a": "x"}, "x\\n"),
        ("{{{a}}}", {"a": "x"}, "{x}"),
        ("{meta.author}", {"meta": {"author": "Ann"}}, "Ann"),
        ("{meta.author.name}", {"meta": '{"author": {"name": "Ann"}}'}, "Ann"),
        ("{meta}", {"meta": '{"author": 1}'}, '{"author": 1}'),
        ("{meta.author}", {"meta": "not json"}, ""),
        ("{tags.0}/{tags.9}", {"tags": ["x", "y"]}, "x/"),
        ("{tags}", {"tags": ["x", None, 3]}, "x, 3"),
        ("{meta}", {"meta": {"a": [1, "ü"]}}, '{"a":[1,"ü"]}'),
        ("{n} {f} {b}", {"n": 3, "f": 1.5, "b": True}, "3 1.5 true"),
        ("{raw}", {"raw": b"caf\xc3\xa9 \xff"}, "café \ufffd"),
        ("{a}", {"a": "x\0y\ud800z"}, "x\ufffdy\ufffdz"),
        ("Title: {title}", {"title": "  "}, ""),
        ("{ title }", {"title": "A"}, "A"),
    ],
)
def test_a_pattern_is_filled_with_the_fields(pattern, fields, expected):
    assert Template.parse(pattern).render(fields) == expected


@pytest.mark.accepts("R-39", "000-02")
def test_prefix_suffix_separator_and_nested_paths_change_the_text():
    template = Template.of_fields(
        [Field("title", "# "), Field("meta.author", "by ", "."), Field("body")], separator="\n"
    )

    text = template.render({"title": "T", "meta": {"author": "Ann"}, "body": "B"})

    assert text == "# T\nby Ann.\nB"


def test_a_field_without_value_brings_neither_prefix_nor_suffix_nor_separator():
    template = Template.of_fields([Field("a", "<", ">"), Field("b", "(", ")"), Field("c")])

    assert template.render({"a": "x", "b": "", "c": "y"}) == "<x> y"
    assert template.render({"b": None}) == ""


@pytest.mark.parametrize("blank", [None, "", "  ", "\t"])
def test_a_blank_separator_is_one_space(blank):
    template = Template.of_fields([{"path": "a"}, {"path": "b"}], separator=blank)

    assert template.render({"a": 1, "b": 2}) == "1 2"


def test_the_fields_used_are_named_once_in_order():
    assert Template.parse("{b} {a.x} {b.y}").fields == ("b", "a")


def test_an_unknown_field_is_refused_with_those_that_are_near():
    with pytest.raises(ConfigError, match=r"'titel'[\s\S]*did you mean 'title'\?"):
        Template.parse("{titel}").check(["id", "title", "body"])


@pytest.mark.parametrize("pattern", ["{a", "a}", "{}", "{a.}", "no field", "", "{a{b}}"])
def test_a_pattern_that_makes_no_sense_is_refused(pattern):
    with pytest.raises(ConfigError):
        Template.parse(pattern)


@pytest.mark.parametrize(
    "recipe",
    [
        3,
        {},
        {"fields": []},
        {"fields": [{"path": ""}]},
        {"fields": [{"paht": "a"}]},
        {"fields": [{"path": "a"}], "separator": 3},
        {"fields": [{"path": 3}]},
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(recipe):
    with pytest.raises(ConfigError):
        Template.from_json(recipe)


@pytest.mark.parametrize(
    "template",
    [
        Template.parse("{title}\\n{{x}} {meta.a}"),
        Template.of_fields([Field("a", "<", ">"), Field("b.c")], separator=" | "),
    ],
)
def test_a_template_survives_being_stored(template):
    assert Template.from_json(json.loads(json.dumps(template.to_json()))) == template


@given(PLAIN, PLAIN)
def test_any_values_give_text_that_can_be_encoded(first, second):
    text = Template.parse("{a}-{b.c}-{a.0.x}").render({"a": first, "b": second})

    assert "\0" not in text
    text.encode()
