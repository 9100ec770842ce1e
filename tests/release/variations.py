"""Builds a copy of the tree under circumstances of its own: another folder, time, time zone, locale, umask, host name and
number of jobs. What two such builds make has to be the same, byte for byte."""
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Circumstances:
    folder: str
    shift: str  # of the clock, as faketime takes it; '' is the real one
    zone: str
    locale: str
    umask: int
    host: str
    jobs: int


FIRST = Circumstances("a", "", "UTC", "C", 0o022, "first", 3)
SECOND = Circumstances("another folder/deeper", "+400d", "Asia/Kathmandu", "C.UTF-8", 0o077, "second", 1)

# What a developer's shell may set, and builds must not depend on.
DROPPED = ("CMAKE_C_COMPILER_LAUNCHER", "CFLAGS", "LDFLAGS", "DESTDIR", "CMAKE_BUILD_PARALLEL_LEVEL")


def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        sys.exit(f"{sys.argv[0]}: {', '.join(missing)} not installed; run scripts/setup --tools")


def run(circumstances, command, folder, **env):
    """Runs a command, and prints its output only if it fails."""
    command = list(map(str, command))
    if circumstances.shift:
        command = ["faketime", "-f", circumstances.shift, *command]
    rename = f"echo {circumstances.host} >/proc/sys/kernel/hostname && exec \"$@\""
    if os.geteuid() == 0 and subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0:
        command = ["unshare", "--uts", "sh", "-c", rename, "sh", *command]
    out = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                         umask=circumstances.umask, errors="replace",
                         env={**{k: v for k, v in os.environ.items() if k not in DROPPED}, "TZ": circumstances.zone,
                              "LC_ALL": circumstances.locale, "CCACHE_DISABLE": "1", **env})
    if out.returncode:
        sys.exit(f"{' '.join(command)}: exit code {out.returncode}\n{out.stdout[-4000:]}")
    return out.stdout


def copy_tree(root, to, umask):
    """The files of the tree as a clone has them; build/ and .git stay behind."""
    before = os.umask(umask)
    try:
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "build", ".cache", "node_modules", "__pycache__")]
            here = to / pathlib.Path(folder).relative_to(root)
            here.mkdir(parents=True)
            for name in names:
                source = pathlib.Path(folder) / name
                if source.is_file() and name != ".git":
                    shutil.copyfile(source, here / name)
                    (here / name).chmod((0o777 if os.access(source, os.X_OK) else 0o666) & ~umask)
    finally:
        os.umask(before)


def package(circumstances, source, deps, epoch):
    """Builds the Debian packages of a copy of the tree, beside it; Debian 12 takes the pinned archives. Returns them by name."""
    (source / "build").mkdir(exist_ok=True)
    (source / "build/deps").symlink_to(deps)
    profiles = "nocheck,pkg.channeld.pinned" if 'VERSION_ID="12"' in pathlib.Path("/etc/os-release").read_text() else "nocheck"
    run(circumstances, ["dpkg-buildpackage", "--build=binary", "--no-sign", f"--build-profiles={profiles}"], source,
        SOURCE_DATE_EPOCH=str(epoch), DEB_BUILD_OPTIONS=f"parallel={circumstances.jobs}")
    return {file.name.split("_")[0]: file for file in source.parent.glob("channeld*.deb")}


def compare(name, first, second, explain=True):
    """Says whether two files are the same, and if not, what differs."""
    if first.read_bytes() == second.read_bytes():
        print(f"{name}: same, {first.stat().st_size} bytes")
        return True
    print(f"{name}: {first} and {second} differ")
    if explain and shutil.which("diffoscope"):
        out = subprocess.run(["diffoscope", "--max-report-size", "20000", "--timeout", "120", str(first), str(second)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, errors="replace")
        print("\n".join(out.stdout.splitlines()[:80]))
    return False
