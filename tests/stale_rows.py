"""Stale traces: programs with guarded state of every kind, and its changes.

Each row is a name, statements that make the state, an expression that a step reads, and
a statement that changes it, with `k` for a number. State that cannot be guarded, or
that differs in each call, is `REFUSED`, with the text that the warning must have.

`python -m tests.stale_rows` runs all of them with a change after each call and with one
change only, and prints what became of each.
"""

import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import vkbackend.framework as fw

INSTALLED = """
import time, random, typing
LEVEL = 1.0
TABLE = {"a": 1.0}
class Plain:
    shared = 1.0
    def __init__(self): self.alpha = 1.0; self.inner = None; self._hidden = 1.0
    def compute(self): return self._hidden * LEVEL
    def table(self): return TABLE["a"]
    prop = property(lambda self: self._hidden)
    __call__ = __float__ = compute
    def __getitem__(self, key): return self._hidden
    def __len__(self): return int(self._hidden)
    def __bool__(self): return self._hidden > 2
    def __iter__(self): yield self._hidden
    def __contains__(self, key): return self._hidden > 2
    def __enter__(self): return self._hidden
    def __exit__(self, *error): pass
class Typed:
    a: int
class Slots:
    __slots__ = ("alpha", "_beta")
    def __init__(self): self.alpha = self._beta = 1.0
    def get(self): return self._beta
class Magic:
    def __init__(self): self._values = {"alpha": 1.0}
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return self._values[name]
class Strange:
    def __getattribute__(self, name): return VALUES[name]
VALUES = {"alpha": 1.0, "__dict__": {}}
class Open(dict):
    __getattr__ = dict.__getitem__
class Meta(type):
    level = property(lambda kind: kind._level)
@typing.runtime_checkable
class Late(typing.Protocol):
    def late(self): pass
class OfMeta(metaclass=Meta):
    _level = 1.0
class Descriptor:
    def __init__(self): self.data = {}
    def __get__(self, owner, kind): return self.data.get(id(owner), 1.0)
class Described:
    value = Descriptor()
def level(): return LEVEL
def attribute(owner): return owner.alpha
def named(owner, name): return getattr(owner, name)
def default(a=[1.0]): return a[0]
def keyword(*, a=1.0): return a
def stamp(): return time.time()
def draw(): return random.random()
count = 0
def counted():
    global count
    count += 1
    return count
import operator, contextvars, collections, struct
import numpy as np
SEEN, TAGS, ROW, LAST = [], set(), np.zeros(1), collections.deque()
PLACE, WORDS, TURN = {}, bytearray(8), contextvars.ContextVar("TURN", default=0)
def extended():
    seen = SEEN
    seen += [1]
    return len(seen)
def united():
    tags = TAGS
    tags |= {len(tags)}
    return len(tags)
def summed(): return float(np.add(ROW, 1, out=ROW)[0])
def queued(): return len(operator.iadd(LAST, [1]))
def placed():
    dict.__setitem__(PLACE, len(PLACE), 1)
    return len(PLACE)
def packed():
    struct.pack_into("d", WORDS, 0, struct.unpack_from("d", WORDS)[0] + 1)
    return WORDS[7] + WORDS[6]
def mapped():
    list(map(SEEN.append, [1]))
    return len(SEEN)
def turned():
    TURN.set(TURN.get() + 1)
    return TURN.get()
"""


class Row(NamedTuple):
    """A program."""

    name: str
    make: str
    read: str
    change: str
    refused: str = ""


def _rows(text: str) -> list[Row]:
    lines = [each for each in text.strip().splitlines() if each.strip()]
    return [Row(*(part.strip() for part in each.split(" |"))) for each in lines]


