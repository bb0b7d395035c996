"""The chat template of a checkpoint."""

from zoo.readers.text.reading import special_tokens_of
from zoo.readers.text.tokenizer_files import LARGEST_FILE
from zoo.storage.json_files import read_named_json

FILE, CONFIG = "chat_template.jinja", "tokenizer_config.json"


def chat_of(folder):
    """Returns the chat template of a folder with the special tokens, or `None` if it has none.

    The result is as for `zoo.readers.text.chat.text_of`.
    """
    path = folder / CONFIG
    template = read_named_json(path, LARGEST_FILE).get("chat_template") if path.is_file() else None
    if isinstance(template, list):  # several of different names
        named = {each["name"]: each["template"] for each in template}
        template = named.get("default")
    if (folder / FILE).is_file():
        template = (folder / FILE).read_text(encoding="utf-8")
    return template and {"template": template, **special_tokens_of(folder)}
