"""Tokenizers of models' folders, and templates of chats.

They need the packages `tokenizers` and, for chats, `jinja2`: the extra `text`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vkbackend.atomic_file import save_atomically
from vkbackend.errors import ArgumentError

from ..base.errors import FileFormatError
from ..tensor.factories import DeviceLike
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .checkpoint import read_json
from .gguf_tokenizer import gguf_tokenizer

UNKNOWN = "\ufffd"
"""What stands for bytes that are no whole character yet."""


class Tokenizer:
    """Numbers of a text's tokens, and the text of tokens' numbers.

    Parameters
    ----------
    path : str or Path
        A folder with `tokenizer.json`, and mostly `tokenizer_config.json` and
        `chat_template.jinja`; or a file ".gguf" that has its tokenizer.

    Attributes
    ----------
    backend : tokenizers.Tokenizer
        What the package `tokenizers` has made of it.
    special : dict of str to str
        Special tokens by `bos_token`, `eos_token`, `pad_token` and `unk_token`.
    padding : int
        Number of the token for padding; that of the end, or 0, where there is none.
    stop : tuple of int
        Numbers of the tokens that end a text, of `generation_config.json` too.
    template : str or None
        Template of chats, for jinja2.

    Raises
    ------
    FileNotFoundError
        If there is no `tokenizer.json`, or no such file.
    FileFormatError
        If a file is damaged, or a GGUF file has no tokenizer of a known kind.
    ImportError
        If the package `tokenizers` is missing.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        if path.suffix == ".gguf":
            self.backend, self._settings = gguf_tokenizer(path)
        else:
            self.backend = _of_folder(path)
            self._settings = _optional(path / "tokenizer_config.json")
        self.backend.no_padding()
        self.backend.no_truncation()
        self.special = {
            name: token
            for name in ("bos_token", "eos_token", "pad_token", "unk_token")
            if (token := _content(self._settings.get(name))) is not None
        }
        self.stop = self._ends(path)
        pad = self._number(self.special.get("pad_token"))
        ends = (*self.stop, 0)
        self.padding = ends[0] if pad is None else pad
        self.template = self._template(path)

    def _ends(self, path: Path) -> tuple[int, ...]:
        """Return the tokens that end a text, the tokenizer's own one first."""
        own = self._number(self.special.get("eos_token"))
        given = _optional(path / "generation_config.json").get("eos_token_id")
        given = self._settings.get("eos_token_id") if given is None else given
        named = given if isinstance(given, list) else [given]
        found = [each for each in (own, *named) if isinstance(each, int)]
        return tuple(dict.fromkeys(found))

    def _template(self, path: Path) -> str | None:
        """Return the template of chats, from its own file or the configuration."""
        own = path / "chat_template.jinja"
        if own.exists():
            return own.read_text(encoding="utf-8")
        found = self._settings.get("chat_template")
        if isinstance(found, list):
            named = {each["name"]: each["template"] for each in found}
            found = named.get("default")
        return found if isinstance(found, str) else None

    def _number(self, token: str | None) -> int | None:
        """Return the number of a token, if there is such a token."""
        if token is None:
            return None
        found: int | None = self.backend.token_to_id(token)
        return found

    def numbers(self) -> dict[str, int | list[int]]:
        """Return the numbers of special tokens, with names as in a configuration.

        Returns
        -------
        dict
            Those there are of `bos_token_id`, `eos_token_id`, which is a list of
            several, and `pad_token_id`.
        """
        first = self._number(self.special.get("bos_token"))
        pad = self._number(self.special.get("pad_token"))
        last: int | list[int] | None = list(self.stop) or None
        if len(self.stop) == 1:
            last = self.stop[0]
        named = {"bos_token_id": first, "eos_token_id": last, "pad_token_id": pad}
        return {name: each for name, each in named.items() if each is not None}

    def save(self, folder: str | Path) -> None:
        """Write the tokenizer as a folder that `transformers` reads has it.

        Parameters
        ----------
        folder : str or Path
            It is made if there is none. `tokenizer.json`, `tokenizer_config.json` and,
            if there is a template of chats, `chat_template.jinja` are written.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **self._settings,
            **self.special,
        }
        for name in ("chat_template", "eos_token_id"):
            settings.pop(name, None)
        for name, text in (
            ("tokenizer.json", self.backend.to_str(pretty=True)),
            ("tokenizer_config.json", json.dumps(settings, indent=2)),
            ("chat_template.jinja", self.template),
        ):
            if text is not None:
                save_atomically(folder / name, text.encode())

    def __len__(self) -> int:
        """Return how many tokens there are."""
        found: int = self.backend.get_vocab_size()
        return found

    def encode(
        self, text: str | tuple[str, str], special_tokens: bool = True
    ) -> list[int]:
        """Return the numbers of a text's tokens.

        Parameters
        ----------
        text : str or tuple of two str
            Two texts are a pair, as a reranker takes it.
        special_tokens : bool, default True
            Whether to add tokens of the beginning and end that models expect. A chat's
            template adds its own.
        """
        first, second = text if isinstance(text, tuple) else (text, None)
        found: list[int] = self.backend.encode(
            first, second, add_special_tokens=special_tokens
        ).ids
        return found

    def batch(
        self,
        texts: Sequence[str | tuple[str, str]],
        device: DeviceLike = None,
        *,
        side: str = "left",
        longest: int | None = None,
        special_tokens: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens of texts of several lengths, with a mask and types.

        Parameters
        ----------
        texts : sequence of str, or of pairs
        device : Device, str or None
            Where the results go.
        side : str, default "left"
            Where padding is: "left" as `generate` takes it, "right" as encoders do.
        longest : int or None
            Number of tokens from which on a text is cut off at its end.
        special_tokens : bool, default True
            As of `encode`.

        Returns
        -------
        tuple of three Tensors, int64, shape (texts, length)
            Tokens; 0 for padding and 1 for others; 1 for those of a pair's second text.

        Raises
        ------
        ArgumentError
            If there is no text, or `side` is another one.
        """
        if not texts:
            raise ArgumentError("Tokenizer.batch: texts has no text; give at least one")
        if side not in ("left", "right"):
            raise ArgumentError(
                f"Tokenizer.batch: side is {side!r}; it must be 'left' or 'right'"
            )
        if longest is not None:
            self.backend.enable_truncation(longest)
        try:
            found = self.backend.encode_batch(
                list(texts), add_special_tokens=special_tokens
            )
        finally:
            self.backend.no_truncation()
        length = max(1, *(len(each.ids) for each in found))
        shape = (len(found), length)
        tokens = np.full(shape, self.padding, np.int64)
        mask, types = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, each in enumerate(found):
            count = len(each.ids)
            start = length - count if side == "left" else 0
            tokens[row, start : start + count] = each.ids
            mask[row, start : start + count] = 1
            types[row, start : start + count] = each.type_ids
        given = (tensor(part, device=device) for part in (tokens, mask, types))
        first, second, third = given
        return first, second, third

    def decode(
        self, tokens: Iterable[int] | Tensor, skip_special_tokens: bool = True
    ) -> str:
        """Return the text of tokens.

        Parameters
        ----------
        tokens : iterable of int, or Tensor of shape (length,)
        skip_special_tokens : bool, default True
            Whether tokens of beginnings, ends and roles are left out.
        """
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        found: str = self.backend.decode(
            numbers, skip_special_tokens=skip_special_tokens
        )
        return found

    def stream(self) -> TokenStream:
        """Return what decodes a text token by token, as it is generated."""
        return TokenStream(self)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **settings: Any,
    ) -> str:
        """Return a chat as the text that a model continues.

        Parameters
        ----------
        messages : sequence of mappings
            Each with `role` ("system", "user", "assistant") and `content`.
        add_generation_prompt : bool, default True
            Whether the answer of the model is begun.
        **settings
            What else the template uses, such as `tools` or `enable_thinking`.

        Returns
        -------
        str
            To be encoded without special tokens, which it contains.

        Raises
        ------
        ArgumentError
            If the folder has no template, or the template refuses the messages.
        ImportError
            If the package `jinja2` is missing.

        Notes
        -----
        The template, which comes with a model, runs in jinja2's sandbox.
        """
        if self.template is None:
            raise ArgumentError(
                "Tokenizer.apply_chat_template: the folder has no template of chats; it"
                " must have a chat_template.jinja, or one in tokenizer_config.json"
            )
        import jinja2

        given = {**self.special, **settings}
        try:
            text: str = _compiled(self.template).render(
                messages=list(messages),
                add_generation_prompt=add_generation_prompt,
                **given,
            )
        except jinja2.TemplateError as error:
            raise ArgumentError(
                f"Tokenizer.apply_chat_template: the template refuses the messages:"
                f" {error}"
            ) from error
        return text