ROWS = _rows(
    """
attribute | s = I.Plain() | s.alpha | s.alpha = k
attribute_inside | s = I.Plain(); s.inner = I.Plain() | s.inner.alpha | s.inner.alpha = k
method | s = I.Plain() | s.compute() | s._hidden = k
method_global | s = I.Plain() | s.compute() | I.LEVEL = k
method_table | s = I.Plain() | s.table() | I.TABLE["a"] = k
property | s = I.Plain() | s.prop | s._hidden = k
class_attribute | s = I.Plain() | s.shared | I.Plain.shared = k
class_shadowed | s = I.Plain() | s.shared | s.shared = k
called | s = I.Plain() | s() | s._hidden = k
converted | s = I.Plain() | float(s) | s._hidden = k
indexed | s = I.Plain() | s[0] | s._hidden = k
length | s = I.Plain() | len(s) | s._hidden = k
truth | s = I.Plain() | 3.0 if s else 1.0 | s._hidden = k
iterated | s = I.Plain() | sum(s) | s._hidden = k
membership | s = I.Plain() | 3.0 if 1 in s else 1.0 | s._hidden = k
slots | s = I.Slots() | s.alpha | s.alpha = k
slots_method | s = I.Slots() | s.get() | s._beta = k
getattr_of_class | s = I.Magic() | s.alpha | s._values["alpha"] = k
getattr_hidden_later | s = I.Magic() | s.alpha | vars(s)["alpha"] = k
strange | s = I.Strange() | s.alpha | I.VALUES["alpha"] = k
open_dict | s = I.Open(m=I.Open(a=1.0)) | s.m.a | s["m"]["a"] = k
function_global | | I.level() | I.LEVEL = k
module_global | | I.LEVEL | I.LEVEL = k
through_function | s = I.Plain() | I.attribute(s) | s.alpha = k
computed_name | s = I.Plain() | I.named(s, "al" + "pha") | s.alpha = k
metaclass | | I.OfMeta.level | I.OfMeta._level = k
metaclass_attribute | I.Meta.factor = 1.0 | I.OfMeta.factor | I.Meta.factor = k
descriptor | s = I.Described(); d = vars(I.Described)["value"] | s.value | d.data[id(s)] = k
default_element | | I.default() | I.default.__defaults__[0][0] = k
default_replaced | | I.default() | I.default.__defaults__ = ([k],)
keyword_default | | I.keyword() | I.keyword.__kwdefaults__["a"] = k
keyword_default_replaced | | I.keyword() | I.keyword.__kwdefaults__ = {"a": k}
method_replaced | s = I.Plain() | s.compute() | I.Plain.compute = lambda self: k
function_replaced | | I.level() | I.level = lambda: k
dataclass | s = dataclasses.make_dataclass("C", [("a", float, 1.0)])() | s.a | s.a = k
dataclass_slots | s = dataclasses.make_dataclass("C", [("a", float, 1.0)], slots=True)() | s.a | s.a = k
dataclass_fields | s = dataclasses.make_dataclass("C", [("a", float, 1.0)])() | sum(getattr(s, f.name) for f in dataclasses.fields(s)) | s.a = k
dataclass_asdict | s = dataclasses.make_dataclass("C", [("a", float, 1.0)])() | dataclasses.asdict(s)["a"] | s.a = k
dataclass_equal | s = dataclasses.make_dataclass("C", [("a", float, 1.0)])(); t = copy.copy(s) | 2.0 if s == t else 3.0 | s.a = k
namespace_vars | s = argparse.Namespace(a=1.0) | vars(s)["a"] | s.a = k
namespace_dict | s = argparse.Namespace(a=1.0) | s.__dict__["a"] | s.a = k
namespace_equal | s = types.SimpleNamespace(a=1.0); t = types.SimpleNamespace(a=1.0) | 2.0 if s == t else 3.0 | s.a = k
name_computed_late | s = types.SimpleNamespace(a=1.0); n = ["a"] | getattr(s, n[0]) | s.a = k
absent_at_first | s = types.SimpleNamespace() | getattr(s, "a", 1.0) | s.a = k
absent_asked | s = types.SimpleNamespace() | 2.0 if hasattr(s, "a") else 1.0 | s.a = k
attrgetter | s = types.SimpleNamespace(i=types.SimpleNamespace(a=1.0)); g = operator.attrgetter("i.a") | g(s) | s.i.a = k
methodcaller | s = I.Plain(); g = operator.methodcaller("compute") | g(s) | s._hidden = k
format_computed | s = I.Plain(); n = ["alpha"] | float(("{0." + n[0] + "}").format(s)) | s.alpha = k
format_field | s = types.SimpleNamespace(a=1) | float("{0.a}".format(s)) | s.a = k
globals | globals()["global_number"] = 1.0 | globals()["global_number"] | globals()["global_number"] = k
evaluated | globals()["global_number"] = 1.0 | eval("global_number * 1") | globals()["global_number"] = k
not_yet_global | globals().pop("later", None) | later_or_one() | globals()["later"] = k
builtin | builtins.odd_number = 1.0 | odd_number | builtins.odd_number = k
nested | s = {"a": [{"b": ({"c": 1.0},)}]} | s["a"][0]["b"][0]["c"] | s["a"][0]["b"][0]["c"] = k
long_list | s = [1.0] * 5000 | s[3] | s[3] = k
long_dict | s = dict.fromkeys(range(5000), 1.0) | s[3] | s[3] = k
objects_in_list | s = [I.Plain() for _ in range(300)] | s[150].alpha | s[150].alpha = k
chain_map | t = {"a": 1.0}; s = collections.ChainMap({}, t) | s["a"] | t["a"] = k
user_dict | s = collections.UserDict(a=1.0) | s["a"] | s["a"] = k
mapping_proxy | t = {"a": 1.0}; s = types.MappingProxyType(t) | s["a"] | t["a"] = k
view | t = {"a": 1.0}; s = t.values() | sum(s) | t["a"] = k
weak_values | o = I.Plain(); s = weakref.WeakValueDictionary(a=o) | s["a"].alpha | o.alpha = k
weak_keys | o = I.Slots; s = weakref.WeakKeyDictionary({o: 1.0}) | s[o] | s[o] = k
weak_set | o = [I.Plain() for _ in range(9)]; s = weakref.WeakSet(o[:1]) | len(s) | s.add(o[int(k) - 1])
weak_reference | o = I.Plain(); s = weakref.ref(o) | s().alpha | o.alpha = k
byte_array | s = bytearray([1]) | s[0] | s[0] = int(k)
memory_view | t = bytearray([1]); s = memoryview(t) | s[0] | t[0] = int(k)
memory_map | s = mmap.mmap(-1, 16); s[0] = 1 | s[0] | s[0] = int(k)
ctypes_value | s = ctypes.c_double(1.0) | s.value | s.value = k
ctypes_structure | s = type("S", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_double)]})(1.0) | s.a | s.a = k
array_of_2_mib | s = np.ones(300_000) | float(s[1]) | s[1] = k
array_shape | s = np.ones((2, 3)) | s.shape[1] | s.shape = (3, 2) if k % 2 else (6, 1)
array_dtype | s = np.arange(2.0) | float(s[1] > 1.5) + 1 | s.dtype = np.int64
array_locked | s = np.ones(1) | 2.0 if s.flags.writeable else 3.0 | s.setflags(write=False)
array_element | t = np.ones(2, [("a", "f8")]); s = t[0] | float(s["a"]) | t["a"] = k
array_of_objects | s = np.array([1.0, 2.0], object) | s[0] | s[0] = k
array_masked | s = np.ma.array([1.0, 2.0]) | float(s[0]) | s[0] = k
environment | os.environ["VKB_ROW"] = "1" | float(os.environ["VKB_ROW"]) | os.environ["VKB_ROW"] = str(k)
environment_get | os.environ["VKB_ROW"] = "1" | float(os.getenv("VKB_ROW")) | os.environ["VKB_ROW"] = str(k)
context_variable | s = contextvars.ContextVar("s"); s.set(1.0) | s.get() | s.set(k)
context_object | s = contextvars.ContextVar("s"); o = I.Plain(); s.set(o) | s.get().alpha | o.alpha = k
thread_local | s = threading.local(); s.a = 1.0 | s.a | s.a = k
event | s = threading.Event() | 2.0 if s.is_set() else 1.0 | s.set()
cached_cleared | s = [1.0]; f = functools.cache(lambda: s[0]) | f() | s[0] = k; f.cache_clear()
cached_object | f = functools.cache(lambda: types.SimpleNamespace(a=1.0)) | f().a | f().a = k
partial | s = I.Plain(); f = functools.partial(I.attribute, s) | f() | s.alpha = k
partial_keyword | f = functools.partial(lambda a: a, a=1.0) | f() | f.keywords["a"] = k
single_dispatch | f = functools.singledispatch(lambda a: 1.0) | f("s") | f.register(str, lambda a: k)
function_attribute | f = lambda: f.a; f.a = 1.0 | f() | f.a = k
function_code | f = lambda: 1.0; g = [eval(f"lambda: {n}.0") for n in range(9)] | f() | f.__code__ = g[int(k)].__code__
module_import | | imported() | sys.modules["stale_module"].alpha = k
module_by_name | | importlib.import_module("stale_module").alpha | sys.modules["stale_module"].alpha = k
module_of_modules | | sys.modules["stale_module"].alpha | sys.modules["stale_module"].alpha = k
module_by_computed_name | n = ["stale", "module"] | importlib.import_module("_".join(n)).alpha | sys.modules["stale_module"].alpha = k
module_there | sys.modules.pop("stale_later", None) | 2.0 if "stale_later" in sys.modules else 3.0 | sys.modules["stale_later"] = types
module_held | s = {"m": sys.modules["stale_module"]} | s["m"].alpha | s["m"].alpha = k
class_of_class | B = type("B", (), {"a": 1.0}); C = type("C", (B,), {}); s = C() | s.a | C.a = k
class_changed | B = type("B", (), {"a": 1.0}); C = type("C", (), {"a": 2.0}); s = B() | s.a | s.__class__ = C
class_asked | B = type("B", (), {}); C = type("C", (), {}); s = B() | 2.0 if isinstance(s, B) else 3.0 | s.__class__ = C
class_of_other_bases | B = type("B", (), {"a": 1.0}); O = type("O", (), {"a": 5.0}); C = type("C", (B,), {}); s = C() | s.a | C.__bases__ = (O,)
class_registered | A = abc.ABCMeta("A", (), {}); s = I.Plain() | 2.0 if isinstance(s, A) else 3.0 | A.register(I.Plain)
class_of_protocol | s = I.Plain() | 2.0 if isinstance(s, I.Late) else 3.0 | s.late = print
signature | | inspect.signature(I.default).parameters["a"].default[0] | I.default.__defaults__ = ([k],)
members | s = I.Plain() | dict(inspect.getmembers(s))["alpha"] | s.alpha = k
attribute_static | s = I.Plain() | inspect.getattr_static(s, "alpha") | s.alpha = k
type_hints | | len(typing.get_type_hints(I.level)) | I.level.__annotations__[f"a{k}"] = int
type_hints_of_class | | len(typing.get_type_hints(I.Typed)) | I.Typed.__annotations__[f"a{k}"] = int
enum_value | E = enum.Enum("E", "A"); E.A.extra = 1.0 | E.A.extra | E.A.extra = k
linked | s = functools.reduce(lambda n, _: types.SimpleNamespace(n=n, v=1.0), range(300), None) | last(s).v | last(s).v = k
registry | s = [1.0]; t = {n: (lambda: s[0]) for n in range(500)} | t[77]() | s[0] = k
decimals | decimal.getcontext().prec = 28 | float(decimal.Decimal(1) / decimal.Decimal(3)) * 1e6 | decimal.getcontext().prec = int(k)
pickled | s = I.Plain() | pickle.loads(pickle.dumps(s)).alpha | s.alpha = k
printed | s = types.SimpleNamespace(a=1) | len(repr(s)) | s.a = 10 ** int(k)
log_level | s = logging.getLogger("stale"); s.setLevel(9) | s.getEffectiveLevel() | s.setLevel(int(k))
logger_by_name | logging.getLogger("stale").setLevel(30) | 2.0 if logging.getLogger("stale").isEnabledFor(10) else 3.0 | logging.getLogger("stale").setLevel(10)
function_held | s = types.SimpleNamespace(f=lambda: 1.0) | s.f() | s.f = lambda: k
function_in_c_held | s = I.Plain(); s.f = math.sin | s.f(1.0) | s.f = math.cos if k % 2 else math.tan
op_held | s = I.Plain(); s.f = fw.relu | x * s.f(x) | s.f = fw.tanh if k % 2 else fw.sigmoid
op_held_by_a_layer | s = nn.ReLU(); s.f = fw.relu | s.f(x) | s.f = fw.tanh if k % 2 else fw.sigmoid
method_of_an_object | s = I.Plain() | s.compute() | s.compute = lambda: k
module_held_another | A = types.ModuleType("a"); A.v = 1.0; s = I.Plain(); s.m = A | s.m.v | s.m = types.ModuleType("b"); s.m.v = k
module_imported_another | | imported() | m = types.ModuleType("b"); m.alpha = k; sys.modules["stale_module"] = m
module_answers_otherwise | m = types.ModuleType("m"); m.__getattr__ = lambda n: 1.0 | m.q | m.__getattr__ = lambda n: k
module_of_another_class | C, D = (type("C", (types.ModuleType,), {"q": q}) for q in (1.0, 5.0)); m = C("m") | m.q | m.__class__ = D
key_attribute | o = I.Plain(); s = {o: 1.0} | sum(q.alpha for q in s) | o.alpha = k
key_of_another_type | s = {1: 1.0} | len(str(list(s)[0])) | s.clear(); s[1.0] = 1.0
key_minus_zero | s = {0.0: 1.0} | len(str(list(s)[0])) | s.clear(); s[-0.0] = 1.0
default_of_a_dict | s = collections.defaultdict(lambda: 1.0) | (s["q"], s.pop("q"))[0] | s.default_factory = lambda: k
number_of_a_class | C = type("C", (int,), {"w": 1.0, "get": lambda q: q.w}); s = C(1) | s.get() | s.w = k
number_of_a_changed_class | C = type("C", (int,), {"w": 1.0, "get": lambda q: q.w}); s = C(1) | s.get() | C.w = k
absent_in_a_helper | s = I.Plain() | absent(s) | s.later = k
absent_in_a_class | s = I.Plain() | absent(s) | I.Plain.later = k
operator_replaced | C = type("C", (), {"__rmul__": lambda q, o: o * 1.0}); s = C() | 1.0 * s | C.__rmul__ = lambda q, o: k
operator_added | C = type("C", (), {}); s = C() | 2.0 if s else 1.0 | C.__bool__ = lambda q: False
iteration_replaced | C = type("C", (), {"__iter__": lambda q: iter([1.0])}); s = C() | sum(s) | C.__iter__ = lambda q: iter([k])
init_replaced | C = type("C", (), {"__init__": lambda q: setattr(q, "v", 1.0)}) | C().v | C.__init__ = lambda q: setattr(q, "v", k)
getattr_replaced | C = type("C", (), {"__getattr__": lambda q, n: 1.0}); s = C() | s.zz | C.__getattr__ = lambda q, n: k
getattribute_added | C = type("C", (), {"zz": 1.0}); s = C() | s.zz | C.__getattribute__ = lambda q, n: k
metaclass_getattr_replaced | M = type("M", (type,), {"__getattr__": lambda c, n: 1.0}); C = M("C", (), {}) | C.zz | M.__getattr__ = lambda c, n: k
descriptor_replaced | D = type("D", (), {"__get__": lambda d, o, c: 1.0}); C = type("C", (), {"v": D()}); s = C() | s.v | D.__get__ = lambda d, o, c: k
class_name | C = type("C", (), {}) | len(C.__name__) | C.__name__ = "C" * int(k)
function_name | f = lambda: 1.0; f.__name__ = "a" | len(f.__name__) | f.__name__ = "a" * int(k)
function_cell | v = 1.0; f = lambda: v | f.__closure__[0].cell_contents | f.__closure__[0].cell_contents = k
function_defaults | f = lambda a=1.0: a | f.__defaults__[0] | f.__defaults__ = (k,)
function_wrapped | f = functools.wraps(I.level)(lambda: 1.0); f.__wrapped__ = lambda: 1.0 | f.__wrapped__() | f.__wrapped__ = lambda: k
function_globals | | I.level.__globals__["LEVEL"] | I.LEVEL = k
standard_replaced | o = math.sqrt; math.sqrt = lambda v: 9.0 | math.sqrt(4.0) | math.sqrt = o
standard_of_numpy | o = np.sinh; np.sinh = lambda v: 7.0 | float(np.sinh(0.5)) | np.sinh = o
op_replaced | o = fw.sigmoid; fw.sigmoid = lambda v: v * 9 | fw.sigmoid(x) | fw.sigmoid = o
forward_replaced | o = nn.Tanh.forward; nn.Tanh.forward = lambda q, v: v * 9; s = nn.Tanh() | s(x) | nn.Tanh.forward = o
weakly_gone | h = [I.Plain()]; s = weakref.ref(h[0]) | 1.0 if s() is None else 2.0 | h.clear()
decimals_trapped | c = decimal.getcontext(); c.traps[decimal.Inexact] = False | 2.0 if inexact() else 1.0 | c.traps[decimal.Inexact] = True
seed | fw.manual_seed(1) | fw.initial_seed() | fw.manual_seed(int(k))
tensor_in_slots | s = I.Slots(); s.alpha = fw.ones(2, device=gpu) | s.alpha | s.alpha = fw.full((2,), k, device=gpu)
tensor_on_host | s = fw.ones(2) | s.to(gpu) | s.add_(1)
layers | s = nn.ModuleList([nn.Dropout(0.5)]) | len(s) | s.append(nn.ReLU())
layer_in_list | s = nn.ModuleList([nn.Dropout(0.5)]) | s[0].p | s[0].p = k / 10
parameters | s = nn.Sequential(nn.Linear(1, 1)).to(gpu) | len(list(s.parameters())) | s.append(nn.Linear(1, 1).to(gpu))
schedule | s = optim.StepLR(optim.SGD([nn.Parameter(fw.ones(1, device=gpu))], lr=1.0), 1) | s.get_last_lr()[0] | s.step()
estimator | s = Ridge(alpha=1.0) | s.alpha | s.set_params(alpha=k)
estimator_fitted | s = Ridge(); X = np.arange(4.0)[:, None]; s.fit(X, X[:, 0]) | float(s.predict(X)[2]) | s.fit(X, X[:, 0] * k)
counter | s = types.SimpleNamespace(n=0) | bumped(s) | pass | it changes `n`
counter_of_package | | I.counted() | pass | it changes `count`
list_of_package | | I.extended() | pass | it changes what a list holds
set_of_package | | I.united() | pass | it changes what a set holds
array_of_package | | I.summed() | pass | it changes what an array holds
deque_of_package | | I.queued() | pass | it changes what a deque holds
dict_of_package | | I.placed() | pass | it changes what a dict holds
bytes_of_package | | I.packed() | pass | it changes what a bytearray holds
mapped_of_package | | I.mapped() | pass | it changes what a list holds
variable_of_package | | I.turned() | pass | it changes
clock | | 1.0 + I.stamp() % 1e-9 * 0 | pass | it asks the clock by `time`
clock_elsewhere | | 1.0 + datetime.datetime.now().year * 0 | pass | it asks the clock by `now`
chance | | I.draw() | pass | it draws numbers on the host
chance_of_system | | os.urandom(1)[0] | pass | it draws numbers on the host
chance_identifier | | uuid.uuid4().int % 1009 | pass | it draws numbers on the host
chance_of_numpy | s = types.SimpleNamespace(g=np.random.default_rng(1)) | float(s.g.normal()) | pass | it draws numbers on the host
file | p = Path(tempfile.mktemp()); p.write_text("1") | float(p.read_text()) | p.write_text(str(k)) | it asks a file by `read`
file_there | p = Path(tempfile.mktemp()) | 2.0 if p.exists() else 1.0 | p.write_text("") | it asks the system by `stat`
file_of_memory | s = io.StringIO("1") | float(s.getvalue()) | s.seek(0); s.write(str(k)) | it asks a file by `getvalue`
folder | | len(os.getcwd()) | pass | it asks the system by `getcwd`
file_of_numbers | p = tempfile.mktemp(); np.ones(1).tofile(p) | float(np.fromfile(p)[0]) | (np.ones(1) * k).tofile(p) | it asks a file by `fromfile`
affinity | | len(os.sched_getaffinity(0)) | pass | it asks the system by `sched_getaffinity`
signal_handler | | 2.0 if signal.getsignal(signal.SIGUSR2) else 3.0 | pass | it asks the system by `getsignal`
frame | | float(sys._getframe().f_lineno) | pass | it asks the interpreter by `_getframe`
settings | | csv.field_size_limit() | pass | it asks the interpreter by `field_size_limit`
pointer | t = ctypes.c_double(1.0); s = ctypes.pointer(t) | s[0] | t.value = k | it looks at a LP_c_double
memory_by_address | t = ctypes.c_double(1.0) | ctypes.c_double.from_address(ctypes.addressof(t)).value | t.value = k | it asks memory by `from_address`
memory_of_text | s = ctypes.create_string_buffer(b"a") | ord(ctypes.string_at(ctypes.addressof(s))) | s.value = bytes([64 + int(k)]) | it asks memory by `string_at`
state_of_generator | | fw.get_rng_state()[0] * 0 + 1.0 | pass | the state of a generator is read
iterator | s = types.SimpleNamespace(i=itertools.count(1)) | next(s.i) | pass | it takes from an iterator
queue | s = queue.SimpleQueue(); [s.put(float(n)) for n in range(1, 99)] | s.get() | pass | it asks a queue by `get`
very_long_list | s = [1.0] * 200_000 | s[3] | s[3] = k | it looks at a list of 200000
very_large_array | s = np.ones(9_000_000) | float(s[1]) | s[1] = k | it looks at an array of 68 MiB
other_tensor | s = torch.ones(1) | s.item() | s.fill_(k) | it looks at a Tensor
other_chance | | float(torch.rand(1)) | pass | it asks `torch` by `rand`
tree_in_c | s = DecisionTreeRegressor(); X = np.arange(4.0)[:, None]; s.fit(X, X[:, 0]) | float(s.predict(X)[2]) | s.fit(X, X[:, 0] * k) | it looks at a Tree
database | s = sqlite3.connect(":memory:") | s.execute("select 1").fetchone()[0] | pass | it looks at a Connection
objects_alive | | len(gc.get_objects()) * 0 + 1.0 | pass | it asks the interpreter by `get_objects`
cache_info | f = functools.lru_cache(lambda v: v); f(1) | f.cache_info().hits + 1.0 | f(1) | it asks a cache by `cache_info`
references_counted | o = I.Plain(); h = [] | weakref.getweakrefcount(o) + 1.0 | h.append(weakref.ref(o, print)) | it asks the interpreter by `getweakrefcount`
digits_of_text | sys.set_int_max_str_digits(1000) | sys.get_int_max_str_digits() | sys.set_int_max_str_digits(1000 * int(k)) | it asks the interpreter by `get_int_max_str_digits`
error_that_is_handled | | 1.0 + (sys.exc_info()[0] is not None) | pass | it asks the interpreter by `exc_info`
lock_taken | s = threading.Lock() | 2.0 if s.acquire(blocking=False) else 1.0 | pass | it leaves a lock otherwise
locale | locale.setlocale(locale.LC_ALL, "C") | len(locale.setlocale(locale.LC_ALL)) | locale.setlocale(locale.LC_ALL, "C.UTF-8") | it asks the system by `setlocale`
line_of_a_file | p = tempfile.mktemp(); Path(p).write_text("1") | float(linecache.getline(p, 1)) | Path(p).write_text(str(k)); linecache.checkcache() | a dict holds
callers | | float(len(inspect.stack()) > 0) | pass | it asks the interpreter by `stack`
seed_of_numpy | | (np.random.seed(3), 1.0)[1] | pass | it seeds numbers of the host
state_of_optimizer | s = optim.SGD([nn.Parameter(fw.ones(1, device=gpu))], lr=1.0) | s.state_dict()["param_groups"][0]["lr"] | s.param_groups[0]["lr"] = k | the state of SGD is read
"""  # noqa: E501 - a row is a line
)

