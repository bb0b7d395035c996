"""Chat templates: a conversation becomes the text that a language model goes on with."""

import datetime
import functools
import json

ROLE, CONTENT = "role", "content"


def is_conversation(prompt):
    """Whether a prompt is a list of messages, dictionaries of texts with `role` and `content`."""
    return (
        isinstance(prompt, list | tuple)
        and len(prompt) > 0
        and all(isinstance(message, dict) for message in prompt)
    )


def text_of(chat, messages):
    """Returns the text of a conversation, up to where the answer begins.

    As in transformers, templates are rendered in a sandbox.

    Args:
        chat: Dictionary with the `template`, in the language of Jinja, and the special tokens that
            it may use, such as `bos_token`.
        messages: List of dictionaries with `role` and `content`, each a `str`.

    Raises:
        ImportError: If Jinja is not installed.
        ValueError: If the messages have another form, or the template refuses them.

    Example:

    >>> template = "{% for each in messages %}{{ each.role }}: {{ each.content }}\\n{% endfor %}"
    >>> text_of({"template": template}, [{"role": "user", "content": "Hello!"}])
    'user: Hello!\\n'
    """
    for message in messages:
        if not all(isinstance(message.get(key), str) for key in (ROLE, CONTENT)):
            raise ValueError(
                "A message must be a dictionary of two texts: {'role': 'user', 'content': "
                f"'Hello!'}}. Received: {message!r:.500}."
            )
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "A conversation needs Jinja: pip install 'keras-attention-zoo[hub]'."
        ) from error
    tokens = {name: token for name, token in chat.items() if name != "template"}
    try:
        template = _compiled(chat["template"])
        # As in transformers, tools and documents are defined, and none.
        nothing = {"tools": None, "documents": None}
        return template.render(messages=messages, add_generation_prompt=True, **nothing, **tokens)
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError) as error:
        raise ValueError(
            f"The chat template refuses the conversation: {error}. Received: {messages!r:.500}."
        ) from error


@functools.lru_cache(maxsize=16)
def _compiled(template):
    """Returns a template of Jinja, with what transformers adds to its language."""
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks answers for training, without an effect here."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment.from_string(template)
