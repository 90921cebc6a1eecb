"""The common state of all passes of a run: instruments, verification, and the reports of the passes.

A `PassContext` is entered with ``with``; passes that run inside find it by themselves. This module knows the rewriting
engine and the vocabulary's reference semantics, and no pass.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, Token
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, final

from ..ir.collection import collection_paused
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.near_names import hint
from ..ir.program import Function
from ..rewrite import Decline, Event, PatternMatchingRewriter, RewrittenBlock, Rule, RuleSet, decline, rewrite

if TYPE_CHECKING:
    from .passes import Pass

Program = TypeVar("Program", Function, IRModule)


class PassError(RegraftError, RuntimeError, ValueError):
    """Raised if a pass cannot do its task, or broke one of its promises; the message names the pass."""


class PassTypeError(PassError, TypeError):
    """An option of passes has a wrong type."""


class PassConfigError(PassError, AttributeError):
    """A context was given an option that does not exist; an `AttributeError`, as in Relax."""


class RewriteDecision(NamedTuple):
    """One decision of a pass: a rewrite (``reason`` is None), or a place that was left unchanged, with the reason.

    ``unverified`` says why a rewrite could not be checked by running both sides, if that was requested.
    """

    pass_name: str
    function: str
    rule: str
    binding: str
    reason: str | None
    unverified: str | None = None

    def __str__(self) -> str:
        what = "rewrote" if self.reason is None else "left"
        why = "" if self.reason is None else f": {self.reason}"
        return f"{self.pass_name}: {what} {self.function}.{self.binding} ({self.rule}){why}"


class PassInstrument:
    """Observes passes while they run; override the methods of interest."""

    sees_sequences: ClassVar[bool] = True
    """False for an instrument that observes single passes only, and no sequences of passes."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left, also after an error."""

    def should_run(self, mod: Function | IRModule, info: Pass) -> bool:
        """True if the pass is to run; otherwise the program stays as it is."""
        return True

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Called before the pass runs on ``mod``."""

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Called after the pass with its result ``mod``, which is the program it was given if nothing changed."""

    def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
        """Called before the running pass rewrites ``program`` by ``rules``."""

    def step(self, step: RewriteDecision) -> None:
        """Called when the running pass has rewritten a place, or left it unchanged for a reason."""

    def rewrote(self, event: Event) -> None:
        """Called when the running pass has rewritten a place by a rule; ``event.edit`` is the change."""

    def wrote(self, written: RewrittenBlock) -> None:
        """Called when the running pass has written a block that its rules changed."""

    @property
    def wants_edits(self) -> bool:
        """True if `rewrote` is to be called; passes run faster if no instrument wants it."""
        return type(self).rewrote is not PassInstrument.rewrote

    @property
    def wants_steps(self) -> bool:
        """True if `step` is to be called; passes run faster if no instrument wants it."""
        return type(self).step is not PassInstrument.step


_CONFIG: Final[dict[str, type]] = {
    "relax.fallback_device_type": int,
    "relax.FuseOps.max_depth": int,
    "relax.backend.use_cuda_graph": bool,
    "relax.lift_transform_params.consume_params": bool,
    "relax.transform.apply_legalize_ops": bool,
}


def register_config(name: str, kind: type) -> None:
    """Declare a key of ``PassContext(config={...})`` and the type of its values."""
    _CONFIG[name] = kind


def _checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in config.items():
        kind = _CONFIG.get(name)
        if kind is None:
            raise PassConfigError(f"PassContext: config has no key {name!r}; {hint(name, sorted(_CONFIG))}")
        if not isinstance(value, kind):
            raise PassError(f"PassContext: config[{name!r}] is {value!r}; expected {kind.__name__}")
    return dict(config)


