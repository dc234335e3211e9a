"""Loaded by every Python process of a job that `torchvet run` started: waits for torch, then attaches the recorder.

Nothing that happens here may reach the job: each step is fenced, and the process's own `sitecustomize` runs first.
"""

_problems = []


def _own():
    """Run the sitecustomize that this one stands before."""
    import importlib.util
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.path:
        if os.path.abspath(folder or ".") == here:
            continue
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules["sitecustomize"] = module  # as if it had been found first
            spec.loader.exec_module(module)
            return


class _AfterTorch:
    """A finder that lets the others find torch and says so when it has been imported. Many ask only whether torch is
    there (importlib.util.find_spec) before they import it: it stays until torch was imported."""

    def __init__(self):
        self.asking = set()  # threads that ask the others

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import _thread
        import sys

        thread = _thread.get_ident()
        if thread in self.asking:  # one of the others asks all
            return None
        self.asking.add(thread)
        spec = None
        try:
            for finder in list(sys.meta_path):
                found = getattr(finder, "find_spec", None) if finder is not self else None
                spec = found(name, path, target) if found is not None else None
                if spec is not None:
                    break
        finally:
            self.asking.discard(thread)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            sys.meta_path[:] = [x for x in sys.meta_path if x is not self]
            _attach()

        try:
            spec.loader.exec_module = exec_module
        except Exception as e:  # a loader with slots: torch is imported, nobody watches
            _problems.append(e)
        return spec


def _attach():
    try:
        import os
        import sys

        source = os.environ.get("TORCHVET_SOURCE")
        added = bool(source) and source not in sys.path
        if added:
            sys.path.append(source)  # the job's own environment need not have torchvet installed
        try:
            from torchvet.run.rank import attached_by_hook

            attached_by_hook()
        finally:
            if added:
                sys.path.remove(source)
    except Exception as e:
        _problems.append(e)


try:
    _own()
finally:
    try:
        import os as _os
        import sys as _sys

        if _os.environ.get("TORCHVET_RUN_DIR"):
            _sys.meta_path.insert(0, _AfterTorch())
    except Exception as e:
        _problems.append(e)