_IMPORTS = """
import abc, argparse, builtins, collections, contextvars, copy, csv, ctypes
import dataclasses, datetime, decimal, enum, functools, gc, importlib, inspect, io
import itertools, linecache, locale, logging, math, mmap, operator, os, pickle
import queue, signal, sqlite3, sys
import tempfile, threading, types, typing, uuid, weakref
from pathlib import Path
import numpy as np, torch
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
import vkbackend.framework as fw
from vkbackend.framework import nn, optim

def imported():
    import stale_module
    return stale_module.alpha

def last(node):
    while node.n is not None: node = node.n
    return node

def absent(owner):
    try: return owner.later
    except AttributeError: return 1.0

def inexact():
    try: return decimal.Decimal(1) / decimal.Decimal(3)
    except decimal.Inexact: return 0

def bumped(owner):
    owner.n += 1
    return owner.n

def later_or_one():
    try: return later
    except NameError: return 1.0
"""

Function = Callable[[fw.Tensor], fw.Tensor]


def installed() -> types.ModuleType:
    """Return a package as if it were installed."""
    module = types.ModuleType("stale_installed")
    file = str(Path("/site-packages/stale_installed.py"))
    module.__file__ = file
    exec(compile(INSTALLED, file, "exec"), vars(module))
    sys.modules["stale_installed"] = module
    return module


