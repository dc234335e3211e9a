"""Kustomize: which folders of manifests get shared memory from a patch that stands in another folder.

Where a kustomization or one of its patch files names /dev/shm, the manifests that it builds on are not the whole
story. https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .deploy import Deploy

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
BASES = ("resources", "bases", "components")
DEEP, MOST = 3, 60
SHM = "/dev/shm"


class Patches:
    def __init__(self, deploy: Deploy) -> None:
        self.deploy = deploy
        self._found: dict[str, frozenset[str]] = {}

    def mount(self, path: str) -> bool:
        """Whether a kustomization that builds on the folder of this manifest patches something at /dev/shm."""
        folder = path.rpartition("/")[0]
        around = [folder, *([folder.rpartition("/")[0]] if folder else [])]
        return any(folder in self.patched(x) for x in around)

    def patched(self, folder: str) -> frozenset[str]:
        """The folders that patches in and below `folder` reach."""
        if folder not in self._found:
            out: set[str] = set()
            for place in self.below(folder):
                for name in NAMES:
                    path = f"{place}/{name}".lstrip("/")
                    if os.path.isfile(os.path.join(self.deploy.program.root, path)) and self.adds(path):
                        self.reach(place, out)
            self._found[folder] = frozenset(out)
        return self._found[folder]

    def below(self, folder: str) -> list[str]:
        """The folder and those below it, a few levels deep."""
        out, level = [folder], [folder]
        for _ in range(DEEP):
            found = []
            for place in level:
                try:
                    with os.scandir(os.path.join(self.deploy.program.root, place)) as entries:
                        names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and e.name[0] != ".")
                except OSError:
                    continue
                found += [f"{place}/{name}".lstrip("/") for name in names[:MOST]]
            level = found[: MOST - len(out)]
            out += level
        return out

    def adds(self, path: str) -> bool:
        """The kustomization, or a file beside it that it names, holds /dev/shm."""
        program = self.deploy.program
        program.consulted.add(path)
        text = program.text(path) or ""
        if SHM in text:
            return True
        folder = path.rpartition("/")[0]
        for document in self.deploy.tree_of(path):
            listed = {x.text for name in BASES for x in document.list(name)}
            for node in document.walk():
                if node.kind == "scalar" and node.text.endswith((".yaml", ".yml", ".json")) and node.text not in listed:
                    full = os.path.normpath(os.path.join(folder, node.text)).replace(os.sep, "/")
                    if not full.startswith("..") and not os.path.isabs(full):
                        program.consulted.add(full)
                        if SHM in (program.text(full) or ""):
                            return True
        return False

    def reach(self, folder: str, out: set[str], depth: int = 0) -> None:
        """`folder` and the folders of what its kustomization builds on."""
        if folder in out or depth > DEEP:
            return
        out.add(folder)
        for name in NAMES:
            path = f"{folder}/{name}".lstrip("/")
            if not os.path.isfile(os.path.join(self.deploy.program.root, path)):
                continue
            for document in self.deploy.tree_of(path):
                for base in (x.text for key in BASES for x in document.list(key)):
                    full = os.path.normpath(os.path.join(folder, base)).replace(os.sep, "/")
                    if full.startswith("..") or os.path.isabs(full):
                        continue
                    if full.endswith((".yaml", ".yml")):
                        out.add(full.rpartition("/")[0])
                    else:
                        self.reach("" if full == "." else full, out, depth + 1)
