"""Skips what cannot be held against another server before it starts one, as the runner's patterns say."""
import os
import re

import pytest

_NOT_APPLICABLE = [re.compile(pattern) for pattern in os.environ["LLAMA_TESTS_NOT_APPLICABLE"].splitlines()]


def pytest_collection_modifyitems(items):
    from utils import ServerPreset

    # It would only start one server after the other, for models to be downloaded that are not used.
    ServerPreset.load_all = staticmethod(lambda: None)
    for item in items:
        name = f"{item.module.__name__.split('.')[-1]}::{item.name}"
        if any(pattern.search(name) for pattern in _NOT_APPLICABLE):
            item.add_marker(pytest.mark.skip(reason="not applicable"))
