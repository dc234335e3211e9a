"""Which forwards count as evaluation with a graph."""

from __future__ import annotations

import pytest
from graph_programs import graphs_of


def lines(source):
    return [u.pos >> 44 for u in graphs_of(source).evaluations()]


EVALUATE = """
import torch


{decorator}
def evaluate(model, loader):
    model.eval()
    for x in loader:
        {inside}


def main(model, loader, epochs):
    for _ in range(epochs):
        {call}
"""


def program(decorator="", inside="model(x)", call="evaluate(model, loader)"):
    return EVALUATE.format(decorator=decorator, inside=inside, call=call)


def test_plain():
    assert lines(program()) == [9]


@pytest.mark.parametrize(
    "parts",
    [
        {"decorator": "@torch.no_grad()"},
        {"decorator": "@torch.no_grad"},
        {"decorator": "@torch.inference_mode()"},
        {"inside": "with torch.no_grad(): model(x)"},
        {"inside": "model(x).sum().backward()"},
        {"inside": "x.requires_grad_(True); model(x)"},
        {"inside": "model.train(); model(x)"},
        {"inside": "torch.autograd.grad(model(x).sum(), x)"},
        {"inside": "model.generate(x)"},
        {"call": "with torch.no_grad(): evaluate(model, loader)"},
        {"call": "register(evaluate)"},
    ],
)
def test_silent(parts):
    assert lines(program(**parts)) == []


def test_one_caller_without_is_enough():
    both = program(call="with torch.no_grad(): evaluate(model, loader)") + "        evaluate(model, loader)\n"
    assert lines(both) == [9]


def test_a_single_forward_is_no_loop():
    assert lines("def demo(model, x):\n    model.eval()\n    return model(x).argmax()\n") == []


def test_evaluated_by_the_caller():
    source = """
    def run(model, loader):
        return sum(float(model(x).sum()) for x in loader)


    def main(model, loader):
        model.eval()
        run(model, loader)
    """
    assert lines(source) == [3]


def test_trained_in_the_caller():
    source = """
    def outputs(model, x):
        model.eval()
        return model(x)


    def adapt(model, loader, optimizer):
        for x in loader:
            outputs(model, x).sum().backward()
            optimizer.step()
    """
    assert lines(source) == []


def test_ways_are_told_apart():
    source = """
    def run(model, loader, optimizer, train):
        if train:
            model.train()
        else:
            model.eval()
        for x in loader:
            loss = model(x).sum()
            if {}:
                loss.backward()
                optimizer.step()
    """
    assert lines(source.format("train")) == [8]
    assert lines(source.format("not train")) == []


def test_frozen_network_of_a_training_loop():
    source = """
    def distil(student, teacher, loader, optimizer):
        teacher.eval()
        for x in loader:
            target = teacher(x).detach()
            (student(x) - target).pow(2).sum().backward()
            optimizer.step()
    """
    assert lines(source) == []


def test_method_of_a_class_that_a_framework_runs():
    source = """
    from framework import Task


    class Mine(Task):
        def check(self, model, loader):
            model.eval()
            for x in loader:
                model(x)
    """
    assert lines(source) == []
