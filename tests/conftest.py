"""Settings for all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell that puts the tests into the background has its programs ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that takes long on a busy machine is no failure. The default deadline is 200 ms.
settings.register_profile("tiercast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tiercast")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `tiercast keys`."""
    from tiercast_lab.base.certificates import make_keys

    folder = tmp_path_factory.mktemp("authority") / "keys"
    make_keys(folder, ["lab.example"], days=2)
    return folder
