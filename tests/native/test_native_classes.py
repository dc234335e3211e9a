"""Classes: what constructors and methods create against what destructors release."""

from __future__ import annotations

import pytest
from native_programs import loud, marked

FAULTY = {
    "a member of another allocator": """
class A {
public:
    A() { cudaMallocHost(&p_, 4); }
    ~A() { cudaFree(p_); }  //! free-mismatch
    A(const A &) = delete;
    float *p_;
};
""",
    "a template": """
template <typename T> class Buf {
public:
    Buf(size_t n) { cudaMalloc(&d_, n * sizeof(T)); }  //! allocation-not-freed
    T *get() { return d_; }

private:
    T *d_;
};
""",
    "methods outside of a class in a namespace": """
namespace ns {
class Ev {
public:
    Ev();
    ~Ev();

private:
    cudaEvent_t e_;
};
Ev::Ev() { cudaEventCreate(&e_); }  //! event-or-stream-leaked
Ev::~Ev() {}
}
""",
    "a move assignment that leaves the source": """
class Ass {
public:
    Ass() { cudaMalloc(&p_, 4); }
    Ass(Ass &&o) : p_(o.p_) { o.p_ = nullptr; }
    Ass &operator=(Ass &&o) {  //! owner-copied
        cudaFree(p_);
        p_ = o.p_;
        return *this;
    }
    ~Ass() { cudaFree(p_); }
    void *p_;
};
""",
    "no destructor at all": """
struct Blas {
    cublasHandle_t h;
    Blas() { cublasCreate(&h); }  //! handle-not-destroyed
};
""",
}

CLEAN = {
    "the base releases": """
struct Base {
    virtual ~Base() { cudaFree(buf); }
    float *buf = nullptr;
};
struct Derived : Base {
    Derived(int n) { cudaMalloc(&buf, n); }
};
""",
    "released from Python": """
class Rel {
public:
    void init(int n) { cudaMalloc(&q_, n); }
    void release() { cudaFree(q_); }

private:
    float *q_;
};
PYBIND11_MODULE(x, m) { py::class_<Rel>(m, "Rel").def("init", &Rel::init).def("release", &Rel::release); }
""",
    "a smart pointer with a deleter": """
class Uq {
    struct D {
        void operator()(float *p) const { cudaFree(p); }
    };
    std::unique_ptr<float, D> p_;

public:
    Uq(int n) {
        float *t;
        cudaMalloc(&t, n);
        p_.reset(t);
    }
};
""",
    "a singleton": """
class Sing {
public:
    static Sing &get() {
        static Sing s;
        return s;
    }

private:
    Sing() { cublasCreate(&h_); }
    cublasHandle_t h_;
};
""",
    "made on first use": """
class Lazy {
public:
    ~Lazy() {
        if (p_ != nullptr) cudaFree(p_);
    }
    Lazy(const Lazy &) = delete;
    void *get(size_t n) {
        if (p_ == nullptr) cudaMalloc(&p_, n);
        return p_;
    }
    void *p_ = nullptr;
};
""",
    "arrays of members": """
class Multi {
public:
    Multi() {
        for (int i = 0; i < 3; i++) {
            cudaStreamCreate(&s_[i]);
            cudaEventCreate(&e_[i]);
        }
    }
    ~Multi() {
        for (int i = 0; i < 3; i++) {
            cudaStreamDestroy(s_[i]);
            cudaEventDestroy(e_[i]);
        }
    }
    Multi(const Multi &) = delete;
    cudaStream_t s_[3];
    cudaEvent_t e_[3];
};
""",
    "moves that swap": """
class Mv {
public:
    Mv() { cudaMalloc(&p_, 4); }
    Mv(Mv &&o) { *this = std::move(o); }
    Mv &operator=(Mv &&o) {
        std::swap(p_, o.p_);
        return *this;
    }
    ~Mv() { cudaFree(p_); }
    void *p_ = nullptr;
};
""",
    "a destructor that is not here": """
class Far {
public:
    Far() { cudaMalloc(&p_, 4); }
    ~Far();
    void *p_;
};
""",
}


@pytest.mark.parametrize("what", FAULTY)
def test_fault_is_found(what, tmp_path):
    text = FAULTY[what]
    assert sorted(loud(tmp_path, {"a.cu": text})) == sorted(marked(text))


@pytest.mark.parametrize("what", CLEAN)
def test_clean_is_silent(what, tmp_path):
    assert loud(tmp_path, {"a.cu": CLEAN[what]}) == []
