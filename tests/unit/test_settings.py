"""Settings: one name each, read from a file and the environment, and known under other names."""

import pytest

from evervec.errors import ConfigError
from evervec.settings import DAY, HOUR, Settings, load


def read(folder, **environment):
    return load(folder, environment)


def test_without_a_word_the_defaults_hold(tmp_path):
    assert read(tmp_path) == Settings()
    assert Settings().state == "evervec.db"


@pytest.mark.accepts("000-29")
def test_the_environment_goes_before_the_file_and_the_file_before_the_default(tmp_path):
    (tmp_path / "evervec.toml").write_text(
        'state = "a.db"\n[worker]\nclaim = 7\nlease = 30\n[retention]\nevents = 5000\n'
    )
    settings = read(tmp_path, EVERVEC_STATE="b.db", EVERVEC_WORKER_CLAIM="9")
    assert (settings.state, settings.worker.claim, settings.worker.lease) == ("b.db", 9, 30.0)
    assert settings.retention.events == 5000
    assert isinstance(settings.worker.lease, float)


def test_the_file_may_be_named(tmp_path):
    (tmp_path / "other.toml").write_text('state = "named.db"')
    assert read(tmp_path, EVERVEC_CONFIG=str(tmp_path / "other.toml")).state == "named.db"
    with pytest.raises(ConfigError, match="there is no file") as refused:
        read(tmp_path, EVERVEC_CONFIG=str(tmp_path / "gone.toml"))
    assert "EVERVEC_CONFIG" in str(refused.value)


@pytest.mark.accepts("000-49")
@pytest.mark.parametrize(("written", "meant"), [("true", True), ("false", False), ("0", False)])
def test_a_worker_is_enabled_unless_it_is_said_otherwise(tmp_path, written, meant):
    assert read(tmp_path).worker.enabled is True
    assert read(tmp_path, EmbeddingWorker__Enabled=written).worker.enabled is meant
    assert read(tmp_path, EVERVEC_WORKER_ENABLED=written).worker.enabled is meant


@pytest.mark.parametrize(
    ("variable", "text", "name", "meant"),
    [
        pytest.param(
            "EmbeddingWorker__IntervalSeconds",
            "60",
            "poll",
            60.0,
            marks=pytest.mark.accepts("000-39", "000-50", "002-21"),
        ),
        pytest.param(
            "EmbeddingWorker__BatchSize", "50", "claim", 50, marks=pytest.mark.accepts("000-51")
        ),
        pytest.param(
            "EmbeddingWorker__StaleTimeoutMinutes",
            "5",
            "lease",
            300.0,
            marks=pytest.mark.accepts("000-52", "000-29"),
        ),
        pytest.param(
            "EMBED_JOB_LOCK_DURATION_MS",
            "300000",
            "lease",
            300.0,
            marks=pytest.mark.accepts("001-36"),
        ),
        # Three retries are four executions.
        ("EMBED_JOB_MAX_RETRIES", "3", "attempts", 4),
        ("EMBED_JOB_RETRY_BASE_DELAY_MS", "1000", "backoff", 1.0),
        ("EMBED_JOB_RETRY_MAX_DELAY_MS", "60000", "backoff_cap", 60.0),
        ("EMBED_JOB_RETRY_MULTIPLIER", "2", "backoff_factor", 2.0),
        ("EMBED_JOB_RETRY_JITTER_FACTOR", "0.1", "backoff_jitter", 0.1),
    ],
)
def test_other_systems_variables_are_known_in_their_own_units(
    tmp_path, variable, text, name, meant
):
    assert getattr(read(tmp_path, **{variable: text}).worker, name) == meant
    assert getattr(read(tmp_path, **{variable.upper(): text}).worker, name) == meant


@pytest.mark.accepts("000-53")
def test_finished_jobs_are_kept_for_a_day_or_as_long_as_is_said(tmp_path):
    assert read(tmp_path).retention.finished == DAY == 24 * HOUR
    kept = read(tmp_path, EmbeddingWorker__RetentionHours="48").retention
    assert kept.finished == 48 * HOUR


def test_our_own_name_goes_before_another_systems(tmp_path):
    settings = read(tmp_path, EmbeddingWorker__BatchSize="50", EVERVEC_WORKER_CLAIM="7")
    assert settings.worker.claim == 7


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("stat = 'x'", "'stat', which is not a setting\n  did you mean 'state'?"),
        ("[worker]\nclam = 1", "did you mean 'worker.claim'?"),
        ("[worker]\nxyzzy = 1", "known: enabled"),
        (
            "[worker]\nclaim = 'x'",
            "worker.claim = 'x' is not a whole number\n  its default is 1000",
        ),
        ("[worker]\nclaim = true", "is not a whole number"),
        ("[worker]\nlease = 'x'", "is not a number"),
        ("[worker]\nenabled = 1", "is not true or false"),
        ("state = 5", "state = 5 is not text"),
        ("worker = 5", "worker = 5 is not a table of settings\n  write it as [worker]"),
        ("[state]\nx = 1", "is not text"),
        ("state = ", "is not TOML"),
        ("[worker]\nclaim = 0", "worker.claim = 0 is too small\n  give at least 1"),
        ("[worker]\nlease = 0.5", "worker.lease = 0.5 is too small"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path, written, told):
    (tmp_path / "evervec.toml").write_text(written)
    with pytest.raises(ConfigError) as refused:
        read(tmp_path)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("EVERVEC_WORKER_CLAIM", "many", "EVERVEC_WORKER_CLAIM='many' is not a whole number"),
        ("EVERVEC_WORKER_CLAIM", "-1", "worker.claim = -1 is too small"),
        ("EVERVEC_WORKER_ENABLED", "maybe", "is not true or false"),
        ("EmbeddingWorker__StaleTimeoutMinutes", "soon", "is not a number"),
        ("EMBED_JOB_MAX_RETRIES", "-1", "worker.attempts = 0 is too small"),
        ("EVERVEC_WORKER_LEASE", "nan", "worker.lease = nan"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(tmp_path, variable, text, told):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, **{variable: text})
    assert told in str(refused.value)
