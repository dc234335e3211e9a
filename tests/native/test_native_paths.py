"""Paths through functions: what is held where they leave, through helpers, macros, loops, conditions."""

from __future__ import annotations

import pytest
from native_programs import loud, marked

FAULTY = {
    "a branch on success that leaves": """
int f(int n, bool quick) {
    float *p = nullptr;
    if (cudaMalloc(&p, n) != cudaSuccess) return 1;
    if (p != nullptr && quick) return 2;  //! leak-on-path
    cudaFree(p);
    return 0;
}
""",
    "goto past the release": """
int f(const float *src, float *dst, int n) {
    float *tmp = NULL;
    cudaError_t err = cudaMalloc((void **)&tmp, n);
    if (err != cudaSuccess) goto fail;
    err = cudaMemcpy(tmp, src, n, cudaMemcpyHostToDevice);
    if (err != cudaSuccess) goto fail;  //! leak-on-path
    cudaFree(tmp);
    return 0;
fail:
    return -1;
}
""",
    "a helper that allocates and one that frees": """
static void *grab(size_t n) {
    void *p = nullptr;
    cudaMalloc(&p, n);
    return p;
}
static void drop(void *p) {
    if (p) cudaFree(p);
}
int f(size_t n) {
    float *w = (float *)grab(n);
    if (n < 4) return 1;  //! leak-on-path
    cudaMemset(w, 0, n);
    drop(w);
    return 0;
}
void g(size_t n) {
    float *w = static_cast<float *>(grab(n));  //! allocation-not-freed
    cudaMemset(w, 0, n);
}
""",
    "an out-parameter": """
void make(float **p, int n) { cudaMalloc(p, n); }
void f(int n) {
    float *q;
    make(&q, n);  //! allocation-not-freed
    cudaMemset(q, 0, n);
}
""",
    "one case of a switch": """
void f(int k, int n) {
    float *t = nullptr;
    cudaMalloc(&t, n);
    switch (k) {
    case 0:
        cudaMemset(t, 0, n);
        break;
    case 1:
        return;  //! leak-on-path
    default:
        cudaMemset(t, 1, n);
    }
    cudaFree(t);
}
""",
    "overwritten, lost, freed twice": """
void f(int n) {
    float *p;
    cudaMalloc(&p, n);
    cudaMalloc(&p, 2 * n);  //! allocation-not-freed
    cudaFree(p);
}
void g(int n) {
    float *p;
    cudaMalloc(&p, n);
    cudaMemset(p, 0, n);
    p = nullptr;  //! allocation-not-freed
}
void h(int n) {
    float *p;
    cudaMalloc(&p, n);
    cudaFree(p);
    cudaFree(p);  //! free-mismatch
}
""",
    "elements of a vector": """
void f(int n) {
    std::vector<cudaEvent_t> ev(n);
    for (int i = 0; i < n; ++i) cudaEventCreate(&ev[i]);  //! event-or-stream-leaked
    for (auto &e : ev) cudaEventRecord(e);
}
""",
    "HIP and the driver": """
void f(int n) {
    float *p;
    hipMalloc(&p, n);  //! allocation-not-freed
    CUdeviceptr d;
    cuMemAlloc(&d, n);  //! allocation-not-freed
    cuMemsetD8(d, 0, n);
}
""",
    "temporary storage of cub": """
void f(float *in, float *out, int n, cudaStream_t s) {
    void *tmp = nullptr;
    size_t bytes = 0;
    cub::DeviceReduce::Sum(tmp, bytes, in, out, n, s);
    cudaMalloc(&tmp, bytes);  //! allocation-not-freed
    cub::DeviceReduce::Sum(tmp, bytes, in, out, n, s);
}
""",
    "a branch of #if": """
int f(int n) {
    float *p;
    cudaMalloc(&p, n);
#ifdef STRICT
    if (n < 4) return 1;  //! leak-on-path
#else
    cudaMemset(p, 0, n);
#endif
    cudaFree(p);
    return 0;
}
""",
    "inside a dispatch macro": """
void f(torch::Tensor x, int n) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", ([&] {
        scalar_t *p;
        C10_CUDA_CHECK(cudaMalloc(&p, n));  //! allocation-not-freed
        cudaMemset(p, 0, n);
    }));
}
""",
}

