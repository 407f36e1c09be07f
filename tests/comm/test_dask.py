"""Dask: tasks on workers that are real processes keep the common rules, and never hang."""

from __future__ import annotations

import pytest
from conformance import Conformance
from dask_functions import addresses_of, open_cluster, run

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with open_cluster(8) as client:
        yield client


class TestDask(Conformance):
    @pytest.fixture(autouse=True)
    def use_cluster(self, client):
        self.client = client
        self.addresses = addresses_of(client)

    def run(self, function, size, *, timeout=60.0):
        return run(self.client, function, self.addresses[:size], timeout=timeout)