class TokenStream:
    """Text of tokens that come one by one; characters come as they are whole.

    Parameters
    ----------
    tokenizer : Tokenizer
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._start = 0
        self._read = 0

    def add(self, token: int) -> str:
        """Return what a further token adds to the text; it may be nothing yet."""
        self._tokens.append(token)
        # A token's text depends on the one before it, which stays for context.
        known = self._tokenizer.decode(self._tokens[self._start : self._read])
        whole = self._tokenizer.decode(self._tokens[self._start :])
        if len(whole) <= len(known) or whole.endswith(UNKNOWN):
            return ""
        self._start, self._read = self._read, len(self._tokens)
        return whole[len(known) :]

    def end(self) -> str:
        """Return the rest, of which no further token makes whole characters."""
        known = self._tokenizer.decode(self._tokens[self._start : self._read])
        whole = self._tokenizer.decode(self._tokens[self._start :])
        self._start = self._read = len(self._tokens)
        return whole[len(known) :]


def _of_folder(path: Path) -> Any:
    """Return the tokenizer in a folder's `tokenizer.json`."""
    import tokenizers

    where = path / "tokenizer.json"
    if not where.exists():
        raise FileNotFoundError(f"Tokenizer: {path} has no tokenizer.json")
    try:
        return tokenizers.Tokenizer.from_file(str(where))
    except Exception as error:  # the package raises no narrower class
        raise FileFormatError(f"{where}: it is no tokenizer: {error}") from error


def _optional(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or an empty one without the file."""
    return read_json(path) if path.exists() else {}


def _content(token: Any) -> str | None:
    """Return the text of a special token, which may be an object."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _compiled(template: str) -> Any:
    """Return a template of jinja2 with what templates of chats use."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Tag around what a model has said, which is kept as it is."""

        tags = {"generation"}  # noqa: RUF012  # declared so by the base class

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = _now
    return environment.from_string(template)


def _now(form: str) -> str:
    """Return the time, as templates that tell models the date ask for it."""
    from datetime import datetime

    return datetime.now().strftime(form)
