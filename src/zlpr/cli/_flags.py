"""Messages in the words of the command line."""

import re

# The arguments of `zlpr.data.read` that have a flag of the same name, where a value follows them.
_ARGUMENT = re.compile(
    r"\b(format|text|labels|label_delimiter|label_names|id|group|encoding)=(?=['\d…A-Z])"
)


def in_flags(message: str) -> str:
    """A message of the library with the reading arguments as the commands spell them.

    Examples:
        >>> in_flags("say header=False with text=0, label_delimiter='|'")
        "say --no-header with --text 0, --label-delimiter '|'"
    """
    message = message.replace("header=True", "--header").replace("header=False", "--no-header")
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} ", message)
