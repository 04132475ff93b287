"""The one exception that the command line shows as a single line instead of a traceback."""


class UserError(ValueError):
    """Something the user gave cannot be used; the message says what, where and what to do.

    Examples:
        >>> raise UserError("reviews.csv, line 17: 3 columns, expected 2 (text, labels)")
        Traceback (most recent call last):
        zlpr._errors.UserError: reviews.csv, line 17: 3 columns, expected 2 (text, labels)
    """
