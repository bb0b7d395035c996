"""How readers are shown."""

import inspect


class Shown:
    """Shows a reader as the Python code that makes it, without options that have their default."""

    def __repr__(self):
        parameters = inspect.signature(type(self)).parameters
        first, *_ = parameters  # is always shown
        options = [
            f"{name}={value!r}"
            for name, value in self.get_config().items()
            if name == first or repr(value) != repr(parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(options)})"
