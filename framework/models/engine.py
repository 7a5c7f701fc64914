"""Engine of continuous batching: texts join and leave a batch between its steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from vkbackend.errors import ArgumentError

from ..autograd.engine import no_grad
from ..base.dtype import float32
from ..base.validation import as_int
from ..eager.base_tensor import evaluate
from ..jit import jit
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .generation import LanguageModel
from .page_pool import PagePool, Prefix
from .paged_cache import PagedCache, copy_page
from .row_sampling import RowSettings, SamplingSteps, draw
from .sampling import Sampling

_Step = Callable[..., tuple[Tensor, Tensor, Tensor | None]]

LEAST_PIECE = 16
"""Tokens of a prompt's smallest piece; pieces are powers of two of them, so that few
shapes are compiled."""

PIECES_BEFORE_TRACE = 3
"""Pieces of one size that are computed before they are traced to be replayed."""

LENGTH = 2048
"""Tokens of a text at most, where nobody says how many."""

SPARE = 0
"""The page that rows without a text write."""


class Generation:
    """A text that an engine writes; `Engine.submit` makes it.

    Attributes
    ----------
    prompt : tuple of int
    count : int
        Tokens to add at most.
    sampling : Sampling
    stop : frozenset of int
        Tokens at which it ends.
    tokens : list of int
        Those added so far, that of `stop` included.
    finish : str or None
        "stop", "length" or "cancelled" when it is over.
    shared : int
        Tokens of the prompt that were not computed, as another text had them.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        count: int,
        sampling: Sampling,
        stop: Collection[int],
        seed: int | None,
    ) -> None:
        self.prompt = tuple(prompt)
        self.count = count
        self.sampling = sampling
        self.stop = frozenset(stop)
        self.tokens: list[int] = []
        self.finish: str | None = None
        self.shared = 0
        self._random = np.random.default_rng(seed)
        self._row: int | None = None
        self._number = 0
        self._pages: list[int] = []
        self._held = 0
        self._prefix: Prefix | None = None
        self._remembered = 0

    @property
    def _text(self) -> tuple[int, ...]:
        """The prompt and what is added so far."""
        return (*self.prompt, *self.tokens)

    def __repr__(self) -> str:
        state = self.finish or "going on"
        return f"<Generation: {len(self.prompt)} + {len(self.tokens)} tokens, {state}>"


class _Launched(NamedTuple):
    """A step that is launched: its tokens, and the texts that get them by row."""

    tokens: Tensor
    texts: dict[int, Generation]


class EngineLoad(NamedTuple):
    """How much an engine has to do.

    Attributes
    ----------
    waiting, running : int
        Texts without and with pages.
    free_pages, pages : int
        Pages that no text has, and all that texts may have; those of equal prompts
        count once.
    """

    waiting: int
    running: int
    free_pages: int
    pages: int


