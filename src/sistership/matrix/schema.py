"""The shape of buildmatrix.yaml: which keys there are and what kind of value each takes.

Only shapes are decided here; what values mean together is checked by the modules of each section.
Every scalar arrives as its text, so the few typed values (flags) are converted here and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from sistership.matrix.model import BUILD_PACKAGES, TEMPLATE

_TRUE = frozenset({"true", "on", "yes"})
_FALSE = frozenset({"false", "off", "no"})


def _flag(value: object) -> object:
    if isinstance(value, bool):
        return value
    text = value.lower() if isinstance(value, str) else ""
    if text not in _TRUE | _FALSE:
        raise PydanticCustomError("flag", "must be true or false")
    return text in _TRUE


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _per_platform(value: object) -> object:
    return {"": value} if isinstance(value, str) else value


_TEXT = {"type": "string"}
_SCALAR = {"type": ["string", "number"]}

Flag = Annotated[bool, BeforeValidator(_flag)]
Scalar = Annotated[str, WithJsonSchema(_SCALAR)]
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]}),
]
#: Platform → host; the platform "" stands for all.
Builder = Annotated[
    dict[str, str],
    BeforeValidator(_per_platform),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "object", "additionalProperties": _TEXT}]}),
]
Version = Annotated[str, WithJsonSchema({"const": 1})]
CmakeFlags: TypeAlias = dict[str, Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]]


class Row(BaseModel):
    """A mapping with fixed keys, and any key that begins with `x-`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"patternProperties": {"^x-": {}}}, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_extensions(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if not key.startswith("x-")}
        return data


class OptionsRow(Row):
    """The named switches of a variant."""

    rpc: Flag = True
    """build the RPC backend and its worker"""
    vmm: Flag = False
    """let ggml use CUDA's virtual memory management"""
    native: Flag = False
    """compile for the machine that builds only"""
    ui: Flag = False
    """build the web UI"""
    cpu: str = "x86-64-v3"
    """the oldest CPU that must run the image, as -march names it"""


class ForkRow(Row):
    """A git source."""

    git: str
    """a URL, user@host:path, or a path of this project"""


class CudaRow(Row):
    """What is compiled for which cards."""

    toolkit: Scalar
    """the CUDA version of the base images, such as 12.8.1"""
    archs: Texts
    """the compute capabilities of the cards, such as [89, 120]"""


class BaseRow(Row):
    """The images that a build starts from."""

    build: str
    """the image that compiles, such as nvidia/cuda:12.8.1-devel-ubuntu24.04"""
    runtime: str
    """the image that runs, such as nvidia/cuda:12.8.1-runtime-ubuntu24.04"""


class PatchRow(Row):
    """A file of patches/<fork>/."""

    file: str
    """the file's name in patches/<fork>/"""
    why: str
    """one sentence: what goes wrong without it"""


class RegistryRow(Row):
    """A repository that images go through, in place of straight to the hosts."""

    repository: str
    """HOST/REPOSITORY, such as registry.lan:5000/llamacpp"""
    insecure: Flag = False
    """plain HTTP is allowed; on loopback it always is"""
    pull: str | None = None
    """HOST/REPOSITORY under which hosts reach the same content, such as that of a mirror"""


def _as_repository(value: object) -> object:
    return {"repository": value} if isinstance(value, str) else value


class _OrText:
    """In the JSON Schema, a bare text will do in place of the row."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [_TEXT, handler(schema)]}


#: A bare text is the repository.
RegistryField = Annotated[RegistryRow | None, BeforeValidator(_as_repository), _OrText()]


class DefaultsRow(Row):
    """What a variant has where it says nothing; options and cmake merge key by key."""

    options: OptionsRow = OptionsRow()
    """switches"""
    cmake: CmakeFlags = {}
    """further CMake flags"""
    platforms: Texts = ()
    """platforms, such as linux/amd64"""
    packages: tuple[str, ...] = BUILD_PACKAGES
    """Debian packages of the stage that compiles"""
    snapshot: Scalar = "auto"
    """the package archive as of a moment, such as 2026-05-01; auto: the lock decides (Ubuntu 24.04+); none: floats"""
    cuda: CudaRow | None = None
    """toolkit and archs of variants with the backend cuda"""
    base: BaseRow | None = None
    """base images"""
    template: str = TEMPLATE
    """a file of dockerfiles/"""
    registry: RegistryField = None
    """the repository that images are shipped by"""


class VariantRow(Row):
    """A named image: fork, commit, patches, options, bases, archs, platforms."""

    fork: str
    """a name under forks:"""
    commit: Scalar
    """the full hash (40 hex digits), or a tag or branch that the lock resolves"""
    image: str
    """the image's name, such as llamacpp-rpc"""
    tag: Scalar
    """the image's tag, such as the short commit"""
    backend: Literal["cuda", "cpu"] = "cuda"
    """cuda or cpu"""
    cuda: CudaRow | None = None
    """toolkit and archs"""
    base: BaseRow | None = None
    """base images"""
    patches: tuple[PatchRow, ...] = ()
    """patches, in the order they apply"""
    options: OptionsRow = OptionsRow()
    """switches"""
    cmake: CmakeFlags = {}
    """further CMake flags"""
    packages: tuple[str, ...] = ()
    """Debian packages of the stage that compiles"""
    snapshot: Scalar = "auto"
    """the package archive as of a moment, such as 2026-05-01; auto: the lock decides (Ubuntu 24.04+); none: floats"""
    platforms: Texts = ()
    """platforms, such as linux/amd64"""
    template: str = TEMPLATE
    """a file of dockerfiles/"""
    builder: Builder = {}
    """the host that builds, or one for each platform; {} for this machine"""
    registry: RegistryField = None
    """the repository that it is shipped by, such as registry.lan:5000/llamacpp"""


class HostRow(Row):
    """A machine; without `local` or `ssh` its own name is the ssh alias."""

    local: Flag = False
    """it is this machine"""
    ssh: str | None = None
    """an alias of the ssh configuration, or user@address"""
    ssh_config: str | None = None
    """an ssh configuration file for this host"""
    engine: Literal["docker", "podman", "containerd"] | None = None
    """docker, podman or containerd; by default what the command's name says"""
    docker: str | None = None
    """the engine's command there, by name or path; by default docker, podman or ctr, as the engine is"""
    docker_host: str | None = None
    """where that command finds its engine, such as unix:///run/user/1000/docker.sock"""
    context: str | None = None
    """a docker context there, instead of docker_host"""
    namespace: str | None = None
    """containerd's namespace; by default k8s.io, where Kubernetes keeps its images"""
    sudo: Flag = False
    """the command needs sudo"""
    platform: str | None = None
    """its platform, such as linux/arm64"""
    gpu: Texts = ()
    """compute capabilities of its cards, such as "8.9\""""
    transport: Literal["openssh", "paramiko"] | None = None
    """openssh (the system's ssh; the default where there is one) or paramiko"""


class MatrixFile(Row):
    """The matrix and the inventory of one project."""

    version: Version
    """1"""
    defaults: DefaultsRow = DefaultsRow()
    """what every variant has unless it says otherwise"""
    forks: dict[str, ForkRow] = Field(default={})
    """git sources by name"""
    variants: dict[str, VariantRow] = Field(default={})
    """images by name"""
    hosts: dict[str, HostRow] = Field(default={})
    """machines by name"""
    groups: dict[str, Texts] = Field(default={})
    """names for several hosts or groups"""
    ssh_config: str | None = None
    """an ssh configuration file for all hosts"""
    builder: Builder = {}
    """the host that builds, or one for each platform; without it this machine builds"""
