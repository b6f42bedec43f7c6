"""Who has no token cannot make the server load from anywhere."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server, config_text


def test_a_reload_cannot_name_what_the_start_has_not(
    attacked: Server, attacked_models: Path, tmp_path: Path
) -> None:
    link = attacked_models / "two_inputs" / "linked"
    link.symlink_to(tmp_path)
    with bystanders(attacked) as others:
        for path in ("/etc", str(tmp_path), str(link), str(attacked_models)):
            request = model_management_pb2.ReloadConfigRequest()
            text_format.Parse(config_text({"two_inputs": path}), request.config)
            with pytest.raises(grpc.RpcError) as caught:
                attacked.model.HandleReloadConfigRequest(request, timeout=20)
            assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert "--reload_config_base_path=DIR" in caught.value.details()
        others.served(5)
    link.unlink()
