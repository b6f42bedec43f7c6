"""GetModelStatus, GetModelMetadata and HandleReloadConfigRequest, for both protocols."""

from __future__ import annotations

from typing import Any

from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from estimand.serving.lifecycle import config as model_config
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.status import StatusError, invalid, not_found

_SIGNATURES = "signature_def"


def model_status(manager: Manager, spec: Any) -> Any:
    """A GetModelStatusResponse."""
    if not spec.name:
        raise invalid("ModelSpec has no name specified.")
    number = None
    if spec.WhichOneof("version_choice") == "version":
        number = spec.version.value
    elif spec.version_label:
        number = manager.number_of_label(spec.name, spec.version_label)
    model = manager.models.get(spec.name)
    if model is None or not model.versions:
        raise not_found(f"Could not find any versions of model {spec.name}")
    if number is not None and number not in model.versions:
        raise not_found(f"Could not find version {number} of model {spec.name}")
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in sorted(model.versions.values(), key=lambda version: -version.number):
        if number in (None, version.number):
            status = response.model_version_status.add(version=version.number, state=version.state)
            status.status.error_code = version.error.code if version.error else 0
            status.status.error_message = version.error.text if version.error else ""
    return response


def model_metadata(manager: Manager, request: Any) -> Any:
    """A GetModelMetadataResponse."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    if not request.metadata_field:
        raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
    for name in request.metadata_field:
        if name != _SIGNATURES:
            raise invalid(f"Metadata field {name} is not supported")
    version = manager.find_for(request.model_spec)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in version.servable.signature_defs.items():
        signatures.signature_def[name].CopyFrom(definition)
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.name = version.name
    response.model_spec.version.value = version.number
    response.metadata[_SIGNATURES].Pack(signatures)
    return response


def reload_paths(manager: Manager) -> set[str]:
    """Where models may lie that a caller without a token names."""
    return {*manager.named_base_paths, *manager.flags.reload_config_base_path}


async def reload_config(manager: Manager, request: Any) -> tuple[Any, StatusError | None]:
    """A ReloadConfigResponse, and the error it tells of."""
    response = model_management_pb2.ReloadConfigResponse()
    try:
        settings = model_config.from_message(request.config, manager.flags)
        if not manager.flags.enable_reload_config_rpc:
            raise StatusError.of(
                "PERMISSION_DENIED", "The server was started with --enable_reload_config_rpc=false."
            )
        if settings is not None and not manager.flags.auth_tokens_file:
            model_config.check_base_paths(settings, reload_paths(manager))
        if settings is not None and manager.share_reload is not None:
            await manager.share_reload(request.config.SerializeToString())
        elif settings is not None:
            await manager.reload(settings)
    except StatusError as error:
        response.status.error_code = error.code
        response.status.error_message = error.text
        return response, error
    response.status.error_code = 0
    return response, None
