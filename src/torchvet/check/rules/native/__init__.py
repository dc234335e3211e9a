"""Ownership of CUDA and C++ resources."""