CLEAN = {
    "a branch on success": """
int f(int n) {
    float *p = nullptr;
    if (cudaMalloc(&p, n) == cudaSuccess) {
        cudaMemset(p, 0, n);
        cudaFree(p);
        return 0;
    }
    return 1;
}
int g(int n) {
    float *p = nullptr;
    cudaError_t e = cudaMalloc(&p, n);
    if (e == cudaSuccess) {
        cudaFree(p);
        return 0;
    }
    return 1;
}
int h(int n) {
    float *p = nullptr;
    cudaMalloc(&p, n);
    if (p) {
        cudaFree(p);
        return 0;
    }
    return 1;
}
""",
    "a macro that checks the last error": """
#define CHECK_LAUNCH() do { if (cudaGetLastError() != cudaSuccess) return 1; } while (0)
int f(int n) {
    float *p;
    cudaMalloc(&p, n);
    CHECK_LAUNCH();
    cudaFree(p);
    return 0;
}
""",
    "nothing was allocated": """
void *f(size_t n) {
    void *p = c10::cuda::CUDACachingAllocator::raw_alloc(n);
    if (!p) {
        throw std::runtime_error("no memory");
    }
    return p;
}
int g(size_t n) {
    void *p = nullptr;
    cudaMalloc(&p, n);
    if (p == nullptr) return 1;
    cudaFree(p);
    return 0;
}
""",
    "a program": """
int main() {
    float *p;
    cudaMalloc(&p, 4);
    cudaMemset(p, 0, 4);
    return 0;
}
""",
    "one label that frees": """
int f(const float *src, float *dst, int n) {
    float *tmp = NULL;
    cudaError_t err = cudaMalloc((void **)&tmp, n);
    if (err != cudaSuccess) goto done;
    err = cudaMemcpy(tmp, src, n, cudaMemcpyHostToDevice);
    if (err != cudaSuccess) goto done;
done:
    if (tmp) cudaFree(tmp);
    return err;
}
""",
    "freed under the flag that allocated": """
void f(bool need, int n) {
    float *p = nullptr;
    if (need) cudaMalloc(&p, n);
    if (need) cudaFree(p);
}
""",
    "caught, freed, thrown on": """
void f(float *x, int n) {
    float *t = nullptr;
    cudaMalloc(&t, n);
    try {
        if (n > 4) throw std::runtime_error("x");
        cudaMemset(t, 0, n);
    } catch (const std::exception &e) {
        cudaFree(t);
        throw;
    }
    cudaFree(t);
}
""",
    "iterators": """
void f(int n) {
    std::vector<cudaStream_t> all(n);
    for (int i = 0; i < n; ++i) cudaStreamCreate(&all[i]);
    for (auto it = all.begin(); it != all.end(); ++it) cudaStreamDestroy(*it);
}
""",
    "a function that the project does not show": """
void f(int n) {
    float *p;
    cudaMalloc(&p, n);
    registry_take(p);
}
""",
    "an object of unknown type": """
void f(int n) {
    float *p;
    cudaMalloc(&p, n);
    Holder holder(p);
    Other other{p};
}
""",
    "released in one branch of #if and in the other": """
void f(int n) {
    float *p;
    cudaMalloc(&p, n);
#ifdef USE_ASYNC
    cudaFreeAsync(p, 0);
#else
    cudaFree(p);
#endif
}
""",
    "a check of the status is no path": """
void f(int n) {
    float *a, *b;
    C10_CUDA_CHECK(cudaMalloc(&a, n));
    cudaError_t err = cudaMalloc(&b, n);
    TORCH_CHECK(err == cudaSuccess, "no memory");
    cudaFree(b);
    cudaFree(a);
}
""",
    "freed, emptied, allocated, freed": """
void f(int n) {
    float *p = nullptr;
    cudaMalloc(&p, n);
    cudaFree(p);
    p = nullptr;
    cudaMalloc(&p, n);
    cudaFree(p);
}
""",
    "braces that do not match": """
void f(int n) {
    float *p;
    cudaMalloc(&p, n);
""",
    "a macro that begins a block": """
BEGIN_LAUNCH(x)
void f(int n) { float *p; cudaMalloc(&p, n); keep(p); }
END_LAUNCH
""",
}


@pytest.mark.parametrize("what", FAULTY)
def test_fault_is_found(what, tmp_path):
    text = FAULTY[what]
    assert sorted(loud(tmp_path, {"a.cu": text})) == sorted(marked(text))


@pytest.mark.parametrize("what", CLEAN)
def test_clean_is_silent(what, tmp_path):
    assert loud(tmp_path, {"a.cu": CLEAN[what]}) == []


@pytest.mark.parametrize("name", ["a.cu", "a.cuh", "a.cpp", "a.hip", "a.h"])
def test_a_comment_suppresses(name, tmp_path):
    comment = "// torchvet: ignore[allocation-not-freed] freed by the driver"
    text = f"void f(int n) {{\n    float *p;\n    cudaMalloc(&p, n);  {comment}\n}}\n"
    above = f"void f(int n) {{\n    float *p;\n    {comment}\n    cudaMalloc(&p, n);\n}}\n"
    assert loud(tmp_path / "a", {name: text}) == []
    assert loud(tmp_path / "b", {name: above}) == []
    assert loud(tmp_path / "c", {name: text.replace("// torchvet", "// torch")}) == [(name, 3, "allocation-not-freed")]


def test_three_files_are_read_together(tmp_path):
    files = {
        "src/engine.h": "#pragma once\nclass Engine {\npublic:\n    Engine();\n    ~Engine();\n    Engine(const Engine &) = delete;\n"
        "private:\n    cublasHandle_t blas_;\n    float *work_;\n};\n",
        "src/open.cpp": '#include "engine.h"\nEngine::Engine() {\n    cublasCreate(&blas_);\n    cudaMalloc(&work_, 64);\n}\n',
        "src/close.cpp": '#include "engine.h"\nEngine::~Engine() { cudaFree(work_); }\n',
    }
    assert loud(tmp_path, files) == [("src/open.cpp", 3, "handle-not-destroyed")]
    del files["src/close.cpp"]  # what the destructor does is unknown
    (tmp_path / "src" / "close.cpp").unlink()
    assert loud(tmp_path, files) == []
