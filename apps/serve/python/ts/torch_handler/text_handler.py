"""TextHandler, as far as it needs no vocabulary: the cleaning of texts."""
import re
import string
import unicodedata
from abc import ABC

from ts.torch_handler.base_handler import BaseHandler


class TextHandler(BaseHandler, ABC):
    def __init__(self):
        super().__init__()
        self.source_vocab = None

    def get_source_vocab_path(self, ctx):
        import os
        return os.path.join(ctx.system_properties.get("model_dir"), "source_vocab.pt")

    def initialize(self, context):
        super().initialize(context)

    def _remove_html_tags(self, text):
        return re.compile("<.*?>").sub("", text)

    def _remove_accented_characters(self, text):
        return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("utf-8", "ignore")

    def _remove_punctuation(self, *args, **kwargs):
        tokens = (token.strip(string.punctuation) if isinstance(token, str) else token for token in args[0])
        return [token for token in tokens if token]

    def get_word_token(self, input_tokens):
        return {str(i): token for i, token in enumerate(input_tokens)}

    def summarize_attributions(self, attributions):
        raise RuntimeError("treadle serve has no explanations")
