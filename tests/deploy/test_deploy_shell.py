"""Shell text as commands: words, values, places."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.check.source.shell_values import script
from torchvet.check.source.traced import CLOSE, OPEN, Traced


def words(text: str) -> list[list[str]]:
    return [
        [w.text.replace(OPEN, "<").replace(CLOSE, ">") for w in c.words] for c in script(Traced.at(text, 0)).commands
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a \\\n  b \\\n  c", [["a", "b", "c"]]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a # b\n# c\nd", [["a"], ["d"]]),
        ("a#b", [["a#b"]]),
        ("X=1\na $X ${X} \"$X\" '$X'", [["a", "1", "1", "1", "$X"]]),
        ("X='a b'\nc $X \"$X\"", [["c", "a", "b", "a b"]]),
        ("X=\na $X b", [["a", "b"]]),
        ('a "$X" b', [["a", "<X>", "b"]]),
        ("a ${X:-d e} ${Y-f}", [["a", "d", "e", "f"]]),
        (': "${X:=5}"\na $X', [[":", "5"], ["a", "5"]]),
        ('A=(x "y z" # no\n w)\na "${A[@]}" ${A[@]}', [["a", "x", "y z", "w", "x", "y z", "w"]]),
        ("A=(x)\nA+=(y)\na ${A[*]}", [["a", "x", "y"]]),
        ("declare -a A=(x y)\na ${A[@]}", [["a", "x", "y"]]),
        ("O='-a'\nO+=' -b'\nc $O", [["c", "-a", "-b"]]),
        ("if x; then O=--a; else O=; fi\nc $O d", [["x"], ["c", "--a", "d"]]),
        ("if x; then N=1; else N=2; fi\nc $N", [["x"], ["c", "<N>"]]),
        ("cat <<EOF\ndocker run x\nEOF\nb", [["cat"], ["b"]]),
        ("cat <<-'EOF' > f\n\ta\n\tEOF\nb", [["cat"], ["b"]]),
        ("f() {\n  a $X\n}\nX=1\nf", [["f"], ["a", "1"]]),
        ("function f {\n a\n}\nb", [["b"], ["a"]]),
        ("case $x in\n a|b) c;;\n *) d;;\nesac\ne", [["a"], ["c"], ["d"], ["e"]]),
        ("while read l; do a $l; done < f", [["read", "l"], ["a", "<l>"]]),
        ("for ((i=0;i<3;i++)); do a; done", [["a"]]),
        ("[[ -z $x && $y =~ ^a(b) ]] && c", [["c"]]),
        ("x=$(docker run y)\na", [["docker", "run", "y"], ["a"]]),
        ("a `b c`", [["b", "c"], ["a", "<$(b c>"]]),
        ("a $((1 + 2)) ${#X[@]} ${X%%.*}", [["a", "<arithmetic>", "<length>", "<X%%.*>"]]),
        ("a > f 2>&1 &> g < h b", [["a", "b"]]),
        ("(cd x; a)\nb", [["cd", "x"], ["a"], ["b"]]),
        ("{ a; } && b", [["a"], ["b"]]),
        ("time -p a", [["-p", "a"]]),
        ("a <<< text b", [["a", "b"]]),
        ("a ${{ github.sha }} b", [["a", "<{ github.sha }>", "b"]]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash to compare with")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["a", "b c", "d'e", 'f"g', "h\\i", "$X", "*", "#", ";", "&", "(j)", "k=l", "-m", "~", "n|o", ""]
        ),
        max_size=6,
    )
)
def test_quoting_agrees_with_bash(parts):
    """What `printf %q` quotes is read back as bash reads it."""
    r = subprocess.run(
        ["bash", "-c", 'printf "%q " "$@"', "x", *parts], capture_output=True, text=True, timeout=10, check=True
    )
    line = "cmd " + (r.stdout if parts else "")
    (found,) = script(Traced.at(line, 0)).commands
    assert [w.text for w in found.words] == ["cmd", *parts]


def test_places_lead_back_to_the_text():
    text = "OPTS=\"--gpus all \\\n  --shm-size=1g\"\ndocker run $OPTS \\\n  img 'a b'\n"
    (command,) = script(Traced.at(text, 0)).commands
    for word in command.words:
        at = word.offset(0)
        assert text[at : at + len(word.text)] == word.text
    assert text[command.at :].startswith("docker")


@settings(max_examples=300, deadline=2000)
@given(st.text(alphabet="ab $\"'\\`(){}[]<>|&;#\n=-!@*?~0EOF\ue000\ue001é", max_size=120))
def test_any_text_is_read(text):
    """No text fails or hangs, and every place lies inside it."""
    for command in script(Traced.at(text, 0)).commands:
        assert command.words
        assert 0 <= command.at <= len(text)
        for word in command.words:
            assert 0 <= word.offset(0) <= len(text)
            for i in range(len(word.text)):
                assert 0 <= word.offset(i) <= len(text) + len(word.text)


@pytest.mark.parametrize(
    "text",
    [
        "X=aa\n" + "X=$X$X\n" * 60 + "a $X",
        "A=(a)\n" + "A+=(${A[@]} ${A[@]})\n" * 40 + "b ${A[@]}",
        "a " + "$(" * 3000,
        "a " + "${X:-" * 3000,
        "(" * 20000,
        "if x; then " * 5000,
        "cat <<A <<B <<C\n" * 500,
        'a "' + "\\" * 50001,
        "case x in " * 2000,
    ],
    ids=lambda t: t[:12],
)
def test_no_text_takes_long(text):
    import time

    before = time.process_time()
    script(Traced.at(text, 0))
    assert time.process_time() - before < 5
