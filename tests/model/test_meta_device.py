"""No configuration makes a build open a connection."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from huggingface_hub import constants

from lib.errors import UnsupportedModel
from lib.model.build import build
from lib.model.meta_device import no_network


@pytest.mark.parametrize("model_type", ["dpt", "upernet", "maskformer", "vitmatte", "zoedepth"])
def test_the_name_of_a_backbone_is_not_looked_up(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their configuration classes ask the Hub, with the server's token, whether a repository of that name exists."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(UnsupportedModel, match="fetched from another place"):
        build({"model_type": model_type, "backbone": "gpt2"})


@pytest.mark.parametrize("config", [{"use_timm_backbone": False}])
def test_detr_without_timm_is_refused_the_same_way(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The older configurations choose between timm and the Hub by a flag."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(UnsupportedModel, match="fetched from another place"):
        build({"model_type": "detr", "backbone": "gpt2", **config})


def test_the_door_is_closed_for_one_thread_and_opened_again() -> None:
    """A listener on loopback is reached by another thread meanwhile, and by this one afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        def reach() -> None:
            socket.create_connection(address, timeout=5).close()

        with no_network():
            with pytest.raises(UnsupportedModel):
                reach()
            failed: list[BaseException] = []
            monitored = threading.Thread(target=lambda: _collect(reach, failed))
            monitored.start()
            monitored.join()
            assert failed == []
        reach()


def _collect(work: Any, failed: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 whatever came is the finding
        failed.append(error)
