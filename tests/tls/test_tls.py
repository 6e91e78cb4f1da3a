"""Encrypted connections in both languages, with an authority and a client's certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tls.servers import PASSWORD, USER

Played = Callable[[str], dict[str, Any]]
pytestmark = pytest.mark.parametrize("language", ["python", "node"])


def test_the_contract_holds_for_clients_that_a_class_makes(played: Played, language: str) -> None:
    cases = played(language)["byClass"]
    passed = [name for name, status, _ in cases if status == "passed"]
    others = [case for case in cases if case[1] != "passed" and "has no leases" not in case[2]]
    assert others == []
    assert len(passed) >= 5, passed


def test_a_run_on_a_store_of_a_url_is_in_the_history(played: Played, language: str) -> None:
    assert played(language)["byUrl"] == [["a", "succeeded", {"rows": 3}]]


def test_who_trusts_another_authority_is_told_so_without_a_word_of_secrets(
    played: Played, language: str
) -> None:
    refused = played(language)["refused"]
    assert refused["code"] == "BACKEND_UNAVAILABLE"
    assert "certificate: UnknownIssuer" in refused["message"]
    assert PASSWORD not in refused["message"]
    assert f"{USER}:" not in refused["message"]