class Engine:
    """Writes many texts at once, which join and leave as there is room.

    A step gives each text of the batch one token, at its own position, and is replayed
    on a Vulkan device. Keys and values are in pages of a pool; a text is admitted when
    a row of the batch is free and pages for its prompt are, in the order of the calls,
    takes further pages as it grows, and its pages are free once it ends. Where none is
    left, the text that was admitted last gives its pages up, and goes on later. Prompts
    are computed in pieces between steps, but for pages that hold the same tokens
    already, which texts share; of a page that begins alike they get a copy.

    Parameters
    ----------
    model : nn.Module
        A `LanguageModel`, such as `Llama`.
    rows : int, default 8
        Texts of a batch.
    length : int or None
        Tokens of a text at most, its prompt included; None is 2048, or as many as the
        model has positions.
    page : int, default 64
        Tokens of a page.
    pages : int or None
        Pages of the pool; None is what `rows` texts of `length` need.
    prefill_chunk : int, default 512
        Tokens of prompts between two steps at most.
    share_prefixes : bool, default True
        Whether texts share pages of equal tokens at their beginnings.

    Raises
    ------
    ArgumentError
        If a number is below 1, or the model has fewer positions than `length`.
    OutOfDeviceMemory
        If the pool has no room on the device.

    Notes
    -----
    A text is that which `generate` writes of its prompt alone, but for rounding; one
    that is drawn depends on its seed, not on the other texts. With LongRoPE `length`
    decides between the frequencies. Calls are to come from one thread.

    Examples
    --------
    >>> engine = fw.models.Engine(model, rows=16)  # doctest: +SKIP
    >>> texts = [engine.submit(prompt, 64) for prompt in prompts]  # doctest: +SKIP
    >>> engine.run()  # doctest: +SKIP
    >>> [text.tokens for text in texts]  # doctest: +SKIP
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        rows: int = 8,
        length: int | None = None,
        page: int = 64,
        pages: int | None = None,
        prefill_chunk: int = 512,
        share_prefixes: bool = True,
    ) -> None:
        most = getattr(getattr(model, "config", None), "n_positions", None)
        if length is None:
            length = LENGTH if most is None else min(most, LENGTH)
        sizes = {"rows": rows, "length": length, "page": page}
        sizes["prefill_chunk"] = prefill_chunk
        blocks = -(-max(length, 1) // max(page, 1))
        sizes["pages"] = rows * blocks if pages is None else pages
        for name, value in sizes.items():
            if as_int(f"Engine: {name}", value) < 1:
                raise ArgumentError(f"Engine: {name} is {value}; it must be at least 1")
        if most is not None and length > most:
            raise ArgumentError(
                f"Engine: length is {length}; the {type(model).__name__} has {most}"
                " positions, so that it must be at most as many"
            )
        self._model, self._chunk = model, prefill_chunk
        self.rows, self.length, self.page = rows, length, page
        self.pages = sizes["pages"]
        module: Any = model
        self._device = next(iter([*module.parameters(), *module.buffers()])).device
        self._pool = model.new_cache(self.pages + 1, page, self._device)
        self._steps: dict[SamplingSteps, _Step] = {}
        self._pieces: dict[tuple[int, int], int] = {}
        self._fill_again = jit(self._filled) if self._device.is_gpu else self._filled
        self._waiting: deque[Generation] = deque()
        self._filling: deque[Generation] = deque()
        self._running: dict[int, Generation] = {}
        self._launched: _Launched | None = None
        self._free_rows: list[int] = []
        self._shares = share_prefixes
        self._admitted = 0
        self._tables = np.zeros((rows, blocks), np.int64)
        self._positions = np.zeros(rows, np.int64)
        self._newest = np.zeros((rows, 1), np.int64)
        self.reset()
        self._state: tuple[Tensor, Tensor, Tensor]
        self._newest_there: Tensor
        self._no_numbers = self._on_device(np.zeros((rows, 1), np.float32))
        with no_grad():
            self._tell_device()
            found = model(self._newest_there, self._cache(*self._state))
            self.words: int = found.shape[-1]
            evaluate(found)
        self._settings = RowSettings(rows, self.words, self._device)

    @property
    def load(self) -> EngineLoad:
        """How much there is to do."""
        running = len(self._running) + len(self._filling)
        free = self._page_pool.free
        return EngineLoad(len(self._waiting), running, free, self.pages)

    @property
    def is_idle(self) -> bool:
        """Whether there is no text to go on with."""
        return not (self._waiting or self._filling or self._running)

    def submit(
        self,
        tokens: Sequence[int],
        count: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: Collection[int] = (),
        seed: int | None = None,
    ) -> Generation:
        """Return a text that waits to be written.

        Parameters
        ----------
        tokens : sequence of int
            The prompt.
        count : int
            Number of tokens to add at most.
        temperature, top_k, top_p, min_p, repetition_penalty, stop
            As of `generate`.
        seed : int or None
            Seed of the text's own random numbers; None is another one each time.

        Raises
        ------
        ArgumentError
            If there is no token, one that the model has not, or no room for as many; if
            a number is out of range.
        """
        penalty = float(repetition_penalty)
        sampling = Sampling(float(temperature), top_k, top_p, min_p, penalty)
        count = as_int("Engine: count", count)
        if count < 1:
            raise ArgumentError(f"Engine: count is {count}; it must be at least 1")
        array = np.asarray(tokens)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            raise ArgumentError(
                f"Engine: the prompt is {array.dtype} {array.shape}; it must be whole"
                " numbers, one at least"
            )
        wrong = array[(array < 0) | (array >= self.words)]
        if wrong.size:
            raise ArgumentError(
                f"Engine: the prompt has token {wrong[0]}; the model has those from 0"
                f" to {self.words - 1}"
            )
        if len(tokens) + count > self.length:
            raise ArgumentError(
                f"Engine: the prompt has {len(tokens)} tokens and {count} are to be"
                f" added; a text has room for {self.length} in all"
            )
        if seed is not None and seed < 0:
            raise ArgumentError(f"Engine: seed is {seed}; it must be at least 0")
        made = Generation(array.tolist(), count, sampling, stop, seed)
        if self._need(made) > self.pages:
            raise ArgumentError(
                f"Engine: a text of {len(tokens)} and {count} tokens needs"
                f" {self._need(made)} pages of {self.page}; there are {self.pages}"
            )
        self._waiting.append(made)
        return made

    def step(self) -> list[Generation]:
        """Give each running text one token; return those that have a further one.

        Waiting texts are admitted before, and pieces of prompts computed.
        """
        with no_grad():
            self._admit()
            self._fill()
            if not self._running:
                self._launched = None
                return []
            if self._launched is None and not self._make_room():
                return []
            launched = self._launched or self._launch()
            self._launched = self._launch() if self._looks_ahead() else None
            return self._collect(launched)

    def run(self) -> None:
        """Write all texts to their ends."""
        while not self.is_idle:
            self.step()

    def cancel(self, generation: Generation) -> None:
        """End a text, whose pages are free at once; one that is over stays as it is."""
        if generation.finish is None:
            self._end(generation, "cancelled")

    def reset(self) -> None:
        """Cancel every text, as is right after an error of a step."""
        for each in [*self._waiting, *self._filling, *self._running.values()]:
            each.finish, each._row, each._pages = "cancelled", None, []
            each._prefix = None
        self._waiting.clear()
        self._filling.clear()
        self._running.clear()
        self._free_rows = list(range(self.rows))[::-1]
        self._page_pool = PagePool(range(SPARE + 1, self.pages + 1), self.page)
        self._tables[:], self._positions[:] = SPARE, 0
        self._launched = None
        self._changed = self._has_grown = True

    def _need(self, generation: Generation) -> int:
        """Return the pages of a whole text; the last token is not written."""
        held = len(generation.prompt) + generation.count - 1
        return -(-held // self.page)

    def _admit(self) -> None:
        """Give rows, and pages of their prompts, to waiting texts, in their order."""
        while self._waiting and self._free_rows:
            first = self._waiting[0]
            first._prefix = self._page_pool.root
            self._share(first)
            need = -(-len(first._text) // self.page) - len(first._pages)
            if need > self._page_pool.free:
                self._give_back(first)
                return
            first._pages += [self._take() for _ in range(need)]
            self._admitted += 1
            first._row, first._number = self._free_rows.pop(), self._admitted
            self._filling.append(self._waiting.popleft())

    def _take(self) -> int:
        """Return a page, of which there is one."""
        page = self._page_pool.take()
        assert page is not None
        return page

    def _give_back(self, generation: Generation) -> None:
        """Take its pages from a text; what they hold stays known."""
        self._page_pool.release(generation._pages)
        generation._pages, generation._prefix = [], None
        generation._held = generation._remembered = 0

    def _share(self, generation: Generation) -> None:
        """Let a text have the pages of others that hold its next tokens.

        The last token of a text is computed in any case, as what follows depends on it.
        """
        size, text = self.page, generation._text[:-1]
        while self._shares and generation._prefix is not None:
            number = generation._remembered
            span = text[number * size : (number + 1) * size]
            found = None
            if len(span) == size:
                found = self._page_pool.following(generation._prefix, span)
            if found is None:
                return
            self._page_pool.hold(found.page)
            if number < len(generation._pages):
                self._page_pool.release([generation._pages[number]])
                generation._pages[number] = found.page
            else:
                generation._pages.append(found.page)
            generation._prefix = found
            generation._remembered += 1
            generation._held += size

    def _copy_part(self, generation: Generation) -> None:
        """Copy the page that begins as a text goes on, if that saves a piece."""
        if not self._shares or generation._prefix is None:
            return
        rest = generation._text[generation._held : -1][: self.page]
        found = self._page_pool.partly_following(generation._prefix, rest)
        if found is None or found.length < min(LEAST_PIECE, len(rest)):
            return
        target = generation._pages[generation._remembered]
        pages = (np.array([each], np.int64) for each in (found.page, target))
        copy_page(self._pool, *map(self._on_device, pages))
        generation._held += found.length

    def _remember(self, generation: Generation, held: int) -> None:
        """Note which tokens the pages of a text hold, so that others may share them."""
        size, text = self.page, generation._text
        while self._shares and generation._prefix is not None:
            number = generation._remembered
            span = text[number * size : min(held, (number + 1) * size)]
            if not span:
                return
            page = generation._pages[number]
            found = self._page_pool.remember(generation._prefix, page, span)
            if len(span) < size:
                return
            generation._prefix = found
            generation._remembered += 1

    def _fill(self) -> None:
        """Compute pieces of prompts, but for their last tokens, which a step takes."""
        left = self._chunk
        while self._filling:
            first = self._filling[0]
            last = len(first._text) - 1
            if first._held == first._remembered * self.page:
                # Texts before it may have computed them meanwhile.
                self._share(first)
                if first._held < last:
                    self._copy_part(first)
                first.shared = max(first.shared, first._held)
            count = min(last - first._held, left)
            if count:
                self._fill_piece(first, count)
                left -= count
                self._remember(first, first._held)
            if first._held < last:
                return
            self._begin(self._filling.popleft())

    def _fill_piece(self, generation: Generation, count: int) -> None:
        """Compute the next tokens of a prompt; what follows them is written over."""
        start = generation._held
        size = LEAST_PIECE
        while size < count:
            size *= 2
        blocks = 1
        while blocks * self.page < start + size:
            blocks *= 2
        table = np.full((1, blocks), SPARE)
        pages = generation._pages[:blocks]
        table[0, : len(pages)] = pages
        piece = np.zeros((1, size), np.int64)
        piece[0, :count] = generation._text[start : start + count]
        tables, position = self._on_device(table), self._on_device(np.array([start]))
        # Sizes and tables are powers of two: few of them come again and again.
        seen = self._pieces[size, blocks] = self._pieces.get((size, blocks), 0) + 1
        fill = self._fill_again if seen > PIECES_BEFORE_TRACE else self._filled
        evaluate(fill(self._on_device(piece), tables, position))
        generation._held += count

    def _filled(self, piece: Tensor, tables: Tensor, position: Tensor) -> Tensor:
        """Compute a piece, whose keys and values are in the pages then."""
        cache = PagedCache(self._pool, tables, position, length=self.length)
        # Logits, which nobody reads, are not computed on a Vulkan device.
        self._model(piece, cache, logits_to_keep=1)
        return tables

    def _begin(self, generation: Generation) -> None:
        """Let a text whose prompt is computed take part in steps."""
        row = generation._row
        assert row is not None
        self._running[row] = generation
        self._tables[row] = SPARE
        self._tables[row, : len(generation._pages)] = generation._pages
        self._positions[row] = generation._held
        self._newest[row] = generation._text[-1]
        self._settings.begin(row, generation.sampling, generation._text)
        self._changed = True

    def _end(self, generation: Generation, reason: str) -> None:
        """Take a text out, wherever it is."""
        generation.finish = reason
        if generation._row is None:
            self._waiting.remove(generation)
            return
        self._leave(generation, generation._row)

    def _leave(self, generation: Generation, row: int) -> None:
        """Take its row and pages from a text."""
        if generation in self._filling:
            self._filling.remove(generation)
        else:
            del self._running[row]
            self._remember(generation, int(self._positions[row]))
            self._tables[row], self._positions[row] = SPARE, 0
            self._changed = True
        self._give_back(generation)
        self._free_rows.append(row)
        generation._row = None

    def _make_room(self) -> bool:
        """Give each running text the page of its next token; return if one runs.

        The text that was admitted last gives its pages up where there are too few.
        """
        while self._running and not self._grow(0):
            held = [*self._filling, *self._running.values()]
            last = max(held, key=lambda each: each._number)
            assert last._row is not None
            self._leave(last, last._row)
            self._waiting.appendleft(last)
        return bool(self._running)

    def _grow(self, ahead: int) -> bool:
        """Take pages for tokens so many steps ahead; return if there were enough."""
        for row, each in self._running.items():
            place = int(self._positions[row]) + ahead
            need = min(place // self.page + 1, self._need(each))
            while len(each._pages) < need:
                page = self._page_pool.take()
                if page is None:
                    return False
                self._tables[row, len(each._pages)] = page
                each._pages.append(page)
                self._has_grown = True
        return True

    def _looks_ahead(self) -> bool:
        """Return whether a step is launched before the one before it is read.

        A device then computes it while the host takes the tokens of that one. A text
        that ends with them has a token too much computed, which nobody reads.
        """
        goes_on = any(
            len(each.tokens) + 1 < each.count for each in self._running.values()
        )
        ready = goes_on and not self._changed and self._no_numbers.is_gpu
        return ready and self._grow(1)

    def _launch(self) -> _Launched:
        """Compute a token of each text of the batch; waits for nothing on a device."""
        if self._changed:
            self._tell_device()
        elif self._has_grown:
            # Positions and the newest tokens are on the device alone.
            self._state = self._on_device(self._tables), *self._state[1:]
            self._has_grown = False
        texts = {row: each.sampling for row, each in self._running.items()}
        steps = SamplingSteps.of([*texts.values()], self.rows)
        numbers = self._numbers() if steps.draws else self._no_numbers
        settings = self._settings
        tables, position, is_taken = self._state
        self._newest_there, position, settings.seen = self._step(steps)(
            self._newest_there,
            numbers,
            tables,
            position,
            is_taken,
            settings.numbers,
            settings.filtered(texts, steps.filters),
            settings.seen,
        )
        self._state = tables, position, is_taken
        return _Launched(self._newest_there, {**self._running})

    def _collect(self, launched: _Launched) -> list[Generation]:
        """Take the tokens of a step for the texts that are not over meanwhile."""
        found = launched.tokens.numpy()
        texts = {row: each for row, each in launched.texts.items() if not each.finish}
        for row, each in texts.items():
            self._positions[row] += 1
            self._newest[row] = found[row]
            each.tokens.append(int(found[row, 0]))
            if self._positions[row] % self.page == 0:
                self._remember(each, int(self._positions[row]))
            if each.tokens[-1] in each.stop:
                self._end(each, "stop")
            elif len(each.tokens) == each.count:
                self._end(each, "length")
        return [*texts.values()]

    def _numbers(self) -> Tensor:
        """Return a random number of each row, of its text's own."""
        found = np.zeros((self.rows, 1), np.float32)
        for row, each in self._running.items():
            found[row] = each._random.random(dtype=np.float32)
        return self._on_device(found)

    def _step(self, steps: SamplingSteps) -> _Step:
        """Return the step of a batch with such settings, which a device replays."""
        if steps not in self._steps:
            model, make_cache = self._model, self._cache

            def step(
                newest: Tensor,
                chosen: Tensor,
                tables: Tensor,
                position: Tensor,
                is_taken: Tensor,
                settings: Tensor,
                filtered: Tensor | None,
                seen: Tensor | None,
            ) -> tuple[Tensor, Tensor, Tensor | None]:
                cache = make_cache(tables, position, is_taken)
                logits = model(newest, cache)[:, -1].to(float32)
                tokens, seen = draw(
                    logits, newest, chosen, settings, seen, steps, filtered
                )
                return tokens, cache.position, seen

            self._steps[steps] = jit(step) if self._no_numbers.is_gpu else step
        return self._steps[steps]

    def _cache(self, tables: Tensor, position: Tensor, is_taken: Tensor) -> PagedCache:
        return PagedCache(self._pool, tables, position, is_taken, self.length)

    def _tell_device(self) -> None:
        """Write what rows have, as texts have joined or left."""
        is_taken = np.zeros(self.rows, np.int64)
        is_taken[list(self._running)] = 1
        given = self._tables, self._positions, is_taken
        first, second, third = map(self._on_device, given)
        self._state = first, second, third
        self._newest_there = self._on_device(self._newest)
        self._changed = self._has_grown = False

    def _on_device(self, array: np.ndarray) -> Tensor:
        return tensor(array, device=self._device)
