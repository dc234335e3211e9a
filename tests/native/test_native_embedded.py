"""Native sources in strings of Python, and calls of the runtime from Python."""

from __future__ import annotations

import pytest
from native_programs import loud

from torchvet.check.flow.native_python import Calls
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program
from torchvet.check.source.embedded import mask

SOURCE = '''import torch
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor f(torch::Tensor x);"
SRC = r"""
torch::Tensor f(torch::Tensor x) {
  float *p = nullptr;
  cudaMalloc(&p, 4);
  return x;
}
"""
ext = load_inline(name="f", cpp_sources=CPP, cuda_sources=[SRC], functions=["f"])
'''


def test_lines_of_the_python_file(tmp_path):
    assert loud(tmp_path, {"ext.py": SOURCE}) == [("ext.py", 8, "allocation-not-freed")]


def test_a_mask_has_the_length_of_the_text():
    masked = mask(SOURCE)
    assert len(masked) == len(SOURCE)
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in SOURCE.split("\n")]
    assert "import" not in masked and "cudaMalloc(&p, 4);" in masked


def test_docstrings_and_plain_strings_are_no_sources():
    assert mask('def f():\n    """cudaMalloc(&p, n); kernel<<<1, 1>>>()"""\n    load_inline\n') == ""
    assert mask('x = load_inline("name", "no source")\n') == ""
    assert mask("load_inline(r'''\n__global__ void k() {}\n") == ""  # a string that never ends


def test_strings_with_escapes(tmp_path):
    text = 'from torch.utils.cpp_extension import load_inline\nS = (\n    "#include <torch/extension.h>\\n"\n    "void f(int n) {\\n"\n    "  float *p; cudaMalloc(&p, n);\\n"\n    "}\\n"\n)\n'
    found = loud(tmp_path, {"ext.py": text + "load_inline(name='f', cuda_sources=S)\n"})
    assert found in ([], [("ext.py", 5, "allocation-not-freed")])


def test_cuda_python_and_ctypes(tmp_path):
    text = """import ctypes
from cuda.bindings import runtime as cudart

def leak(n):
    err, ptr = cudart.cudaMalloc(n)
    cudart.cudaMemset(ptr, 0, n)

def freed(n):
    err, ptr = cudart.cudaMalloc(n)
    try:
        cudart.cudaMemset(ptr, 0, n)
    finally:
        cudart.cudaFree(ptr)

def handed(n):
    err, ptr = cudart.cudaMalloc(n)
    return ptr

def by_ctypes(lib, n):
    p = ctypes.c_void_p()
    lib.cudaMalloc(ctypes.byref(p), n)
    lib.cudaMemset(p, 0, n)

def through_a_check(n, src):
    p = check_cuda(cudart.cudaMalloc(n))
    check_cuda(cudart.cudaMemcpy(p, src, n, 1))

def given_away(n):
    p = check_cuda(cudart.cudaMalloc(n))
    run(p)

class Finalized:
    def __init__(self, lib):
        self.p = ctypes.c_void_p()
        lib.cudaMalloc(ctypes.byref(self.p), 4)
        weakref.finalize(self, self._free, self.p)

class Stream:
    def __init__(self):
        err, self.stream = cudart.cudaStreamCreate()

class Closed:
    def __init__(self):
        err, self.stream = cudart.cudaStreamCreate()

    def __del__(self):
        cudart.cudaStreamDestroy(self.stream)
"""
    assert loud(tmp_path, {"a.py": text}) == [
        ("a.py", 5, "allocation-not-freed"),
        ("a.py", 21, "allocation-not-freed"),
        ("a.py", 25, "allocation-not-freed"),
        ("a.py", 40, "event-or-stream-leaked"),
    ]


LOCKED = """import ctypes, torch
lib = ctypes.CDLL("libcudart.so")

def lock(n, pool):
    t = torch.empty(n)
    {lock}
    assert err == 0
    t.fill_(1)
    {end}

def unlock(t):
    {unlock}
"""


@pytest.mark.parametrize(
    ("lock", "end", "unlock", "named"),
    [
        ("err = lib.cudaHostRegister(t.data_ptr(), n, 0)", "pass", "pass", "t"),
        ("err = lib.cudaHostRegister(ctypes.c_void_p(t.data_ptr()), n, 0)", "pass", "pass", "t"),
        ("err = lib.cudaHostRegister(ctypes.addressof(t), n, 0)", "pass", "pass", "t"),
        ("err = lib.cudaHostRegister(t.numpy().ctypes.data, n, 0)", "pass", "pass", "t"),
        ("err = lib.cudaHostRegister(t.data_ptr(), n, 0)", "lib.cudaHostUnregister(t.data_ptr())", "pass", ""),
        ("err = lib.cudaHostRegister(t.data_ptr(), n, 0)", "return t", "pass", ""),
        ("err = lib.cudaHostRegister(t.data_ptr(), n, 0)", "pool.append(keep(t))", "pass", ""),
        ("err = lib.cudaHostRegister(t.data_ptr(), n, 0)", "pass", "lib.cudaHostUnregister(t.data_ptr())", ""),
        ("err = lib.cudaHostRegister(address(n), n, 0)", "pass", "pass", ""),
    ],
)
def test_what_is_locked_is_the_argument(tmp_path, lock, end, unlock, named):
    text = LOCKED.format(lock=lock, end=end, unlock=unlock)
    program = Program(str(tmp_path), ["a.py"], {"a.py": text}.get)
    program.add("a.py", lower(text))
    assert [f.words["name"] for f in Calls(program).faults()] == ([named] if named else [])
