"""The same over HTTP: the strict fake provider accepts every request that any of the processes sends."""

from __future__ import annotations

import pytest

from agent_nodes.messages import ApiKind
from tests.crash.conftest import Suite
from tests.crash.wire import APIS, WireModel
from tests.fakes import FakeServer


@pytest.mark.parametrize("api", APIS)
def test_a_provider_accepts_every_request_after_any_kill(suite: Suite, api: ApiKind):
    with FakeServer.in_thread() as fake:
        model = WireModel(fake)
        points = suite.record("wire", wire=model.case(api))
        suite.check([{"scene": "wire", "kills": [kill], "wire": model.case(api)} for kill in points])
        assert model.wrong == []
        fake.assert_accepted()
        assert len(fake.requests) > len(points)
