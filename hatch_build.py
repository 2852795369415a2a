"""Compiles the record batch decoder while kcoord is built or installed, where there is a C compiler.

Without one the build goes on and the install decodes with NumPy; `KCOORD_NATIVE=require` makes that a failure (for
wheels), `KCOORD_NATIVE=skip` does not try. An editable install compiles into the source tree; any other leaves the tree
as it was. Run as a program, `python hatch_build.py DIRECTORY [--checked]` compiles into a directory, with bounds checks
and sanitizers if asked.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
MODULE = "spark_kcoord.fetch.decoding._native"
SOURCE = "spark_kcoord/fetch/decoding/_native.pyx"
PARTS = ("*/*.pxi", "*/*.h")
"""What the source includes, below the room of fetching."""
SETTING = "KCOORD_NATIVE"
GCC_FLAGS = ("-O3", "-g0", "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-missing-field-initializers")
CHECKED_FLAGS = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"),
    *("-fsanitize=address", "-fsanitize=undefined"),
)


def compile_native(directory: Path, *, is_checked: bool = False) -> Path:
    """Compile the module into `directory` and return its path; raises what Cython and setuptools raise."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    is_msvc = sys.platform == "win32"
    flags = list(CHECKED_FLAGS if is_checked else GCC_FLAGS) if not is_msvc else ["/O2"]
    directives = {"boundscheck": is_checked, "wraparound": False, "cdivision": not is_checked}
    with tempfile.TemporaryDirectory(prefix="kcoord-native-") as scratch:
        extension = Extension(
            MODULE,
            [SOURCE],
            include_dirs=["spark_kcoord/fetch/decoding", "spark_kcoord/fetch/receiving"],
            extra_compile_args=flags,
            extra_link_args=[flag for flag in flags if flag.startswith("-fsanitize")],
        )
        before = Path.cwd()
        os.chdir(ROOT)  # Cython and setuptools take paths from here
        try:
            modules = cythonize([extension], build_dir=scratch, compiler_directives=directives, quiet=True, force=True)
            command = build_ext(Distribution({"name": "kcoord", "ext_modules": modules}))
            command.build_lib = str(Path(scratch, "lib"))
            command.build_temp = str(Path(scratch, "objects"))
            command.ensure_finalized()
            command.run()
        finally:
            os.chdir(before)
        built = Path(scratch, "lib", command.get_ext_filename(MODULE))
        target = directory / built.name
        # A new file, never the old one written over: a process may have it mapped.
        shutil.copy2(built, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)
    return target


def _is_new(built: Path) -> bool:
    parts = (part for pattern in PARTS for part in (ROOT / "spark_kcoord" / "fetch").glob(pattern))
    newest = max(path.stat().st_mtime for path in (ROOT / SOURCE, *parts, Path(__file__)))
    return built.exists() and built.stat().st_mtime >= newest


def try_to_compile(directory: Path) -> tuple[Path | None, str]:
    """Return the compiled module, or None and why there is none; raises RuntimeError if it is required."""
    built = directory / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    setting = os.environ.get(SETTING, "")
    if setting == "skip":
        built.unlink(missing_ok=True)
        return None, f"{SETTING}=skip"
    if _is_new(built):
        return built, ""
    try:
        return compile_native(directory), ""
    except (Exception, SystemExit) as error:  # compilers fail in many ways, and an install must not
        built.unlink(missing_ok=True)
        if setting == "require":
            raise RuntimeError(f"the compiled decoder cannot be built but {SETTING}=require") from error
        return None, f"{type(error).__name__}: {error}"


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program, outside of a build
    pass
else:

    class NativeDecoderHook(BuildHookInterface):
        """Adds the compiled module to a wheel; an editable install gets it in the source tree."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile, and say what came of it."""
            is_editable = version == "editable"
            self._scratch = None if is_editable else tempfile.TemporaryDirectory(prefix="kcoord-wheel-")
            directory = Path(self._scratch.name) if self._scratch else ROOT / "spark_kcoord" / "fetch" / "decoding"
            built, why = try_to_compile(directory)
            if built is None:
                self.app.display_warning(f"kcoord: no compiled decoder, NumPy decodes instead ({why})")
                return
            self.app.display_info(f"kcoord: compiled {built.name}")
            if not is_editable:
                build_data["pure_python"] = False
                build_data["infer_tag"] = True
                build_data["force_include"][str(built)] = f"spark_kcoord/fetch/decoding/{built.name}"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """Remove what the wheel holds by now."""
            del version, build_data, artifact_path
            if self._scratch is not None:
                self._scratch.cleanup()


if __name__ == "__main__":
    print(compile_native(Path(sys.argv[1]), is_checked="--checked" in sys.argv))