@final
class PassContext:
    """The options of passes inside ``with PassContext(...)``.

    ``instruments`` are notified of each pass, in order. ``verify="values"`` checks each rewrite by value on random
    inputs, where possible. After each pass that promises the same values, it also runs each function that kept its
    parameters, before and after, on random inputs. `PassValueError` names the pass, the function and the difference.
    ``most_rewrites`` stops rewriting after that many rewrites; `first_change` uses it to find a wrong rewrite.

    As in Relax, a `Sequential` skips passes whose optimization level is higher than ``opt_level``, unless
    ``required_pass`` names them, and passes that ``disabled_pass`` names. A pass that is called by itself always runs.
    ``config`` holds options that passes look up by name; `register_config` declares a name. Raises `PassError` for a
    name that is not declared.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[PassInstrument] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        verify: Literal["values"] | None = None,
        most_rewrites: int | None = None,
    ) -> None:
        if verify not in (None, "values"):
            raise PassError(f'verify={verify!r} is not known; use "values" or None')
        if not isinstance(opt_level, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassTypeError(f"opt_level is {opt_level!r}; expected an int (instruments are given by name)")
        for what, given in (("required_pass", required_pass), ("disabled_pass", disabled_pass)):
            if isinstance(given, str):
                raise PassTypeError(f"{what} is {given!r}; expected a list of names of passes")
        self.opt_level: Final = opt_level
        self.required_pass: Final = tuple(required_pass or ())
        self.disabled_pass: Final = tuple(disabled_pass or ())
        self.config: Final = _checked_config(config or {})
        self.instruments: tuple[PassInstrument, ...] = tuple(instruments or ())
        self.verify: Final = verify
        self.left = most_rewrites
        """The number of further rewrites that may be made; None if any number may."""
        self.function = ""
        """The name of the function that the running pass works on; empty if it works on the whole module."""
        self._pass_name = ""
        self._tokens: list[Token[PassContext]] = []

    @staticmethod
    def current() -> PassContext:
        """The innermost entered context; a context with default options if there is none."""
        return _current.get()

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The names that ``config`` may contain, each with the type of its values."""
        return {name: {"type": kind.__name__} for name, kind in sorted(_CONFIG.items())}

    def override_instruments(self, instruments: Iterable[PassInstrument]) -> None:
        """Replace the instruments. If the context is entered, the old ones are exited and the new ones entered.

        If an instrument fails there, the context is left without instruments.
        """
        if self._tokens:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        self.instruments = tuple(instruments)
        if self._tokens:
            self._enter_instruments()

    def _enter_instruments(self) -> None:
        entered: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            self.instruments = ()
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def __enter__(self) -> PassContext:
        self._tokens.append(_current.set(self))
        try:
            self._enter_instruments()
        except BaseException:
            _current.reset(self._tokens.pop())
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        _current.reset(self._tokens.pop())
        for instrument in self.instruments:
            instrument.exit_pass_ctx()

    # --- what passes use

    def rewrite(self, program: Program, rules: PatternMatchingRewriter, *, share: bool = True) -> Program:
        """``program`` rewritten by ``rules``, with the options of this context: see `regraft.rewrite.rewrite`."""
        for instrument in self.instruments:
            instrument.run_before_rewrite(program, rules)
        if self.left is not None:
            rules = RuleSet(self._limited(rule) for rule in rules.rules())
        journal = self._wrote if any(instrument.wants_edits for instrument in self.instruments) else None
        listener = self._told if self.left is not None or self._listeners or journal is not None else None
        return rewrite(program, rules, share=share, listener=listener, verify=self.verify, journal=journal)

    def tell(self, rule: str, binding: str, reason: str | None, unverified: str | None = None) -> None:
        """Report a decision that the rewriting engine does not see. If ``reason`` is None, the place was rewritten."""
        for instrument in self._listeners:
            instrument.step(RewriteDecision(self._pass_name, self.function, rule, binding, reason, unverified))

    @property
    def _listeners(self) -> list[PassInstrument]:
        return [instrument for instrument in self.instruments if instrument.wants_steps]

    def _told(self, event: Event) -> None:
        if event.reason is None and self.left is not None:
            self.left -= 1
        self.tell(event.rule, event.var.name_hint, event.reason, event.unverified)
        if event.reason is None:
            for instrument in self.instruments:
                instrument.rewrote(event)

    def _wrote(self, written: RewrittenBlock) -> None:
        for instrument in self.instruments:
            instrument.wrote(written)

    def _limited(self, rule: Rule) -> Rule:
        @wraps(rule.rewriter)
        def rewriter(*arguments: Any) -> Any:
            return _SPENT if self.left == 0 else rule.rewriter(*arguments)

        return rule.with_rewriter(rewriter)

    # --- what runs passes

    def enables(self, one: Pass) -> bool:
        """True if a sequence runs the pass ``one`` in this context."""
        if one.name in self.disabled_pass:
            return False
        return one.name in self.required_pass or one.opt_level <= self.opt_level

    @contextmanager
    def on(self, function: str) -> Generator[None]:
        """Attribute decisions made inside to the function of that name."""
        before, self.function = self.function, function
        try:
            yield
        finally:
            self.function = before

    def run(self, one: Pass, program: Program) -> Program:
        """The result of ``one`` for ``program``, with the instruments notified and the values verified."""
        instruments = [each for each in self.instruments if each.sees_sequences or not one.is_sequence]
        # Every instrument is asked, even after one has returned False: instruments may count calls.
        answers = [instrument.should_run(program, one) for instrument in instruments]
        if not all(answers):
            return program
        for instrument in instruments:
            instrument.run_before_pass(program, one)
        before, self._pass_name = self._pass_name, one.name
        try:
            # Garbage is collected between the passes of a sequence.
            with nullcontext() if one.is_sequence else collection_paused():
                result = one.transform(program, self)
        finally:
            self._pass_name = before
        if self.verify is not None and result is not program and one.keeps_values and not one.is_sequence:
            from .verification import check_same_values

            check_same_values(one.name, program, result)
        for instrument in instruments:
            instrument.run_after_pass(result, one)
        return result


_SPENT: Final[Decline] = decline("no more rewrites are allowed")
_current: ContextVar[PassContext] = ContextVar("regraft_pass_context", default=PassContext())  # noqa: B039