def made(row: Row, gpu: Any) -> tuple[Function, Callable[[float], object]]:
    """Return the step of a row, and what changes its state."""
    other = types.ModuleType("stale_module")
    vars(other)["alpha"] = 1.0
    sys.modules["stale_module"] = other
    space: dict[str, Any] = {"I": installed(), "gpu": gpu, "__name__": "stale_program"}
    make = "\n".join(f"    {each}" for each in row.make.split("; ") if each)
    change = "\n".join(f"        {each}" for each in row.change.split("; "))
    exec(compile(_IMPORTS, __file__, "exec"), space)
    text = f"def make():\n{make}\n    def step(x): return x * ({row.read})\n"
    text += f"    def change(k):\n{change}\n    return step, change\n"
    exec(compile(text, __file__, "exec"), space)
    step, changes = space["make"]()
    return step, changes


def results(
    row: Row, gpu: Any, wrap: Callable[[Function], Function], once: bool = False
) -> tuple[list[Any], Any]:
    """Return what calls give, with a change after each, or after the third only."""
    step, change = made(row, gpu)
    wrapped = wrap(step)
    found = []
    for number in range(7):
        found.append(wrapped(fw.tensor([1.0, 2.0], device=gpu)).tolist())
        if not once or number == 2:
            change(number + 2.0)
    return found, wrapped


def main() -> int:
    """Run every row, and print what became of it; the status is 1 if one is stale."""
    gpu = fw.device(sys.argv[1] if len(sys.argv) > 1 else None)
    counts = Counter[str]()
    for row in ROWS:
        for once in (False, True):
            expected, _ = results(row, gpu, lambda step: step, once)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found, step = results(row, gpu, fw.jit, once)
            drawn = row.change == "pass" and row.refused
            right = found == expected or (drawn and not step.replays)
            kind = "replayed" if step.replays else "refused" if said else "plain"
            counts[kind if right else "STALE"] += 1
            print(f"{kind if right else 'STALE':9} {row.name:22} {step.traces} traces")
    print(dict(counts), f"in {tempfile.gettempdir()}")
    return int(counts["STALE"] > 0)


if __name__ == "__main__":
    sys.exit(main())
