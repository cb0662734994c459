"""What the model tests share: calling mrcc, and the facts that every bundle's dump must state."""
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "models"))

# Keys of `mrcc dump --json` that scripts rely on: top level, then the keys of a nested object or of a list's items.
DUMP_KEYS = {
    "format_version": None, "producer": None, "targets": None,
    "model": ("name", "sha256", "inputs", "outputs"),
    "files": ("name", "bytes", "sha256"),
    "constants": ("count", "blob_bytes", "padding_bytes", "unshared_bytes"),
    "variants": ("key", "target", "artifact_bytes", "arena_bytes", "arena_lower_bound_bytes", "prepared_bytes",
                 "constant_bytes", "unique_constant_bytes", "code_bytes", "unique_code_bytes", "steps", "kernels",
                 "unique_kernels", "flops"),
    "kernels": ("name", "target", "code_bytes", "variants"),
    "folded": ("node", "ops", "bytes_before", "bytes_after", "stage"),
}


class Mrcc:
    """The tool."""

    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())

    def __call__(self, *args):
        """Runs `mrcc ARGS`; returns (seconds, stdout), ends the test with the tool's own words if it fails."""
        command = [self.binary, *map(str, args)]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-4000:]}")
        return time.monotonic() - start, done.stdout

    def dump(self, bundle):
        """What `mrcc dump --json` says of a bundle, checked for its keys and against the files on disk."""
        text = self("dump", "--json", bundle)[1]
        try:
            facts = json.loads(text)
        except json.JSONDecodeError as error:
            raise SystemExit(f"mrcc dump --json {bundle}: {error}\n{text[:400]}")
        wrong = [f"no key {k}" for k in DUMP_KEYS if k not in facts]
        for key, inner in DUMP_KEYS.items():
            items = facts.get(key, []) if inner else []
            for item in items if isinstance(items, list) else [items]:
                wrong += [f"{key}: no key {k}" for k in inner if k not in item]
        on_disk = {p.relative_to(bundle).as_posix(): p.stat().st_size for p in pathlib.Path(bundle).rglob("*") if p.is_file()}
        stated = {f["name"]: f["bytes"] for f in facts.get("files", [])}
        on_disk.pop("manifest.json", None)  # states the others, so it cannot state itself
        stated.pop("manifest.json", None)
        if on_disk != stated:
            wrong.append(f"files are {on_disk}, stated are {stated}")
        if wrong:
            raise SystemExit(f"mrcc dump --json {bundle}:\n  " + "\n  ".join(dict.fromkeys(wrong)))
        return facts
