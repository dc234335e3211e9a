"""What is created anew into what still holds the old: in loops, behind early returns, by elements."""

from __future__ import annotations

import pytest
from native_programs import loud, marked

FAULTY = {
    "each turn of a loop": """
void f(const int *sizes, int k) {
    float *buf = nullptr;
    for (int i = 0; i < k; ++i) {
        cudaMalloc(&buf, sizes[i]);  //! allocation-not-freed
        cudaMemset(buf, 0, sizes[i]);
    }
    cudaFree(buf);
}
""",
    "behind an early return": """
static void *ws = nullptr;
static size_t cap = 0;
void *get(size_t n) {
    if (n <= cap) return ws;
    cudaMalloc(&ws, n);  //! allocation-not-freed
    cap = n;
    return ws;
}
""",
    "elements of a container": """
void f(int k) {
    std::vector<cudaStream_t> all(k);
    for (auto &s : all) cudaStreamCreate(&s);  //! event-or-stream-leaked
    for (auto &s : all) cudaStreamSynchronize(s);
}
""",
    "a deleter of another allocator": """
std::shared_ptr<float> f(int n) {
    float *p = nullptr;
    cudaMalloc(&p, n);
    return std::shared_ptr<float>(p, [](float *q) { free(q); });  //! free-mismatch
}
""",
}
CLEAN = {
    "tried again until it works": """
int f(size_t n) {
    void *p = nullptr;
    for (int i = 0; i < 3; ++i) {
        if (cudaMalloc(&p, n) == cudaSuccess) break;
        n /= 2;
    }
    cudaFree(p);
    return 0;
}
""",
    "a body that runs once": """
void f(size_t n) {
    void *p = nullptr;
    do {
        cudaMalloc(&p, n);
    } while (0);
    cudaFree(p);
}
""",
    "made in the first turn": """
void f(int k, size_t n) {
    void *p = nullptr;
    for (int i = 0; i < k; ++i) {
        if (!p) cudaMalloc(&p, n);
        cudaMemset(p, 0, n);
    }
    cudaFree(p);
}
""",
    "kept by a list": """
void f(int k, size_t n, std::vector<void *> &out) {
    void *p;
    for (int i = 0; i < k; ++i) {
        cudaMalloc(&p, n);
        out.push_back(p);
    }
}
""",
    "released in each turn, on all ways": """
int f(int k, size_t n) {
    void *p = nullptr;
    for (int i = 0; i < k; ++i) {
        cudaMalloc(&p, n);
        if (i == 3) { cudaFree(p); continue; }
        cudaMemset(p, 0, n);
        cudaFree(p);
    }
    return 0;
}
""",
    "once, behind a test of it": """
static void *ws = nullptr;
void *get(size_t n) {
    if (ws) return ws;
    cudaMalloc(&ws, n);
    return ws;
}
""",
    "elements that are handed back": """
std::vector<cudaStream_t> f(int k) {
    std::vector<cudaStream_t> all(k);
    for (auto &s : all) cudaStreamCreate(&s);
    return all;
}
void g(std::vector<cudaEvent_t> &all) {
    for (auto &e : all) cudaEventCreate(&e);
}
""",
    "two methods that belong together": """
class Plug {
public:
    int initialize() { return cudaMalloc(&w_, 64) != cudaSuccess; }
    void terminate() { cudaFree(w_); }
private:
    void *w_ = nullptr;
};
""",
}


@pytest.mark.parametrize("what", FAULTY)
def test_what_is_lost(what, tmp_path):
    assert loud(tmp_path, {"a.cu": FAULTY[what]}) == marked(FAULTY[what])


@pytest.mark.parametrize("what", CLEAN)
def test_what_is_not(what, tmp_path):
    assert loud(tmp_path, {"a.cu": CLEAN[what]}) == []
