"""The build's hook: a wheel is made without a trace in the source tree, and an editable install compiles into it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Hook:
    """Stands for hatchling's interface, which only builds have."""

    def __init__(self) -> None:
        self.app = SimpleNamespace(display_info=lambda _said: None, display_warning=lambda _said: None)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = Hook  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build_in_a_test", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Compiler:
    """Writes a module of a few bytes where it is told to, or says that it cannot."""

    def __init__(self, *, can_compile: bool = True) -> None:
        self.directories: list[Path] = []
        self.can_compile = can_compile

    def __call__(self, directory: Path) -> tuple[Path | None, str]:
        self.directories.append(directory)
        if not self.can_compile:
            return None, "no compiler"
        built = directory / "_native.so"
        built.write_bytes(b"compiled")
        return built, ""


def test_a_wheel_takes_the_module_from_a_directory_that_is_gone_afterwards(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = Compiler()
    monkeypatch.setattr(build, "try_to_compile", compiler)
    hook, data = build.NativeDecoderHook(), dict[str, Any](force_include={}, artifacts=[])
    hook.initialize("standard", data)
    (directory,) = compiler.directories
    assert not directory.is_relative_to(ROOT)
    assert data["force_include"] == {str(directory / "_native.so"): "spark_kcoord/fetch/decoding/_native.so"}
    assert (data["pure_python"], data["infer_tag"]) == (False, True)
    hook.finalize("standard", data, "the.whl")
    assert not directory.exists()


def test_a_wheel_without_a_compiler_is_of_python_alone(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(can_compile=False)
    monkeypatch.setattr(build, "try_to_compile", compiler)
    hook, data = build.NativeDecoderHook(), dict[str, Any](force_include={}, artifacts=[])
    hook.initialize("standard", data)
    hook.finalize("standard", data, "the.whl")
    assert data == {"force_include": {}, "artifacts": []}
    assert not compiler.directories[0].exists()


def test_an_editable_install_compiles_beside_the_sources(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark_kcoord" / "fetch" / "decoding").mkdir(parents=True)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "try_to_compile", Compiler())
    hook, data = build.NativeDecoderHook(), dict[str, Any](force_include={}, artifacts=[])
    hook.initialize("editable", data)
    hook.finalize("editable", data, "the.whl")
    assert (tmp_path / "spark_kcoord" / "fetch" / "decoding" / "_native.so").exists()
    assert data["force_include"] == {}
