"""Pickles that hold plain values only: read without executing anything, within limits, or refused.

The flight recorder writes pickles of protocol 2 with dictionaries, lists, tuples, strings, numbers, booleans and None
(torch `csrc/jit/serialization/pickler.cpp`). So every opcode is looked at first, by a regular expression that knows the
opcodes of plain values and no other: GLOBAL, REDUCE, BUILD, persistent ids and all the rest end the reading before an
unpickler sees a byte. What passes goes to the C unpickler, whose `find_class` and `persistent_load` refuse as well.
"""

from __future__ import annotations

import gc
import io
import pickle
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MAX_TUPLES = 50_000  # the hash of deeply nested tuples exhausts the C stack at about 150,000 (measured)
MAX_STRING = 1 << 20

# one opcode with its argument. A memo index above 4 million would make the unpickler allocate by the index
# (cpython#115952), so LONG_BINPUT is known with small indexes only.
_OPCODE = (
    rb"[}\](uaesNld\x85-\x89t)\x94]"
    rb"|[qhK].|M..|r..[\x00-\x3f]\x00|[jJ]....|G.{8}|\x80.|\x95.{8}"
    rb"|\x8a(?:\x00|\x01.|\x02..|\x03...|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8}|\x09.{9})"
)
_RUN = re.compile(rb"(?s:(?:" + _OPCODE + rb"){1,500})")
_ONE = re.compile(rb"(?s:" + _OPCODE + rb")")
_TUPLES = b"\x85\x86\x87t)"


class Refused(Exception):
    """The bytes are no pickle of plain values: the message names the opcode or the limit, in one line."""


class Cut(Exception):
    """The pickle ends before its end."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise Refused("it names a class or function")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise Refused("it names a persistent id")


def load(data: bytes) -> Any:
    """The plain value. Refused: anything else; Cut: the data ends too early."""
    inspect(data)
    was = gc.isenabled()
    gc.disable()  # thousands of dictionaries at once: a collection finds nothing and costs a third of the time
    try:
        # a stream with peek(): without it the unpickler asks for a few bytes at a time
        return _Plain(io.BufferedReader(io.BytesIO(data), 1 << 17)).load()
    except (Refused, MemoryError):
        raise
    except Exception as e:
        raise Refused(f"its structure is broken ({type(e).__name__})") from None
    finally:
        if was:
            gc.enable()


def inspect(data: bytes) -> None:
    """Look at every opcode. Refused, Cut as `load`."""
    size = len(data)
    if not size:
        raise Cut
    run, at = _RUN.match, 0
    while True:
        found = run(data, at)
        if found:
            at = found.end()
        if at >= size:
            raise Cut
        code = data[at]
        if code == 0x58:  # BINUNICODE: four bytes of length, the text
            length = int.from_bytes(data[at + 1 : at + 5], "little")
            at += 5 + length
        elif code == 0x8C:  # SHORT_BINUNICODE
            length = data[at + 1] if at + 1 < size else 0
            at += 2 + length
        elif code == 0x2E:  # STOP
            break
        elif found:
            continue
        elif size - at < 10 and code in b"qhKMrjJG\x80\x95\x8a":
            raise Cut
        else:
            raise Refused(f"opcode {_name(code)} at byte {at:,} is not one of plain values")
        if length > MAX_STRING:
            raise Refused(f"a text of {length:,} bytes")
        if at > size:
            raise Cut
    if sum(map(data.count, (bytes([c]) for c in _TUPLES))) > MAX_TUPLES and _tuples(data) > MAX_TUPLES:
        raise Refused(f"more than {MAX_TUPLES:,} tuples")


def _tuples(data: bytes) -> int:
    return sum(data[at] in _TUPLES for at, _ in _tokens(data))


def _tokens(data: bytes) -> Any:
    """(start, end) of every complete opcode."""
    at, size = 0, len(data)
    while at < size:
        code = data[at]
        if code == 0x58:
            end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "little")
        elif code == 0x8C:
            end = at + 2 + (data[at + 1] if at + 1 < size else 0)
        elif code == 0x2E:
            yield at, at + 1
            return
        else:
            found = _ONE.match(data, at)
            if not found:
                return
            end = found.end()
        if end > size:
            return
        yield at, end
        at = end


def _name(code: int) -> str:
    import pickletools

    return next((o.name for o in pickletools.opcodes if o.code == chr(code)), f"0x{code:02x}")


def rescue(data: bytes) -> Any:
    """What a pickle holds that ends too early: open containers are closed where it ends.

    Refused: nothing could be read. The same opcodes as `inspect`, run one by one.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    try:
        for at, end in _tokens(data):
            _step(data, at, end, stack, marks, memo)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        pass  # what stands on the stack counts
    try:
        while marks:
            items = stack[marks[-1] :]
            del stack[marks.pop() :]
            below = stack[-1] if stack else None
            if isinstance(below, dict):
                below.update(zip(items[0::2], items[1::2]))
            elif isinstance(below, list):
                below.extend(items)
    except TypeError:
        pass
    if not stack or not isinstance(stack[0], (dict, list)):
        raise Refused("nothing in it could be read")
    return stack[0]


def _step(data: bytes, at: int, end: int, stack: list[Any], marks: list[int], memo: dict[int, Any]) -> None:
    code = data[at]
    if code == 0x58:
        stack.append(data[at + 5 : end].decode("utf-8", "replace"))
    elif code == 0x8C:
        stack.append(data[at + 2 : end].decode("utf-8", "replace"))
    elif code in b"KMJ":
        stack.append(int.from_bytes(data[at + 1 : end], "little", signed=code == 0x4A))
    elif code == 0x8A:
        stack.append(int.from_bytes(data[at + 2 : end], "little", signed=True))
    elif code == 0x47:
        import struct

        stack.append(struct.unpack(">d", data[at + 1 : end])[0])
    elif code in b"qr":
        memo[int.from_bytes(data[at + 1 : end], "little")] = stack[-1]
    elif code == 0x94:
        memo[len(memo)] = stack[-1]
    elif code in b"hj":
        stack.append(memo[int.from_bytes(data[at + 1 : end], "little")])
    elif code in b"}])":
        stack.append({0x7D: dict, 0x5D: list, 0x29: tuple}[code]())
    elif code in b"N\x88\x89":
        stack.append({0x4E: None, 0x88: True, 0x89: False}[code])
    elif code == 0x28:
        marks.append(len(stack))
    elif code in b"\x85\x86\x87":
        size = code - 0x84
        stack[-size:] = [list(stack[-size:])]  # a list: never hashed
    elif code in b"uetld":
        items = stack[marks[-1] :]
        del stack[marks.pop() :]
        if code == 0x75:
            stack[-1].update(zip(items[0::2], items[1::2]))
        elif code == 0x65:
            stack[-1].extend(items)
        elif code == 0x64:
            stack.append(dict(zip(items[0::2], items[1::2])))
        else:
            stack.append(items)
    elif code == 0x61:
        item = stack.pop()
        stack[-1].append(item)
    elif code == 0x73:
        value, key = stack.pop(), stack.pop()
        stack[-1][key] = value
