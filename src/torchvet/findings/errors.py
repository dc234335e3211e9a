"""The one exception for mistakes of the person at the keyboard."""

from __future__ import annotations


class UserError(Exception):
    """Wrong use: an option, a path or a configuration that cannot be meant. Ends the program with exit code 2.

    `message` is one line; `hint` says what to do instead. No traceback is shown. Both are `Text` or plain strings
    (plain strings are for words that need no translation, such as a file name).
    """

    def __init__(self, message: object, hint: object = "") -> None:
        super().__init__(str(message))
        self.message = message
        self.hint = hint
