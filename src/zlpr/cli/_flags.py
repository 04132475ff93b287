"""Words of the command line: arguments as the library takes them, and messages as flags."""

import argparse
import re

# The arguments of `zlpr.data.read` that have a flag of the same name, where a value follows them.
_ARGUMENT = re.compile(
    r"\b(format|text|features|categories|labels|label_delimiter|label_names|id|group|encoding)="
    r"(?=['\"\d…A-Z])"
)
_OTHER_NAMES = {"features": "features-columns", "categories": "categorical-columns"}


def words(argument: str) -> str:
    r"""An argument that is no path but a text or a name, in Unicode whatever the locale is.

    Examples:
        >>> words("caf\udcc3\udca9")  # as Python gives it in a locale of ASCII
        'café'
    """
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        raise argparse.ArgumentTypeError(f"not UTF-8: {argument!r}") from None


def as_flag(argument: str) -> str:
    """A reading argument of the library as the commands spell it.

    Examples:
        >>> as_flag("label_names"), as_flag("features")
        ('--label-names', '--features-columns')
    """
    return f"--{_OTHER_NAMES.get(argument, argument.replace('_', '-'))}"


def in_flags(message: str) -> str:
    """A message of the library with the reading arguments as the commands spell them.

    Examples:
        >>> in_flags("say header=False with text=0, label_delimiter='|'")
        "say --no-header with --text 0 --label-delimiter '|'"
    """
    message = message.replace("header=True", "--header").replace("header=False", "--no-header")
    message = _ARGUMENT.sub(lambda found: f"{as_flag(found[1])} ", message)
    return re.sub(r"(?<=['\"\d]), (?=--)", " ", message)  # as they are typed
